# Windlass. `make help` lists what there is; every target sets up what it needs, from a bare Debian 12 on.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

PYTHON ?= python3
UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
COMPAT := .compat
GENERATOR := .generator
JUPYTER := .jupyter
AZURITE := .azurite
WEBUI := .webui
SCANS := .scans
AZURITE_VERSION := 3.35.0
TORCH := .torch
TENSORFLOW := .tensorflow
STAMPS := .make
export UV_PYTHON_DOWNLOADS := never
# Tests start hundreds of interpreters: none of them compiles again what another has.
unexport PYTHONDONTWRITEBYTECODE
PYTEST_ARGS ?=
TESTS ?= tests/unit tests/contract tests/simulation tests/gpu
# Tests that compute: one worker for each core. Slow ones wait for processes: five for two cores.
TEST_WORKERS ?= $(shell nproc)
SLOW_WORKERS ?= $(shell echo $$((5 * $$(nproc) / 2)))
# Tests of a file stay together: they may share a cluster. A worker that crashes ends the run: tests may not have run,
# and a run with another worker in its place may hang.
SPREAD := --max-worker-restart 0 --dist loadfile
PYTEST := pytest
# The part of the examples that properties are tried with; all of them in test-all.
EXAMPLES ?= 0.25

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

.PHONY: demo
demo: $(STAMPS)/demo ## Run a real adaptive ASHA search on an elastic pool, live in this terminal
	@$(BIN)/python -P examples/digits_asha/demo.py

.PHONY: test
test: $(STAMPS)/dev $(STAMPS)/compat $(STAMPS)/azurite ## Set up and run the tests that start no cluster
	WINDLASS_EXAMPLES=$(EXAMPLES) $(BIN)/python -P -m $(PYTEST) -n $(TEST_WORKERS) $(SPREAD) --durations 20 -m "not slow" $(PYTEST_ARGS) $(TESTS)

.PHONY: test-all
test-all: ## Run every test; of each half, at most six that fail get a second attempt, alone
	$(MAKE) test PYTEST=tests.second_attempt EXAMPLES=1
	$(MAKE) test-slow

.PHONY: test-slow
test-slow: $(STAMPS)/dev $(STAMPS)/compat $(STAMPS)/generator $(STAMPS)/jupyter $(STAMPS)/chromium $(STAMPS)/servers $(STAMPS)/azurite $(STAMPS)/scans $(STAMPS)/webui ## Run the tests marked slow, as test-all does
	$(BIN)/python -P -m tests.second_attempt -n $(SLOW_WORKERS) $(SPREAD) --durations 20 -m slow $(PYTEST_ARGS)

.PHONY: test-gpu
test-gpu: $(STAMPS)/dev ## Run the tests that need a GPU; WINDLASS_TEST_TORCH names a Python with torch for one of them
	$(BIN)/python -P -m pytest -m gpu -rs $(PYTEST_ARGS) tests/gpu

.PHONY: test-pbs
test-pbs: $(STAMPS)/dev ## Hold the PBS of this machine to the contract: PBS_QUEUE has two free nodes, PBS_FOLDER is seen by them (emptied!)
	@command -v qstat >/dev/null || { echo "Skipped: qstat is not installed, there is no PBS here"; exit 0; }; \
	WINDLASS_TEST_PBS=$(or $(PBS_QUEUE),workq) $(BIN)/python -P -m pytest -rs $(PYTEST_ARGS) --basetemp=$(or $(PBS_FOLDER),$(HOME)/windlass-test-pbs) tests/contract/batch

.PHONY: torch
torch: $(STAMPS)/torch ## Set up PyTorch, Hugging Face, Lightning, DeepSpeed and the published package, for the slow tests of frameworks (large download)

.PHONY: tensorflow
tensorflow: $(STAMPS)/tensorflow ## Set up TensorFlow's Keras and the published package, for the slow tests of frameworks (large download)

