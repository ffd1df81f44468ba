# Thin on purpose: every line can be run by hand. Plain `make` runs the first target.

BIN := .venv/bin
JOBS ?= 2
SIZE ?= --full
BACKENDS_REPORT := .cache/backends.txt
# The tests start hundreds of programs: compile the modules once, whatever the environment sets.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/bytecode

.PHONY: help setup services-setup page format lint check test flaky coverage torture bench compare mutants demo clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

setup: .venv/.complete ## Make .venv with the pinned dependencies and headway itself

.venv/.complete: requirements-dev.txt pyproject.toml tools/setup
	tools/setup
	@touch $@

services-setup: ## Install the servers that have no wheel (as root on Debian; otherwise print the command)
	@tools/services-setup

page: setup ## Build the web page, if its source has changed
	$(BIN)/python hatch_build.py

format: setup ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lint: setup page ## Check style, types, import contracts, the workflow and the deployment files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python hatch_build.py run --silent lint
	$(BIN)/zizmor --offline --no-progress --quiet .github
	$(BIN)/hadolint deploy/Dockerfile
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec deploy/compose.yaml

check: lint ## The quick loop: lint, and most of the tests that need no server
	$(BIN)/pytest -q -n $(JOBS) --backends=sqlite -m "not slow" --ignore=tests/cli --ignore=tests/e2e --ignore-glob='tests/torture/test_[!e]*'

test: setup services-setup page lint ## Everything: lint, all tests on every backend
	$(BIN)/pytest -q -n $(JOBS) --dist worksteal --backends-report=$(BACKENDS_REPORT)
	@cat $(BACKENDS_REPORT)

flaky: setup services-setup page ## Repeat tests to find a flaky one: make flaky K=name [N=50]
	@test -n "$(K)" || { echo "name the tests: make flaky K=part_of_a_name [N=50]"; exit 2; }
	for round in $$(seq $(or $(N),50)); do $(BIN)/pytest -q -x -n $(JOBS) -k "$(K)" || exit 1; done

coverage: setup services-setup page ## All tests, and which lines no test executes; takes twice as long
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -n $(JOBS) --dist worksteal
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

torture: setup services-setup ## The long fault runs: kills, pauses, failovers under load (SIZE= for short ones)
	$(BIN)/python -m tests.torture $(SIZE)
	$(BIN)/python -m tests.torture.server $(SIZE)

bench: setup services-setup ## Compare the engine with other systems, and the store with the raw drivers
	$(BIN)/python -m tests.bench

compare: setup services-setup ## Measure this tree beside an earlier commit: make compare REV=main~20
	@test -n "$(REV)" || { echo "name the earlier commit: make compare REV=main~20"; exit 2; }
	$(BIN)/python -m tests.bench.against $(REV)

mutants: setup services-setup ## Plant bugs one by one, and check that the tests catch each
	$(BIN)/python -m tests.mutants

demo: setup ## See what headway does: a server with its page, a worker, runs and flows
	@$(BIN)/python hatch_build.py || echo "The page could not be built; the demo continues without it."
	$(BIN)/python -m headway demo

clean: ## Remove the environment, the caches and build results
	rm -rf .venv .cache dist htmlcov .coverage .coverage.* .hypothesis
	rm -rf src/headway/_ui web/node_modules web/src/client
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
