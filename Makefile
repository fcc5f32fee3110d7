# What one does with this tree. `make demo` and `make test` need nothing but rustup and a C compiler: they
# install what else is missing, or say what to install.

CARGO ?= cargo
LISTEN ?= 127.0.0.1:8080
ADMIN ?= 127.0.0.1:9901

CONTRACTS := $(wildcard config/*/contract.toml)

.DEFAULT_GOAL := help
# No target here is a file, but those with a slash.
.PHONY: $(shell awk -F : '/^[a-z-]+:/ { print $$1 }' $(firstword $(MAKEFILE_LIST)))

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what the build needs and the machine lacks (cmake, for zlib-ng)
	@.ci/setup

DEPLOYMENT ?= agentteam

demo: setup ## Serve a deployment of config/ (DEPLOYMENT) on $(LISTEN), with embedded upstreams, until Ctrl-C
	@$(CARGO) build --locked --package gateway
	@exec ./target/debug/gateway demo --deployment $(DEPLOYMENT) --listen $(LISTEN) --admin $(ADMIN)

# Benches are left out: as tests they would be built once more and show nothing.
test: setup ## Run all tests: unit, command line, end to end, documentation
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  $(CARGO) nextest run --workspace --locked --no-fail-fast && $(CARGO) test --workspace --locked --doc --quiet; \
	else \
	  $(CARGO) test --workspace --locked --no-fail-fast; \
	fi

check: ## Prove every contract under config/
	@test -n "$(CONTRACTS)" || { echo "no contract under config/"; exit 2; }
	@set -e; for contract in $(CONTRACTS); do \
	  $(CARGO) run --quiet --locked --package route-contract -- check --deny-warnings $$contract; \
	done

import-corpus: ## Install the large documents that the importers are tested on (needs npm)
	@.ci/import-corpus

lint: components ## rustfmt and clippy, with every warning denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings

# Private items are documented too, so an overview may link to the private modules that it lists.
docs: ## Build the documentation, with every warning denied
	RUSTDOCFLAGS="--deny warnings --allow rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --locked --no-deps --document-private-items

bench: setup ## Measure the matcher, the check, and the parts of a request's way
	$(CARGO) bench --locked --workspace --bench matcher --bench check --bench request

# Other proxies and load generators are installed by name. A short form:
#   make bench-peers BENCH='--peers gateway nginx haproxy --work h1 tls-h2 --rules 5 --rounds 2 --seconds 2'
BENCH ?= --readme bench/README.md

bench-peers: setup ## Measure the gateway and other proxies side by side; writes the tables of bench/README.md (BENCH)
	@bench/peers/setup
	@python3 bench/peers/run.py $(BENCH)

bench-instructions: setup ## Count the gateway's instructions a request; fails at 3 % over bench/instructions.json
	@command -v valgrind >/dev/null || apt-get install --quiet --yes --no-install-recommends valgrind
	@$(CARGO) build --locked --profile dist --package gateway
	@python3 bench/peers/instructions.py

bench-telemetry: setup ## Measure what logs, metrics and traces cost; fails above 1.15 times the CPU time without them
	@bench/peers/setup generators
	@$(CARGO) build --locked --release --package gateway
	@bench/telemetry.py

kit: setup ## Run the black-box kit against the gateway, plain and over TLS (KIT: the kit's folder)
	@$(CARGO) build --locked --release --package gateway
	@python3 tests/kit/run.py all --again --gateway target/release/gateway

kit-exact: setup ## Run the kit's scripts that judge bytes and no times: paths, smuggle, ws (KIT: the kit's folder)
	@$(CARGO) build --locked --package gateway
	@python3 tests/kit/run.py paths smuggle ws --again --gateway target/debug/gateway
	@python3 tests/kit/run.py smuggle ws --tls --again --gateway target/debug/gateway

big-body: setup ## Measure what bodies of 1 GiB cost the gateway in memory
	@$(CARGO) build --locked --release --package gateway
	@python3 tests/load/big_body.py --gateway target/release/gateway

kit-paths: setup ## Run the black-box kit's paths against the gateway (KIT: the kit's folder)
	@$(CARGO) build --locked --package gateway
	@python3 tests/kit/run.py paths --gateway target/debug/gateway

differential: setup ## Ask seven real servers what they make of the paths that are forwarded; writes docs/readings.md
	@tests/differential/setup
	@python3 tests/differential/run.py --page docs/readings.md

map-check: ## Look at the maps of contracts with a real browser (Debian: apt-get install chromium)
	$(CARGO) test --locked --package route-contract --test map -- --nocapture

status-check: setup ## Look at the status page with a real browser (needs npm and Debian's chromium)
	@command -v npm >/dev/null || { echo "status-check: NOT CHECKED: npm is missing"; exit 2; }
	@$(CARGO) build --locked --package gateway
	@cd tests/status_page && npm ci --silent --no-audit --no-fund
	@node tests/status_page/check.mjs target/debug/gateway

monitoring-check: setup ## Let a real Prometheus scrape the demo and ask what the dashboard asks (Debian's prometheus)
	@$(CARGO) build --locked --package gateway
	@python3 tests/monitoring/check.py --gateway target/debug/gateway

FUZZ_SECONDS ?= 60

fuzz: ## Run each fuzz target for FUZZ_SECONDS (needs cargo-fuzz; no sanitizer, so that stable Rust will do)
	@set -e; for target in $$(cd fuzz/fuzz_targets && ls | sed 's/\.rs$$//'); do \
	  mkdir -p fuzz/corpus/$$target; \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none $$target fuzz/corpus/$$target \
	    $$(for folder in fuzz/seeds/$$target fuzz/found/$$target tests/import/$${target#import_}; do test -d $$folder && echo $$folder; done) \
	    -- -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -timeout=10 -rss_limit_mb=2048; \
	done

fuzz-check: ## Compile the fuzz targets, so that they do not rot
	$(CARGO) check --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz

# The long forms are measured with what is shipped; PROFILE=dev builds faster.
PROFILE ?= release
# Packages are what is shipped.
DEB_PROFILE ?= profiled
ENDURE = $(CARGO) test --locked --profile $(PROFILE) --package gateway --test endurance

fault: setup ## Five minutes of upstreams that are killed, frozen and misbehave (FAULT_SECONDS)
	FAULT_SECONDS=$${FAULT_SECONDS:-300} $(ENDURE) fault -- --nocapture

hostile: setup ## 50,000 hostile requests; the number of series and memory must stay what they were (HOSTILE_REQUESTS)
	$(ENDURE) hostile -- --ignored --nocapture

starve: setup ## One family hangs under 2,000 requests and 500 WebSockets; the others are measured (STARVE_SECONDS)
	STARVE_SECONDS=$${STARVE_SECONDS:-30} $(ENDURE) starve -- --nocapture

soak: setup ## Twenty minutes of mixed traffic and faults; memory must not grow (SOAK_SECONDS)
	SOAK_SECONDS=$${SOAK_SECONDS:-1200} $(ENDURE) soak -- --ignored --nocapture

rolling: setup ## Ten rolling restarts of two gateways behind HAProxy under load; no request may fail (ROLLING_ROUNDS)
	ROLLING_ROUNDS=$${ROLLING_ROUNDS:-10} $(ENDURE) rolling -- --nocapture

upgrade: setup ## Ten binary upgrades under load; no request may fail (UPGRADE_ROUNDS)
	UPGRADE_ROUNDS=$${UPGRADE_ROUNDS:-10} $(ENDURE) upgrade -- --nocapture

reload-storm: setup ## 500 reloads under requests, WebSockets and HTTP/2 streams; nothing may be dropped (RELOADS)
	$(ENDURE) reload_storm -- --ignored --nocapture

kit-slow: setup ## Run the black-box kit's slow clients against the gateway (KIT: the kit's folder)
	@$(CARGO) build --locked --package gateway
	@python3 tests/kit/run.py slow --gateway target/debug/gateway

migrating: setup ## Ask nginx, HAProxy, Envoy and Traefik the same paths, as far as they are installed; writes docs/migrating.md
	@$(CARGO) build --locked --package gateway
	@tests/migrating/run.py --page docs/migrating.md

target/containers-check/bin/python: tests/containers/requirements.txt
	@python3 -m venv target/containers-check
	@target/containers-check/bin/pip install --quiet --disable-pip-version-check --requirement $<

containers-check: target/containers-check/bin/python ## Check what is under docker/ without an engine and without a cluster (needs Python)
	@target/containers-check/bin/python tests/containers/check.py

deny: ## Check licences, sources and advisories of all dependencies (needs cargo-deny)
	$(CARGO) deny --locked check

profiled: setup ## Build the gateway as it is shipped, optimised with counts of a load, into target/profiled (20 minutes)
	@packaging/build-profiled

sbom: ## Write a bill of materials for each program into target/sbom (needs cargo-cyclonedx)
	@packaging/build-sbom

deb: setup ## Build the Debian packages into target/debian (needs cargo-deb; DEB_PROFILE=dist or dev is faster)
	@PROFILE=$(DEB_PROFILE) packaging/build-deb

deb-check: deb ## Install, start, reload, stop and purge the packages on a fresh Debian 12 (as root; needs debootstrap)
	@packaging/check-deb

fresh-root: ## Run `make demo` and `make test` on a fresh Debian 12, timed (as root; needs debootstrap)
	@packaging/check-fresh-root

components:
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 \
	  || rustup component add rustfmt clippy

clean: ## Remove what was built
	$(CARGO) clean
