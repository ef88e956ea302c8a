# SPDX-License-Identifier: Apache-2.0
# Every task of the project. `make help` lists them; CI runs `make test` and `make check`.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := all
.NOTPARALLEL:
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
# Stamps: what `setup` did is not done again until the files it depends on change.
READY_UV := $(VENV)/.ready-uv
READY_DEMO := $(VENV)/.ready-demo
READY_DEV := $(VENV)/.ready-dev
READY_EXTENSION = $(VENV)/.ready-extension-$(PROFILE)

# How the extension is built. release is for users and for figures. quick builds in half the time: for who wants to see that
# it works. dev is slow to run, and shares what is compiled with the Rust tests, so CI passes it.
PROFILE ?= $(if $(filter demo test,$(MAKECMDGOALS)),quick,release)
# Only release builds go to dist/.
WHEELS = $(if $(filter release,$(PROFILE)),dist,build/wheels)
# Extra flags for every cargo call; CI passes --locked.
CARGO_FLAGS ?=
# Extra arguments for pytest, for example: make test PYTEST_ARGS="tests/contract -x"
PYTEST_ARGS ?=
# Where cargo builds.
TARGET := $(or $(CARGO_TARGET_DIR),target)
# Seed of `make sim`; empty means a fresh one. The run prints it.
SEED ?=
# Steps that `make sim` takes beside the reference model.
STEPS ?= 10000000
# The one run that `make sim` repeats, as printed by a failure; empty means all.
RUN ?=
# Inputs that `make explore` tries for each property in Rust.
CASES ?= 10000
# Seconds that `make fuzz` gives each target, and which; empty means all.
FUZZ_SECONDS ?= 60
KILL_CYCLES ?= 500
KILL_SECONDS ?= inf
# Faults of servers and stores that `make test-engines` makes, over all its engines, and the seed of their order; empty
# means a fresh one. A run prints it.
FAULTS ?= 1000
FAULTS_SEED ?=
FUZZ_TARGET ?=
CARGO_FUZZ_VERSION := 0.13.2
# Suites of `make bench`, and a case and a contender of them; empty means `core`, and all of it.
SUITE ?=
CASE ?=
CONTENDER ?=

HOST_TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
RUSTC_VERSION := $(shell rustc -vV 2>/dev/null | sed -n 's/^release: //p')
# Where release builds spend their time, as `make profile` found it. Only the compiler that it was made with can use it;
# others build without.
PROFDATA := profile/$(RUSTC_VERSION)-$(HOST_TARGET).profdata
PROFILED = $(if $(filter release quick,$(PROFILE)),$(wildcard $(PROFDATA)))
MATURIN = $(if $(PROFILED),RUSTFLAGS="$(RUSTFLAGS) -Cprofile-use=$(abspath $(PROFILED)) -Cllvm-args=-no-pgo-warn-mismatch") \
	$(BIN)/maturin
# A target of its own leaves build scripts and macros as they are.
MATURIN_FLAGS = --profile $(PROFILE) $(if $(filter release quick,$(PROFILE)),--target $(HOST_TARGET)) $(CARGO_FLAGS)
RUST_SOURCES := Cargo.toml $(wildcard Cargo.lock) $(shell find rust -type f \( -name '*.rs' -o -name Cargo.toml -o -path '*/console/assets/*' \) 2>/dev/null)

UV_SYNC := $(BIN)/uv sync --frozen --inexact --no-install-project --python $(BIN)/python
# Programs started by a recipe belong to the project's own environment, whatever is active outside.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export UV_PROJECT_ENVIRONMENT := $(VIRTUAL_ENV)
unexport PYTHONHOME
unexport PYTHONPATH
# Compiling PySpark and pandas again in every process takes longer than most tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: all
all: test check ## Build, test and check everything, as CI does (the default)

.PHONY: help
help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-19s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: doctor
doctor: ## Say which of Python, Rust, Java and C compiler are missing
	@.ci/doctor python rust java

.PHONY: setup
setup: $(READY_DEV) ## Create .venv with the pinned tools; does nothing when it is up to date

$(READY_UV): requirements/uv.txt .ci/doctor
	@.ci/doctor python rust java
	"$$(.ci/doctor --python)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(READY_DEMO): $(READY_UV) uv.lock pyproject.toml
	$(UV_SYNC) --no-default-groups --group build --extra demo
	@touch $@

$(READY_DEV): $(READY_UV) uv.lock pyproject.toml
	$(UV_SYNC) --all-extras
	@touch $@ $(READY_DEMO)

$(READY_EXTENSION): $(READY_DEMO) $(RUST_SOURCES) $(PROFILED) pyproject.toml
	$(MATURIN) develop --uv $(MATURIN_FLAGS)
	@rm -f $(VENV)/.ready-extension-* && touch $@

