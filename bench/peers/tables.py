"""The routing table in each peer's own language, by the cheapest means that decides as the table does.

Every peer can say the whole table, but for Traefik: it has no rule that answers 404, so what the table refuses leads
to a service without servers there, which answers 503.
"""

import collections.abc
import json

from rules import Rule

Rules = collections.abc.Sequence[Rule]

# Where a template of the runtime names its service: the segment behind `/runtime/`.
SERVICE_SEGMENTS = 9


def contract(rules: Rules) -> str:
    """Families of a contract. A refused subtree of the runtime is a claim, and the rules before it are its routes."""
    claims: dict[str, list[str]] = {"internal-only": [], "extension": [], "central": [], "workspace": []}
    claimed = {rule.template for rule in rules if rule.family is None}
    routes = []
    for rule in rules:
        if rule.family == "extension":
            routes.append(rule.template)
            if "/".join(rule.template.split("/")[:SERVICE_SEGMENTS]) + "/**" not in claimed:
                claims["extension"].append(rule.template)
        elif rule.family is None and "/runtime/" in rule.template:
            claims["extension"].append(rule.template)
        else:
            claims[rule.family or "internal-only"].append(rule.template)
    text = "version = 1\n"
    for name, templates in claims.items():
        text += f'\n[[family]]\nname = "{name}"\n' + ('serve = "never"\n' if name == "internal-only" else "")
        text += f"claims = {json.dumps(templates, indent=2)}\n"
        if name == "extension":
            text += f"routes = {json.dumps(routes, indent=2)}\n"
    return text


def nginx(rules: Rules) -> str:
    """Locations: prefixes stand in nginx's tree, all others are expressions that are tried in their order."""
    lines = []
    for rule in rules:
        action = f"{{ proxy_pass http://{rule.family}; }}" if rule.family else "{ return 404; }"
        if rule.is_prefix:
            lines += [f"location = {rule.stem} {action}", f"location ^~ {rule.stem}/ {action}"]
        else:
            lines.append(f'location ~ "^{rule.expression("(?:/|$)")}{"" if rule.is_subtree else "$"}" {action}')
    return "\n    ".join(lines)


def haproxy(rules: Rules) -> dict[str, str]:
    """Three maps: whole paths and prefixes, which are trees, and expressions, which are tried in their order."""
    exact, prefixes, expressions = [], [], []
    for rule in rules:
        family = rule.family or "refused"
        if rule.is_prefix:
            exact.append(f"{rule.stem} {family}")
            prefixes.append(f"{rule.stem}/ {family}")
        else:
            expressions.append(f"^{rule.expression('(?:/|$)')}{'' if rule.is_subtree else '$'} {family}")
    return {"exact.map": "\n".join(exact), "prefixes.map": "\n".join(prefixes), "expressions.map": "\n".join(expressions)}


def envoy(rules: Rules) -> str:
    """Routes, tried in their order; each is a line of YAML in its flow form."""
    lines = []
    for rule in rules:
        match = {"path_separated_prefix": rule.stem} if rule.is_prefix else {"safe_regex": {"regex": rule.expression()}}
        action = {"route": {"cluster": rule.family, "timeout": "60s"}} if rule.family else {"direct_response": {"status": 404}}
        lines.append("- " + json.dumps({"match": match} | action))
    lines.append('- {"match": {"prefix": "/"}, "direct_response": {"status": 404}}')
    return "\n              ".join(lines)


def traefik(rules: Rules) -> str:
    """Routers, tried by priority: the first rule has the highest."""
    routers = {}
    for number, rule in enumerate(rules):
        matcher = f"Path(`{rule.stem}`) || PathPrefix(`{rule.stem}/`)" if rule.is_prefix else f"PathRegexp(`^{rule.expression()}$`)"
        routers[f"rule-{number:05}"] = {"rule": matcher, "service": rule.family or "refused", "priority": len(rules) - number}
    return json.dumps(routers, indent=1)


def caddy(rules: Rules) -> str:
    """Mappings of one `map` handler, tried in their order."""
    return json.dumps(
        [{"input_regexp": f"^{rule.expression()}$", "outputs": [rule.family or "refused"]} for rule in rules], indent=1
    )
