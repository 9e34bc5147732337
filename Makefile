# Maintainers' commands; `make help` lists them. Users need none of these.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help test lint types demo clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python tools/install_extras.py test
	touch $@

test: $(VENV)/.installed lint types ## style, types and every test, from a fresh clone
	$(BIN)/python -m pytest

lint: $(VENV)/.installed ## ruff: style and import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed ## mypy on the shared package
	$(BIN)/mypy

.PHONY: crosscheck
crosscheck: $(VENV)/.installed ## our profile sums against MindStudio's msprof-analyze
	$(BIN)/python tools/install_extras.py crosscheck
	$(BIN)/python -m pytest -m crosscheck

demo: ## one diagnosis of a shipped example, with bare Python
	$(PYTHON) graph-mode-diagnostics/scripts/diagnose.py graph-mode-diagnostics/examples/default_stream.txt

clean: ## remove what the targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist
