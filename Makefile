# Each target is one line to read. `deps` installs what the tests need, `lint` and `fuzz` their own tools; nothing else installs anything.
CACHE ?= $(or $(BELLWETHER_CACHE),$(HOME)/.cache/bellwether)
CARGO_DENY := $(CACHE)/tools/bin/cargo-deny
CARGO_FUZZ := $(CACHE)/tools/bin/cargo-fuzz

.PHONY: up deps test lint bench chaos fuzz conformance

up: ## everything on this machine
	cargo run --release -- up

deps: ## what the tests need: packages, real Kubernetes, etcd and Go clients built from source, CRDs of other projects, Python's client, Schemathesis, once
	scripts/deps && tests/kube/build >/dev/null && tests/kube/crds >/dev/null && tests/go/build >/dev/null && tests/python/install >/dev/null && tests/schemathesis/install >/dev/null

test: deps ## every test, also against real Kubernetes
	KUBEBUILDER_ASSETS="$$(tests/kube/build)" BELLWETHER_CRDS="$$(tests/kube/crds)" BELLWETHER_SCHEMATHESIS="$$(tests/schemathesis/install)" scripts/test

lint: $(CARGO_DENY) ## formatting, retired words, clippy, and the licences and sources of dependencies
	cargo fmt --check && scripts/retired-words && cargo clippy --workspace --all-targets --all-features -- -D warnings && $(CARGO_DENY) check bans licenses sources

bench: ## the published figures, side by side with real Kubernetes
	cargo build --profile dist && KUBEBUILDER_ASSETS="$$(tests/kube/build)" cargo run --profile dist -p bellwether-bench -- apiserver

chaos: ## a thousand kills under load, and a million simulated courses of the observability status
	BELLWETHER_CRASH_CYCLES=1000 cargo test -p bellwether --features real-brokers,real-postgres --test process crash -- --nocapture && BELLWETHER_SIMULATION_SEEDS=1000000 cargo test -p bellwether-observability --test simulation

fuzz: $(CARGO_FUZZ) ## malformed requests to the API server, each target for FUZZ_SECONDS (300)
	PATH="$(CACHE)/tools/bin:$$PATH" scripts/fuzz

conformance: ## Kubernetes' own end-to-end specs that need no nodes, against our API server
	tests/conformance/run

$(CARGO_DENY):
	cargo install cargo-deny --version 0.20.2 --locked --root "$(CACHE)/tools"

$(CARGO_FUZZ):
	cargo install cargo-fuzz --version 0.13.2 --locked --root "$(CACHE)/tools"
