# Every target that a contributor needs; `make help` lists them. The checks themselves are in xtask/.

# Lint tools, built once into .tools because they take minutes; versions are pinned here and nowhere else.
CARGO_DENY := 0.20.2
CARGO_MACHETE := 0.9.2
CARGO_FUZZ := 0.13.2

SERVICES := scripts/with-services.sh
TOOLS := $(CURDIR)/.tools

# On CI the lock file is taken as it is.
LOCKED := $(if $(CI),--locked)

# nextest where it is installed, else cargo's own runner.
ifneq ($(shell cargo nextest --version 2>/dev/null),)
RUN_TESTS := cargo nextest run $(LOCKED) --workspace --profile $(if $(CI),ci,default)
RUN_PROOFS := cargo nextest run $(LOCKED) --workspace --profile prove --run-ignored only -E 'test(/(^|::)prove_/)'
else
RUN_TESTS := cargo test $(LOCKED) --workspace --lib --bins --tests
RUN_PROOFS := cargo test $(LOCKED) --workspace --lib --bins --tests -- --ignored prove_
endif

.DEFAULT_GOAL := help
.PHONY: help run test check lint audit prove fuzz nightly bench measure sdks clients docs openapi

help: ## Lists the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Builds the release binary and starts the gateway with its embedded default
	cargo build $(LOCKED) --release --package tollgate
	target/release/tollgate serve

BUILT := $${CARGO_TARGET_DIR:-target}/debug

# The clients call the binaries that the tests have built.
test: check ## check, then every test and the official clients; brings up the PostgreSQL and Redis that they need
	cargo test $(LOCKED) --workspace --doc --quiet
	$(SERVICES) $(RUN_TESTS)
	TOLLGATE_BIN=$(BUILT)/tollgate FAKE_UPSTREAM_BIN=$(BUILT)/fake-upstream $(MAKE) sdks

check: ## Format, tidy, clippy, the API document, the code's own documentation
	cargo fmt --all --check
	cargo xtask tidy
	cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings
	cargo xtask openapi check
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc $(LOCKED) --workspace --no-deps --document-private-items

lint: $(TOOLS)/cargo-deny-$(CARGO_DENY) $(TOOLS)/cargo-machete-$(CARGO_MACHETE) ## Bans, licences and sources of dependencies; unused dependencies
	cargo fetch $(LOCKED)
	$(TOOLS)/bin/cargo-deny --offline check bans licenses sources
	$(TOOLS)/bin/cargo-machete

audit: $(TOOLS)/cargo-deny-$(CARGO_DENY) ## Security advisories of dependencies (fetches the database)
	$(TOOLS)/bin/cargo-deny check advisories

prove: ## The long proofs of the money's invariants (ignored tests named prove_…)
	$(SERVICES) $(RUN_PROOFS)

FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))
# What libFuzzer finds stays in fuzz/corpus; what breaks a target is in fuzz/artifacts.
fuzz: nightly $(TOOLS)/cargo-fuzz-$(CARGO_FUZZ) ## Fuzzes every parser for FUZZ_SECONDS each (60 unless set); needs nightly Rust
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

bench: ## Compares the gateway with its peers on the loopback, in one run (ARGS=--quick for a short one)
	cargo build $(LOCKED) --profile dist --package tollgate --package tollgate-bench
	$(SERVICES) scripts/bench.sh target/dist/compare $(ARGS)
	target/dist/jobs
	target/dist/batches
	target/dist/decisions

# Behind the gateway: the simulator, then a server of each of these formats.
WIRES := azure-openai anthropic openai-responses gemini bedrock
sdks: ## The official client libraries against a running binary, as make test runs them
	sdk-tests/run.sh --official
	@set -e; for wire in $(WIRES); do sdk-tests/run.sh --official --wire $$wire; done

clients: ## The same with frameworks and coding agents besides (installs about 2 GB)
	sdk-tests/run.sh

measure: ## Times single functions, such as the check of a request or a hold with its settlement; prints how near estimates of decisions are
	$(SERVICES) cargo test $(LOCKED) --release -p tollgate-formats -p tollgate-backends -p tollgate-estimate -- --ignored --nocapture bench_

docs: ## Builds the code's documentation
	cargo doc $(LOCKED) --workspace --no-deps --document-private-items

openapi: ## Writes docs/openapi.json from the code; refuses to lose anything
	cargo xtask openapi write

# A stamp for each version, so that a new pin installs anew. Debug builds: they compile in half the time.
$(TOOLS)/cargo-%:
	CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --locked --root $(TOOLS) $(call tool,$*)
	touch $@

tool = cargo-$(firstword $(subst -, ,$(1)))@$(lastword $(subst -, ,$(1)))
