# Needs Python 3.11 to 3.13 and make; everything else is installed into .venv.
# PYTHON=/path/to/python picks an interpreter; ARGS goes to the command, PYTEST_ARGS="-k name" to pytest.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/scraper-pipeline
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Images of Python like to forbid it; then every process of a run compiles all its sources anew.
export PYTHONDONTWRITEBYTECODE :=

CHECKED := scraper_pipeline scraper_pipeline_tests docs examples $(wildcard benchmarks)
SUITES := scraper_pipeline_tests/end_to_end scraper_pipeline_tests/integration scraper_pipeline_tests/unit

.PHONY: help setup demo dev test suites check unit sbom advisories dist bench chaos drill breakages browser-test docs docs-serve screenshots settings-table targets-schema command-reference locks clean

help: ## Show these lines
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

setup: $(VENV)/.installed ## Make .venv with what the pipeline needs

demo: $(VENV)/.installed ## Run the whole pipeline against the local sandbox; PAGES=2000 for a larger day
	$(RUN) demo $(if $(PAGES),--pages $(PAGES)) $(ARGS)

dev: $(VENV)/.installed ## Serve Dagster's UI and daemon; with the sandbox unless a key is set
	$(RUN) dev $(ARGS)

test: ## Run every check and every test
	$(MAKE) --no-print-directory --jobs 2 check suites

suites: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations 25 $(SUITES) $(PYTEST_ARGS)

check: $(VENV)/.installed-dev ## Lint, check the types, the layers and the dependencies
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(CHECKED)
	$(BIN)/lint-imports --no-cache
	$(BIN)/deptry scraper_pipeline
	$(BIN)/deptry scraper_pipeline_tests --ignore DEP002,DEP004
	$(BIN)/python -m pip check
	$(MAKE) --no-print-directory sbom

sbom: $(VENV)/.installed-dev ## Write what the pipeline is made of to build/sbom.json, as CycloneDX
	@mkdir -p build
	$(BIN)/python -W ignore -m cyclonedx_py requirements requirements.txt --pyproject pyproject.toml --output-reproducible --validate \
		--output-format JSON --output-file build/sbom.json

advisories: $(VENV)/.installed-dev ## Ask the package index for known vulnerabilities of what is locked; needs a network
	$(BIN)/pip-audit --requirement requirements.txt --no-deps --disable-pip --strict

dist: sbom ## Build the package into dist/, with what it is made of beside it
	$(BIN)/uv build --quiet --out-dir dist
	cp build/sbom.json dist/

unit: $(VENV)/.installed-dev ## Run the tests that take seconds
	$(BIN)/python -m pytest scraper_pipeline_tests/unit $(PYTEST_ARGS)

bench: $(VENV)/.installed-dev ## Measure, side by side
	$(BIN)/python -m benchmarks $(ARGS)

chaos: $(VENV)/.installed-dev ## Kill everything at every moment, and audit what is left; the package says how to repeat a run
	$(BIN)/python -m scraper_pipeline_tests.chaos $(ARGS)

drill: $(VENV)/.installed-dev ## Start the production topology on this machine, restart every part of it, and audit what is left
	$(BIN)/python -m scraper_pipeline_tests.drill $(ARGS)

breakages: $(VENV)/.installed-dev ## Switch each rule off in a copy of the sources, and print which test notices
	$(BIN)/python -m scraper_pipeline_tests.mutations $(ARGS)

docs: $(VENV)/.installed-dev ## Make a site of the documents in build/docs; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)

docs-serve: $(VENV)/.installed-dev ## Show the documents at 127.0.0.1:8000, anew whenever one changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000 $(ARGS)

browser-test: $(VENV)/.installed-dev ## Use Dagster's UI in a real browser; needs Chromium and its driver
	$(BIN)/python -m pytest scraper_pipeline_tests/browser $(PYTEST_ARGS)

screenshots: $(VENV)/.installed-dev ## Take the pictures of docs/images anew; needs Chromium and its driver
	$(BIN)/python docs/screenshots.py

settings-table: $(VENV)/.installed ## Write the table of docs/settings.md anew
	$(BIN)/python docs/settings_table.py

targets-schema: $(VENV)/.installed ## Write the JSON schema of targets.yaml anew
	$(BIN)/python docs/targets_schema.py

command-reference: $(VENV)/.installed ## Write the reference of docs/command-line.md anew
	$(BIN)/python docs/command_reference.py

locks: $(VENV)/.installed-dev ## Write the locks anew; ARGS=--upgrade takes newer releases
	$(BIN)/uv pip compile $(LOCK) $(ARGS) pyproject.toml --output-file requirements.txt
	$(BIN)/uv pip compile $(LOCK) $(ARGS) pyproject.toml --group dev --constraint requirements.txt \
		$$(sed -n '/== .win32/!s/^\([a-z0-9-]*\)[=[].*/--no-emit-package \1/p' requirements.txt) --no-emit-package pip \
		--output-file requirements-dev.txt

LOCK := --quiet --universal --python-version 3.11 --custom-compile-command 'make locks' \
	--no-emit-index-url --no-emit-find-links

clean: ## Remove .venv and caches; var/ stays
	rm -rf $(VENV) .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The locks name all that is needed, so pip has nothing to resolve; `pip check` looks through what came of it.
$(VENV)/.installed: requirements.txt pyproject.toml $(VENV)/.made
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

# What the tests need beside that: `make test` installs both at once, for they have no package in common.
$(VENV)/.tools: requirements-dev.txt $(VENV)/.made
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --requirement requirements-dev.txt
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed $(VENV)/.tools
	@touch $@

$(VENV)/.made:
	@for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
		"$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || continue; \
		"$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
			echo "$$python cannot make virtual environments: install its venv module" \
				"(on Debian and Ubuntu: apt-get install python3-venv)." >&2; exit 1; }; \
		echo "Making $(VENV) with $$("$$python" -V) ..."; \
		"$$python" -m venv --clear $(VENV) && touch $@; exit; \
	done; \
	echo "No Python 3.11, 3.12 or 3.13 found$(if $(PYTHON), at $(PYTHON)): install one, or name it:" \
		"make setup PYTHON=/path/to/python3.12" >&2; exit 1