.PHONY: dev
dev: $(READY_EXTENSION) ## Build the extension and install the package into .venv, editable (PROFILE=dev builds faster)

.PHONY: demo
demo: $(READY_EXTENSION) ## Run the demo: 336,776 real flights through a queue, sessions and a topic; goes on where it was killed
	$(BIN)/oxbus demo

.PHONY: test
test: setup dev wheel ## Run every Rust and Python test, those with Spark included
	cargo test $(CARGO_FLAGS) --workspace --exclude oxbus-bench
	$(BIN)/python -m pytest -n 4 $(PYTEST_ARGS)

# Versions of PySpark beside the one of uv.lock that the source works with; each has its requirements/spark-VERSION.txt.
SPARK_VERSIONS ?= 4.0 4.1
# Left out: the examples and the demo need its data; a cluster of their own would show nothing new.
SPARK_VERSIONS_SKIP := tests/spark/test_spark_examples.py tests/spark/test_demo_encoding.py tests/spark/matrix/test_matrix_cluster.py

build/spark-%/.ready: requirements/spark-%.txt $(READY_UV)
	"$$(.ci/doctor --python)" -m venv --clear build/spark-$*
	VIRTUAL_ENV=$(CURDIR)/build/spark-$* $(BIN)/uv pip install --quiet --require-hashes -r $<
	@touch $@

.PHONY: test-spark-versions
test-spark-versions: wheel $(SPARK_VERSIONS:%=build/spark-%/.ready) ## Run what older PySparks can of tests/spark (SPARK_VERSIONS="4.0 4.1")
	@for version in $(SPARK_VERSIONS); do \
		echo "=== PySpark $$version ==="; \
		VIRTUAL_ENV=$(CURDIR)/build/spark-$$version $(BIN)/uv pip install --quiet --no-deps --reinstall $(WHEELS)/oxbus-*.whl; \
		build/spark-$$version/bin/python -m pytest tests/spark $(SPARK_VERSIONS_SKIP:%=--ignore %) $(PYTEST_ARGS); \
	done

.PHONY: test-bench
test-bench: setup dev ## Run every suite of bench/ at a thousandth of its size: do all cases still work?
	$(BIN)/python -m pytest -n 2 -m whole_suite tests/bench $(PYTEST_ARGS)

.PHONY: test-foreign
test-foreign: setup dev ## Run the client with RabbitMQ, Artemis and an emulator of Service Bus, which it fetches (needs Node)
	$(UV_SYNC) --no-default-groups --group peers
	$(BIN)/python -m pytest -m foreign tests/foreign $(PYTEST_ARGS)

# With it, `make test` runs the tests of the console in a browser, too.
.PHONY: browser
browser: setup console/node_modules ## Install what the tests of the console with a browser need (needs Node)
	$(UV_SYNC) --no-default-groups --group browser

.PHONY: test-console
test-console: dev browser ## Test the console in a headless Chromium, with axe (needs Node; OXBUS_SCREENSHOTS=1 takes the pictures of the docs)
	$(BIN)/python -m pytest -n 2 tests/console $(PYTEST_ARGS)

tests/stored/engines/node_modules: tests/stored/engines/package-lock.json
	npm --prefix tests/stored/engines ci --no-audit --no-fund
	@touch $@

# With it, `make test` runs the tests of namespaces in object storage with Azurite, too.
.PHONY: engines
engines: tests/stored/engines/node_modules ## Install Azurite for the tests of namespaces in object storage (needs Node)

VERSITYGW_VERSION := v1.8.0
# MinIO is under the AGPL: a peer of the tests, and nothing that oxbus ships or links.
MINIO_VERSION := v0.0.0-20260212201848-7aac2a2c5b7c

$(TARGET)/tools/bin/versitygw:
	GOBIN=$(abspath $(TARGET))/tools/bin go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)

$(TARGET)/tools/bin/minio:
	GOBIN=$(abspath $(TARGET))/tools/bin go install github.com/minio/minio@$(MINIO_VERSION)

ENGINES ?= azurite versitygw minio postgres-standby

.PHONY: test-engines
test-engines: setup dev engines $(TARGET)/tools/bin/versitygw $(TARGET)/tools/bin/minio ## Test stores with Azurite, versitygw, MinIO and a PostgreSQL that replicates, through FAULTS=1000 faults (needs Node, Go and PostgreSQL; ENGINES=...)
	PATH="$(abspath $(TARGET))/tools/bin:$$PATH" OXBUS_TEST_ENGINES="$(ENGINES)" OXBUS_STORE_FAULTS=$(FAULTS) \
		OXBUS_STORE_FAULTS_SEED=$(FAULTS_SEED) $(BIN)/python -m pytest -n 2 -rP tests/stored $(PYTEST_ARGS)

