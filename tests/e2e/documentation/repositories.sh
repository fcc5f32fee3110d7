# The repositories that docs/ci.md is about, made before its commands are run: one of contracts with a main branch and a
# pull request that closes a path, and a server's folder with the OpenAPI document that it exports.
shop=$PWD/shop
mkdir -p "$shop/profiles" server
cat > "$shop/contract.toml" <<'TOML'
version = 1

[[family]]
name   = "partner-api"
claims = ["/api/partners/**"]

[[family]]
name   = "storefront"
claims = ["/", "/products/**", "/offers/**"]

[profile.partner-api]
owns   = ["partner-api"]
routes = ["profiles/partner-api.json"]

[profile.storefront]
owns   = ["storefront"]
routes = ["profiles/storefront.toml"]
TOML
cat > "$shop/profiles/storefront.toml" <<'TOML'
route = [
  { method = "GET", path = "/" },
  { method = "GET", path = "/products/**" },
  { method = "GET", path = "/offers/**" },
]
TOML
document() {
    printf '{"openapi": "3.1.0", "info": {"title": "Partners", "version": "1"}, "paths": {%s}}\n' "$1"
}
document '"/api/partners/**": {}' | sed 's/\*\*/{partner}/' > "$shop/profiles/partner-api.json"
document '"/api/partners/{partner}": {"get": {}}, "/products/{sku}/stock": {"put": {}}' > server/openapi.json

git init --quiet --bare --initial-branch main contracts.git
git clone --quiet contracts.git work 2>/dev/null
cp -r "$shop/." work
git -C work config user.name test
git -C work config user.email test@example.com
git -C work checkout --quiet -B main
git -C work add .
git -C work commit --quiet --message "The shop"
git -C work push --quiet origin main
git -C work checkout --quiet -b change
sed -i 's|, "/offers/\*\*"||' work/contract.toml
sed -i '/offers/d' work/profiles/storefront.toml
export CONTRACTS=$PWD/contracts.git BASE=main
