# Maintainers' commands; `make help` lists them. Users need none of these.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SIM_VENV ?= .venv-sim
SIM_TORCH ?= 2.13.0

.PHONY: help test sim lint types demo clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python tools/install_extras.py test
	touch $@

test: $(VENV)/.installed lint types ## style, types and every test, from a fresh clone
	$(BIN)/python -m pytest

sim: ## the simulator's tests, with the real torch_npu in an environment of its own (needs g++)
	$(PYTHON) -m venv $(SIM_VENV)
	$(SIM_VENV)/bin/python -m pip install --quiet "pytest>=8,<10" "pytest-timeout>=2.3,<3"
	-$(SIM_VENV)/bin/python -m pip install --quiet torch==$(SIM_TORCH) numpy pyyaml packaging
	-$(SIM_VENV)/bin/python -m pip install --quiet --no-deps torch_npu==$(SIM_TORCH)
	$(SIM_VENV)/bin/python -m pytest -m sim tests/sim

lint: $(VENV)/.installed ## ruff: style and import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed ## mypy on the shared package
	$(BIN)/mypy

demo: ## one diagnosis of a shipped example, with bare Python
	$(PYTHON) graph-mode-diagnostics/scripts/diagnose.py graph-mode-diagnostics/examples/default_stream.txt

clean: ## remove what the targets made
	rm -rf $(VENV) $(SIM_VENV) .pytest_cache .mypy_cache .ruff_cache dist