.PHONY: lint
lint: $(STAMPS)/dev $(STAMPS)/webui ## Check files, formatting, types, import directions and the pages
	$(BIN)/python .ci/check_files.py
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m tools.vendor_webui --check
	$(BIN)/python -m tools.webui_states --check
	$(BIN)/python -m tools.webui_types --check
	$(BIN)/python -m tools.check_webui

.PHONY: webui
webui: $(STAMPS)/webui ## Write the generated files of the pages: libraries, states, types of the API
	$(BIN)/python -m tools.vendor_webui
	$(BIN)/python -m tools.webui_states
	$(BIN)/python -m tools.webui_types

.PHONY: docs
docs: $(STAMPS)/dev ## Write docs/reference/ from the code
	$(BIN)/python -m tools.reference

.PHONY: docs-site
docs-site: $(STAMPS)/dev ## Write the pages of docs/ as a site, which a master serves under /docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q
	find master/site -name '*.map' -delete

.PHONY: wheel
wheel: docs-site ## Build the wheel, with the pages, into dist/
	$(BIN)/uv build -q --wheel

.PHONY: bench
bench: $(STAMPS)/dev ## Measure against the budgets of the design
	$(BIN)/python -m benchmarks.calibration
	missed=""
	for script in benchmarks/bench_*.py; do
	  name=$$(basename $$script .py)
	  $(BIN)/python -m benchmarks.$$name || missed="$$missed $$name"
	  echo
	done
	test -z "$$missed" || { echo "failed, or missed a budget:$$missed" >&2; exit 1; }

.PHONY: lock
lock: $(STAMPS)/uv ## Resolve the dependencies again into the lock files
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --extra dev \
	  --no-emit-index-url --no-header --exclude-newer "1 week" pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --extra demo \
	  --no-emit-index-url --no-header --exclude-newer "1 week" pyproject.toml \
	  -c requirements.lock -o requirements-demo.lock

.PHONY: clean
clean: ## Remove everything that make made
	rm -rf master/site $(VENV) $(COMPAT) $(GENERATOR) $(JUPYTER) $(AZURITE) $(WEBUI) $(SCANS) $(TORCH) $(STAMPS) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# What the setup steps leave behind. Each stamp is newer than what it was made from.

$(STAMPS)/uv:
	@mkdir -p $(STAMPS)
	if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	    echo "installing python3-venv"; apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
	  else
	    echo "Python's venv is missing: install the package python3-venv (as root: apt-get install python3-venv)" >&2; exit 1
	  fi
	fi
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check uv==$(UV_VERSION)
	touch $@

# bubblewrap contains tasks best (without it the agent does so by its own means); tests of shells and of installing over
# SSH need sshd, those of what goes through a shell rsync.
$(STAMPS)/packages: $(STAMPS)/uv
	@missing=""
	command -v bwrap >/dev/null || missing="bubblewrap"
	PATH="$$PATH:/usr/sbin" command -v sshd >/dev/null || missing="$$missing openssh-server"
	command -v rsync >/dev/null || missing="$$missing rsync"
	if [ -z "$$missing" ]; then
	  :
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	  echo "installing $$missing"
	  { apt-get update -qq && apt-get install -y -qq $$missing >/dev/null; } || echo "$$missing cannot be installed: tests with it are skipped" >&2
	else
	  echo "not installed: $$missing: tests with it are skipped (as root: apt-get install $$missing)" >&2
	fi
	touch $@

# Containers, for tests only: an engine that needs no daemon, and a runtime that takes old and new kernels.
$(STAMPS)/engine: $(STAMPS)/uv
	@if command -v podman >/dev/null && command -v runc >/dev/null; then
	  :
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	  echo "installing podman and runc"
	  { apt-get update -qq && apt-get install -y -qq podman runc >/dev/null; } || echo "podman cannot be installed: tests with it are skipped" >&2
	else
	  echo "podman or runc is not installed: tests with them are skipped (as root: apt-get install podman runc)" >&2
	fi
	touch $@