HELM_VERSION := v3.18.4

$(TARGET)/tools/bin/helm:
	GOBIN=$(abspath $(TARGET))/tools/bin go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)

.PHONY: test-deploy
test-deploy: $(TARGET)/tools/bin/helm ## Check the chart of deploy/helm and the unit of deploy/systemd (needs Go)
	$< lint deploy/helm/oxbus --strict --set rulesSecret=keys
	$< template oxbus deploy/helm/oxbus --set rulesSecret=keys >/dev/null
	@if command -v systemd-analyze >/dev/null; then sed 's|/opt/oxbus/bin/oxbus|/bin/true|' deploy/systemd/oxbus.service > build/oxbus.service; \
		systemd-analyze verify build/oxbus.service; fi

.PHONY: kill
kill: setup dev ## Kill processes that work on a namespace (KILL_CYCLES=500; each test stops after KILL_SECONDS)
	OXBUS_KILL_CYCLES=$(KILL_CYCLES) OXBUS_KILL_SECONDS=$(KILL_SECONDS) \
		$(BIN)/python -m pytest -n 2 -rP tests/durable/test_kill.py

.PHONY: check
check: setup dev ## Formats, lints, types, stubs, layers
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --profile $(PROFILE) --workspace --exclude oxbus-bench --all-targets -- -D warnings
	RUSTFLAGS="--cfg loom" cargo check $(CARGO_FLAGS) -p oxbus-store --lib --profile test --target-dir $(TARGET)/loom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/package/test_stubs.py tests/package/test_layers.py

.PHONY: format
format: setup ## Rewrite the sources the way `check` wants them
	cargo fmt --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: wheel
