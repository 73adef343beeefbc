# `make help` lists the targets.
CARGO        ?= cargo
PREFIX       ?= /usr/local
FUZZ_SECONDS ?= 60
SECONDS      ?= 120
OUT          ?= out
TARGET_DIR   := $(or $(CARGO_TARGET_DIR),target)
WEIR         := $(TARGET_DIR)/release/weir

.DEFAULT_GOAL := help
.PHONY: help setup build demo test python wheel bench kernel soak soak-sweep billion lint docs figures fuzz sanitize nightly install uninstall sim-image clean

help: ## list the targets
	@echo "make TARGET:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1	\2/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## install the Debian packages for building, running and testing
	@scripts/setup

build: ## build the release binary, target/release/weir
	@scripts/need-cargo
	@scripts/setup build
	$(CARGO) build --release --locked -p weir-cli $$(scripts/features)

demo: ## a real download and pings behind a DSL line: configured and measured values
	@scripts/setup demo
	@scripts/need-cargo
	$(CARGO) build --profile demo --locked -p weir-cli $$(scripts/features)
	@scripts/demo --weir $(TARGET_DIR)/demo/weir --out $(OUT)

test: ## all tests, including live ones; lists skipped tests with the reasons at the end
	@scripts/setup test python
	@scripts/need-cargo
	@scripts/test --out $(OUT)

python: ## build the Python package weirlab and install it into a virtual environment
	@scripts/setup build python
	@scripts/need-cargo
	@scripts/python build

wheel: ## make a wheel of weirlab in OUT, show for which systems it is, and try it out
	@scripts/setup build python
	@scripts/need-cargo
	@scripts/python wheel --out $(OUT)

bench: ## criterion benches of the crates, then live measurements if the machine allows them
	@scripts/setup bench
	@scripts/need-cargo
	@scripts/bench

kernel: ## record the cases of docs/kernel.md with Linux in a guest, where this machine can
	@scripts/setup kernel
	@kernel/record --guests $(OUT)/kernel

soak: ## run the daemon for SECONDS (120) under traffic, changes, flapping and kill -9
	@scripts/need-cargo
	@scripts/setup build test
	$(CARGO) build --release --locked -p weir-cli -p weir-load $$(scripts/features)
	@bench/soak/run --seconds $(SECONDS) --weir $(WEIR) --load $(TARGET_DIR)/release/weir-load --out $(OUT)/soak

soak-sweep: python ## kill workers, schedulers and clients of a campaign 50 times, and check its store
	@$(TARGET_DIR)/python/bin/python bench/sweep/soak.py --kills 50

billion: ## pass 10⁹ packets through one engine and check that each is accounted for
	@scripts/need-cargo
	$(CARGO) run --release --locked -p weir-sim --example billion

lint: ## check formatting, clippy, shell scripts, licences and advisories of dependencies
	@scripts/need-cargo
	@scripts/lint

docs: ## generate API documentation (Rust and Python), man pages, link-spec.md and rules.md
	@scripts/need-cargo
	@scripts/docs --out $(OUT)

figures: build ## make the pictures of the documentation again, from real runs
	@scripts/figures --weir $(WEIR)

fuzz: ## run every fuzz target for FUZZ_SECONDS (60); needs a nightly toolchain
	@scripts/need-cargo
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz

sanitize: ## tests under the address and thread sanitizers; needs a nightly toolchain
	@scripts/need-cargo
	@scripts/sanitize

nightly: ## property tests with a random seed, fuzz targets, Miri and sanitizers, where installed
	@scripts/need-cargo
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/nightly

install: build ## install the binary, man pages and completions under PREFIX (/usr/local)
	@scripts/install --weir $(WEIR) --prefix $(DESTDIR)$(PREFIX)

uninstall: ## remove the files that `make install` put under PREFIX
	@scripts/install --remove --prefix $(DESTDIR)$(PREFIX)

sim-image: build ## build the container image weir-sim for the QUIC interop runner; needs Docker
	@packaging/sim/build --weir $(WEIR)

clean: ## remove build products and reports
	$(CARGO) clean
	rm -rf $(OUT)