# A batch system with its accounting and REST, and sudo, for tests only: they start what they need themselves. policy-rc.d
# keeps the packages from starting services of the machine's; each that cannot be had costs only the tests with it.
$(STAMPS)/slurm: $(STAMPS)/uv Makefile
	@PATH="$$PATH:/usr/sbin:/sbin"
	missing=""
	for one in slurm-wlm:sbatch slurm-wlm:slurmctld munge:munged slurmdbd:slurmdbd slurmrestd:slurmrestd \
	  mariadb-server-core:mariadbd mariadb-client-core:mariadb sudo:sudo; do
	  command -v "$${one#*:}" >/dev/null || missing="$$missing $${one%:*}"
	done
	ls /usr/lib/*/slurm*/auth_jwt.so >/dev/null 2>&1 || missing="$$missing slurm-wlm-jwt-plugin"
	if [ -z "$$missing" ]; then
	  :
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	  if [ ! -e /usr/sbin/policy-rc.d ]; then
	    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d
	  fi
	  apt-get update -qq || true
	  for package in $$missing; do
	    echo "installing $$package"
	    apt-get install -y -qq --no-install-recommends "$$package" >/dev/null || echo "$$package cannot be installed: tests with it are skipped" >&2
	  done
	else
	  echo "not installed:$$missing: tests with them are skipped (as root: apt-get install$$missing)" >&2
	fi
	touch $@

# The demo installs only what it needs; once the development set is there it is enough for the demo too.
$(STAMPS)/demo: $(STAMPS)/uv $(STAMPS)/packages requirements-demo.lock pyproject.toml
	@if [ ! -e $(STAMPS)/dev ]; then
	  echo "setting up the demo"
	  VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q --require-hashes -r requirements-demo.lock
	  VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q --no-deps -e .
	fi
	touch $@

$(STAMPS)/dev: $(STAMPS)/uv $(STAMPS)/packages $(STAMPS)/engine $(STAMPS)/slurm requirements.lock pyproject.toml
	@echo "setting up the development environment"
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q --require-hashes -r requirements.lock
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q --no-deps -e .
	touch $@

# The published client, unmodified, in an environment of its own.
$(STAMPS)/compat: $(STAMPS)/uv tests/compat/requirements.lock
	@echo "setting up the published client"
	test -x $(COMPAT)/bin/python || $(PYTHON) -m venv $(COMPAT)
	VIRTUAL_ENV=$(COMPAT) $(BIN)/uv pip install -q --compile-bytecode --require-hashes -r tests/compat/requirements.lock
	touch $@

# A generator of clients, which needs an older typer than ours.
$(STAMPS)/generator: $(STAMPS)/uv tests/integration/generated_client/requirements.lock
	@echo "setting up the client generator"
	test -x $(GENERATOR)/bin/python || $(PYTHON) -m venv $(GENERATOR)
	VIRTUAL_ENV=$(GENERATOR) $(BIN)/uv pip install -q --require-hashes -r tests/integration/generated_client/requirements.lock
	touch $@

# JupyterLab and TensorBoard, for the Python that any user of the machine may run: notebooks of tests are other users' processes.
$(STAMPS)/jupyter: $(STAMPS)/uv tests/integration/notebooks/requirements.lock
	@echo "setting up JupyterLab and TensorBoard"
	test -x $(JUPYTER)/bin/python || /usr/bin/python3 -m venv --without-pip $(JUPYTER)
	VIRTUAL_ENV=$(JUPYTER) $(BIN)/uv pip install -q --compile-bytecode --require-hashes -r tests/integration/notebooks/requirements.lock
	touch $@

# A browser, for the tests of pages: the system's, driven by Playwright.
$(STAMPS)/chromium: $(STAMPS)/uv
	@if command -v chromium >/dev/null; then
	  :
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	  echo "installing chromium"
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || echo "chromium cannot be installed: tests with it are skipped" >&2
	else
	  echo "chromium is not installed: tests with it are skipped (as root: apt-get install chromium)" >&2
	fi
	touch $@