wheel: $(READY_DEMO) ## Build one wheel for CPython 3.11 and later into dist/
	@mkdir -p $(WHEELS) && rm -f $(WHEELS)/*.whl
	$(MATURIN) build --interpreter $(BIN)/python --out $(WHEELS) $(MATURIN_FLAGS)

.PHONY: sdist
sdist: $(READY_DEMO) ## Pack the sources with the crates that they need into dist/; they build without a network
	.ci/sdist $(CURDIR)/$(BIN)/maturin

# Counting takes twice the time of a build, then a minute of work and one more build.
.PHONY: profile
profile: setup ## Record again where release builds spend their time; needs llvm-profdata
	@.ci/llvm-profdata --version >/dev/null
	@rm -rf build/profile && mkdir -p build/profile profile
	RUSTFLAGS="$(RUSTFLAGS) -Cprofile-generate=$(CURDIR)/build/profile" \
		$(BIN)/maturin develop --uv --profile release --target $(HOST_TARGET) --target-dir $(TARGET)/counting $(CARGO_FLAGS)
	@rm -f $(VENV)/.ready-extension-*
	$(BIN)/python bench/training.py >/dev/null
	.ci/llvm-profdata merge --sparse -o $(PROFDATA) build/profile/*.profraw

# The packages of the peers are for the suite that needs them; a peer that cannot be installed is left out.
.PHONY: bench
bench: setup dev ## Measure ours beside limits and peers, then draw the report (SUITE=core, spark, durable, stored, peers, network, amqp; CASE=, CONTENDER=)
	$(if $(filter peers amqp stored,$(SUITE)),-$(UV_SYNC) --no-default-groups --group peers)
	$(BIN)/python bench/run.py $(SUITE:%=--suite %) $(if $(CASE),--case "$(CASE)") $(if $(CONTENDER),--contender "$(CONTENDER)")
	$(BIN)/python bench/report.py

.PHONY: bench-report
bench-report: setup ## Draw tables and plots of README.md and docs/performance.md from the newest results
	$(BIN)/python bench/report.py

.PHONY: instructions
instructions: setup dev ## Count the instructions of the hot paths, and refuse what became 5 % longer (INSTRUCTIONS=--update)
	$(BIN)/python bench/instructions.py --profile $(PROFILE) $(INSTRUCTIONS)

.PHONY: loom
loom: ## Try every interleaving of the lock-free parts
	RUSTFLAGS="--cfg loom" cargo test $(CARGO_FLAGS) -p oxbus-store --release --lib --target-dir $(TARGET)/loom loom

.PHONY: asan
asan: ## Run the store's tests under AddressSanitizer (needs the nightly toolchain)
	RUSTFLAGS="-Zsanitizer=address" cargo +nightly test $(CARGO_FLAGS) -p oxbus-store --lib \
		--target $(HOST_TARGET) --target-dir $(TARGET)/asan

.PHONY: spark-chaos
spark-chaos: setup dev ## Copy queues with Spark through 50 kills of the server, then 10,000 sessions through those of driver and server
	OXBUS_RESTARTS=50 $(BIN)/python -m pytest -n 0 tests/spark/matrix/test_matrix_restarts.py -k random $(PYTEST_ARGS)
	OXBUS_RESTARTS=20 OXBUS_SESSIONS=10000 $(BIN)/python -m pytest -n 0 tests/spark/matrix/test_matrix_restarts.py \
		-k kills_of_driver --junitxml=build/spark-chaos.xml -o junit_family=xunit1 $(PYTEST_ARGS)

.PHONY: fuzz
fuzz: $(TARGET)/tools/bin/cargo-fuzz ## Fuzz recovery, rules, AMQP and HTTP (FUZZ_SECONDS=60 each, FUZZ_TARGET=...; needs the nightly toolchain)
	@for target in $(or $(FUZZ_TARGET),recover catalog rules amqp_codec amqp_engine amqp_client http); do \
		PATH="$(abspath $(TARGET))/tools/bin:$$PATH" cargo +nightly fuzz run --fuzz-dir fuzz \
			--target-dir $(abspath $(TARGET))/fuzz $$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=4096; \
	done

$(TARGET)/tools/bin/cargo-fuzz:
	cargo install --locked --root $(TARGET)/tools --version $(CARGO_FUZZ_VERSION) cargo-fuzz

.PHONY: sim
sim: ## Simulate against the reference model (STEPS=10000000, SEED=..., RUN=... for one run again)
	@seed="$(or $(SEED),$$RANDOM$$RANDOM)"; echo "seed $$seed; run it again: make sim SEED=$$seed STEPS=$(STEPS)"; \
		OXBUS_SIM_STEPS=$(STEPS) OXBUS_SIM_RUN=$(RUN) PROPTEST_RNG_SEED=$$seed cargo test $(CARGO_FLAGS) -p oxbus-sim --release

.PHONY: explore
explore: setup dev ## Try the properties of the tests on many more inputs (CASES=10000 in Rust, 2,000 in Python)
	PROPTEST_CASES=$(CASES) cargo test $(CARGO_FLAGS) --workspace --exclude oxbus-bench --no-fail-fast
	$(BIN)/python -m pytest -n 2 -m hypothesis --hypothesis-profile=explore $(PYTEST_ARGS)

# Warnings are errors, a broken link among them.
console/node_modules: console/package-lock.json
	npm --prefix console ci --no-audit --no-fund
	@touch $@

# The result is part of the repository, so that only who changes the console needs Node.
.PHONY: console-assets
console-assets: console/node_modules ## Build the pages of the console into the server's sources, after a change in console/ (needs Node)
	npm --prefix console run --silent check
	npm --prefix console run --silent build

.PHONY: console-check
console-check: console/node_modules ## Check that the pages in the server's sources are those that console/ builds (needs Node)
	npm --prefix console run --silent check
	npm --prefix console run --silent build -- --check

.PHONY: docs
docs: $(READY_UV) ## Build the site of the documentation into build/site
	UV_PROJECT_ENVIRONMENT=$(CURDIR)/build/docs-venv VIRTUAL_ENV= $(BIN)/uv sync --frozen --no-install-project --no-default-groups \
		--group docs --python $(BIN)/python
	rm -rf build/site
	build/docs-venv/bin/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going -c docs/site docs build/site
	@echo "The site is build/site/index.html."

.PHONY: audit
audit: $(READY_DEV) ## Look for known weaknesses and unwanted licences in what we depend on
	$(UV_SYNC) --all-extras --group audit
	$(BIN)/pip-audit --skip-editable
	cargo deny check

CARGO_ABOUT_VERSION := 0.8.2

$(TARGET)/tools/bin/cargo-about:
	cargo install --locked --root $(TARGET)/tools --version $(CARGO_ABOUT_VERSION) cargo-about

.PHONY: licences
licences: $(TARGET)/tools/bin/cargo-about ## Write THIRD-PARTY-LICENSES.txt, the licences of the crates in the wheels, after a change of Cargo.lock
	$< generate --locked --fail -o THIRD-PARTY-LICENSES.txt about.hbs

.PHONY: lock
lock: $(READY_UV) ## Rewrite uv.lock and requirements/*.txt
	$(BIN)/uv lock
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 \
		--custom-compile-command "make lock" requirements/uv.in --output-file requirements/uv.txt
	@for version in $(SPARK_VERSIONS); do \
		$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 \
			--custom-compile-command "make lock" requirements/spark-$$version.in --output-file requirements/spark-$$version.txt; \
	done

.PHONY: clean
clean: ## Remove everything that was built, .venv included
	rm -rf $(VENV) target dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log bench/.cache
	find python -name '*.so' -delete
	find python tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
