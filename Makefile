# What continuous integration runs, by name. `make all` is the whole of it; pre-commit calls the same targets.
BIN := $(if $(wildcard .venv/bin/python),.venv/bin/,)
# One thread each: the tests already use every core, and two-thread fits of XGBoost wait for each other.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: all format lint types layers tests quick cov bench data

all: lint types layers tests

format:  ## rewrite in the project's style
	$(BIN)ruff check --fix
	$(BIN)ruff format

lint:  ## style and the simplest mistakes
	$(BIN)ruff check
	$(BIN)ruff format --check

types:  ## static types, strictly
	$(BIN)mypy

layers:  ## imports go down only; heavy libraries stay in their package
	$(BIN)lint-imports

tests:  ## every test and every docstring example
	$(BIN)python -m pytest -n 2 --dist worksteal

quick:  ## all but the slow ones
	$(BIN)python -m pytest -n 2 --dist worksteal -m "not slow"

cov:  ## branch coverage
	$(BIN)python -m pytest -n 2 --dist worksteal --cov --cov-report term-missing

bench:  ## speed on this machine, then the accuracy of every protocol on the shipped runs
	$(BIN)python benchmarks/speed.py
	$(BIN)surrogate evaluate data/runs.parquet

data:  ## the shipped table from its sources
	$(BIN)surrogate data build
