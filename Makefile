# All targets for contributors; `make help` lists them. xtask/ contains the checks.

# Lint tools. They take minutes to compile, so they are built once into .tools. Only this file pins
# their versions.
CARGO_DENY := 0.20.2
CARGO_MACHETE := 0.9.2
CARGO_FUZZ := 0.13.2

SERVICES := scripts/with-services.sh
TOOLS := $(CURDIR)/.tools

# CI uses the committed lock file unchanged.
LOCKED := $(if $(CI),--locked)

# cargo-nextest if it is installed, else `cargo test`.
ifneq ($(shell cargo nextest --version 2>/dev/null),)
# Many tests wait for timers and for the disk, so two tests for each processor keep these busy.
TEST_THREADS := $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
RUN_TESTS := cargo nextest run $(LOCKED) --workspace --test-threads $(TEST_THREADS) --profile $(if $(CI),ci,default)
RUN_PROOFS := cargo nextest run $(LOCKED) --workspace --profile prove --run-ignored only -E 'test(/(^|::)prove_/)'
else
RUN_TESTS := cargo test $(LOCKED) --workspace --lib --bins --tests
RUN_PROOFS := cargo test $(LOCKED) --workspace --lib --bins --tests -- --ignored prove_
endif

.DEFAULT_GOAL := help
.PHONY: help run test format build-tests install-clients check lint audit prove fuzz nightly bench measure sdks console clients real-servers docs openapi

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build the release binary and start the gateway with its default settings
	cargo build $(LOCKED) --release --package tollgate
	target/release/tollgate serve

BUILT := $${CARGO_TARGET_DIR:-target}/debug

# One compilation of the workspace applies clippy and rustdoc, and builds the tests.
test: export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/scripts/checked-rustc.sh

# The client tests use the binaries that the Rust tests have built.
test: format ## Run the checks of `check`, all tests, the console's journeys and the official clients; starts PostgreSQL and Redis if necessary
	$(MAKE) --jobs=2 --keep-going build-tests install-clients
	cargo xtask openapi check
	$(SERVICES) --in-memory $(RUN_TESTS)
	TOLLGATE_BIN=$(BUILT)/tollgate FAKE_UPSTREAM_BIN=$(BUILT)/fake-upstream \
		$(MAKE) --jobs=2 --output-sync=target console sdks

format:
	cargo fmt --all --check
	cargo xtask tidy

build-tests:
	$(RUN_TESTS) --no-run

install-clients:
	web/run.sh --install
	sdk-tests/run.sh --official --install

# With the features of the tests, the dependencies of the documentation are those of clippy.
DOCS := --workspace --features tollgate-storage/conformance --no-deps --document-private-items

check: format ## Check formatting, tidy rules, clippy, the OpenAPI documents and rustdoc
	cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings
	cargo xtask openapi check
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc $(LOCKED) $(DOCS)

lint: $(TOOLS)/cargo-deny-$(CARGO_DENY) $(TOOLS)/cargo-machete-$(CARGO_MACHETE) ## Check bans, licences and sources of dependencies; find unused ones
	cargo fetch $(LOCKED)
	$(TOOLS)/bin/cargo-deny --offline check bans licenses sources
	$(TOOLS)/bin/cargo-machete

audit: $(TOOLS)/cargo-deny-$(CARGO_DENY) ## Check dependencies for security advisories (fetches the database)
	$(TOOLS)/bin/cargo-deny check advisories

prove: ## Run the long tests of the ledger's invariants (ignored tests named prove_…)
	$(SERVICES) $(RUN_PROOFS)

FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))
# libFuzzer stores new inputs in fuzz/corpus, and inputs that make a target fail in fuzz/artifacts.
fuzz: nightly $(TOOLS)/cargo-fuzz-$(CARGO_FUZZ) ## Fuzz every parser for FUZZ_SECONDS each (default 60); needs nightly Rust
	@set -e; for target in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/corpus/$$target; \
		dictionary=fuzz/dictionaries/$$target.dict; \
		PATH="$(TOOLS)/bin:$$PATH" cargo +nightly fuzz run --fuzz-dir fuzz $$target \
			fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=4096 \
			$$(test ! -f $$dictionary || echo -dict=$$dictionary); \
	done

nightly:
	@rustup run nightly rustc --version > /dev/null 2>&1 || { \
		echo 'make fuzz: libFuzzer needs a nightly compiler, and none is installed.' >&2; \
		echo 'Install one with: rustup toolchain install nightly --profile minimal' >&2; \
		exit 1; \
	}

bench: ## Compare the gateway with similar gateways on the loopback (ARGS=--quick for a short run)
	cargo build $(LOCKED) --profile dist --package tollgate --package tollgate-bench
	$(SERVICES) scripts/bench.sh target/dist/compare $(ARGS)
	target/dist/jobs
	target/dist/batches
	target/dist/decisions
	target/dist/realtime

# The upstream of the gateway: the simulator first, then a server of each of these formats.
WIRES := azure-openai anthropic openai-responses gemini bedrock
sdks: ## Run the official client libraries against a running binary (part of make test)
	sdk-tests/run.sh --official
	@set -e; for wire in $(WIRES); do sdk-tests/run.sh --official --wire $$wire; done

console: ## Check the types of the console and run its journeys in Chromium (part of make test)
	test -n "$$TOLLGATE_BIN" || cargo build $(LOCKED) --package tollgate
	TOLLGATE_BIN="$${TOLLGATE_BIN:-$(BUILT)/tollgate}" web/run.sh

clients: ## Run all clients: make sdks plus frameworks and coding agents (installs about 3 GB)
	sdk-tests/run.sh
	@set -e; for wire in $(WIRES); do sdk-tests/run.sh --toolkits --wire $$wire; done

real-servers: ## Test the gateway with vLLM, llama.cpp and transformers serve and tiny models (installs about 6 GB)
	cargo build $(LOCKED) --package tollgate
	sdk-tests/real-upstream/servers.sh --gateway-binary $(BUILT)/tollgate

measure: ## Time single functions, and print the accuracy of decision estimates
	$(SERVICES) cargo test $(LOCKED) --release -p tollgate-formats -p tollgate-backends -p tollgate-probability -- --ignored --nocapture bench_

docs: ## Build the rustdoc documentation
	cargo doc $(LOCKED) $(DOCS)

openapi: ## Write docs/openapi.json from the code; fails on breaking changes
	cargo xtask openapi write

# Each version has a stamp file, so a new pin installs the tool again. Debug builds compile in half
# the time.
$(TOOLS)/cargo-%:
	CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --locked --root $(TOOLS) $(call tool,$*)
	touch $@

tool = cargo-$(firstword $(subst -, ,$(1)))@$(lastword $(subst -, ,$(1)))