# A reverse proxy and what reads metrics, for tests only: they start what they need themselves.
$(STAMPS)/servers: $(STAMPS)/uv
	@PATH="$$PATH:/usr/sbin:/sbin"
	missing=""
	for one in nginx-light:nginx prometheus:prometheus; do
	  command -v "$${one#*:}" >/dev/null || missing="$$missing $${one%:*}"
	done
	if [ -z "$$missing" ]; then
	  :
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	  if [ ! -e /usr/sbin/policy-rc.d ]; then
	    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d
	  fi
	  apt-get update -qq || true
	  for package in $$missing; do
	    echo "installing $$package"
	    apt-get install -y -qq --no-install-recommends "$$package" >/dev/null || echo "$$package cannot be installed: tests with it are skipped" >&2
	  done
	else
	  echo "not installed:$$missing: tests with them are skipped (as root: apt-get install$$missing)" >&2
	fi
	touch $@

# What looks at Terraform files: checkov, which wants older libraries than ours, and the schemas of Terraform's plug-ins.
$(STAMPS)/scans: $(STAMPS)/uv tests/integration/deploy/scans/requirements.lock tests/integration/deploy/scans/schemas.lock
	@echo "setting up checkov and the schemas of Terraform's plug-ins"
	test -x $(SCANS)/bin/python || $(PYTHON) -m venv $(SCANS)
	{ VIRTUAL_ENV=$(SCANS) $(BIN)/uv pip install -q --require-hashes -r tests/integration/deploy/scans/requirements.lock && \
	  $(BIN)/python -m pip download -q --disable-pip-version-check --no-deps --require-hashes \
	    -r tests/integration/deploy/scans/schemas.lock -d $(SCANS)/schemas; } \
	  || echo "checkov or the schemas cannot be installed: tests with them are skipped" >&2
	touch $@

# What checks the pages, from npm, by the Node that pyright brings. No page needs it to be shown.
$(STAMPS)/webui: $(STAMPS)/dev package.json package-lock.json
	@echo "setting up the type checker of the pages"
	$(BIN)/python -m tools.webui_node
	touch $@

# The emulator of Azure's storage, from npm.
$(STAMPS)/azurite: $(STAMPS)/uv
	@if command -v npm >/dev/null; then
	  echo "setting up Azurite"
	  npm install --silent --no-audit --no-fund --no-save --prefix $(AZURITE) azurite@$(AZURITE_VERSION) \
	    || echo "Azurite cannot be installed: tests with it are skipped" >&2
	else
	  echo "npm is not installed: tests with Azurite are skipped" >&2
	fi
	touch $@

# Only where somebody asks for it. The tests of frameworks are skipped without it.
$(STAMPS)/torch: $(STAMPS)/uv tests/frameworks/requirements.txt tests/compat/requirements.lock
	@echo "setting up PyTorch and the published package"
	test -x $(TORCH)/bin/python || $(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install -q --disable-pip-version-check -r tests/frameworks/requirements.txt
	VIRTUAL_ENV=$(TORCH) $(BIN)/uv pip install -q --compile-bytecode --require-hashes -r tests/compat/requirements.lock
	VIRTUAL_ENV=$(TORCH) $(BIN)/uv pip install -q --compile-bytecode --no-build-isolation -r tests/frameworks/requirements-deepspeed.txt
	touch $@

$(STAMPS)/tensorflow: $(STAMPS)/uv tests/frameworks/requirements-tensorflow.txt
	@echo "setting up TensorFlow and the published package"
	test -x $(TENSORFLOW)/bin/python || $(PYTHON) -m venv $(TENSORFLOW)
	VIRTUAL_ENV=$(TENSORFLOW) $(BIN)/uv pip install -q --compile-bytecode -r tests/frameworks/requirements-tensorflow.txt
	touch $@
