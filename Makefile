# Everything runs in .venv, which is made from the locks in requirements/ and is safe to delete.
PYTHON ?= python3
BIN := .venv/bin
CLUSTER := local
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help setup fmt check test unit again gate testbed chart e2e e2e-kind demo demo-schedule bench golden proto fuzz clean

help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 16

setup: .venv/.stamp  ## the tools, in .venv

fmt: .venv/.stamp  ## put the code in order
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

check: .venv/.stamp  ## format, lint, types twice, import contracts
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

test: unit  ## all tests: unit, and e2e where the test bed is built
	@! $(BIN)/python -m e2e.testbed.ready || $(MAKE) --no-print-directory e2e

unit: .venv/.stamp  ## tests without a cluster; 100 % branches where the code is pure
	$(BIN)/pytest --quiet --numprocesses=auto --maxprocesses=4 --dist=loadfile \
		--no-loadscope-reorder --cov=core --cov=adapters/dialects --cov-report=
	@$(MAKE) --no-print-directory gate

gate: .venv/.stamp
	$(BIN)/coverage report --include='core/*,adapters/dialects/*' --omit='*/tests/*' \
		--fail-under=100 --show-missing --skip-covered

again: .venv/.stamp  ## the tests that failed last, once more
	$(BIN)/pytest --quiet core adapters e2e --last-failed --last-failed-no-failures none -rs

testbed:  ## the real components for e2e, built once into a cache outside the repository
	$(PYTHON) -m e2e.testbed.build

chart: .venv/.stamp  ## the Helm chart by itself: lint, schema, golden files; part of e2e too
	$(BIN)/pytest e2e/tests/chart/test_chart.py -rs

e2e: .venv/.stamp  ## tests among the real components; CLUSTER=local|kind|KUBECONFIG
	$(BIN)/pytest e2e --quiet -rs --cluster=$(CLUSTER)

e2e-kind: .venv/.stamp  ## the same in a cluster that kind makes; needs Docker
	$(BIN)/python -m e2e.kind

demo: .venv/.run-stamp  ## the service on SQLite, driven as the schedulers do, no cluster needed
	$(BIN)/dragoman demo configs/examples/mixed.yaml

demo-schedule: .venv/.run-stamp  ## three vocabularies on the same cards, from one command
	@# 1 says that some pod was not placed; the demo has two of those on purpose
	$(BIN)/dragoman schedule -f configs/examples/mixed.yaml || [ $$? -eq 1 ]

bench: .venv/.stamp  ## one JSON object a line
	$(BIN)/python bench/run.py

golden: .venv/.stamp  ## rewrite the golden files; the diff is the review
	$(BIN)/pytest --rewrite-golden core adapters e2e/tests/chart/test_chart.py

proto: .venv/.stamp  ## the gRPC messages anew from their proto file
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. \
		adapters/sidecar/grpc/dragoman.proto

fuzz: .venv/.stamp  ## the same properties, for hours
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest --timeout=0

clean:  ## back to a fresh clone
	rm -rf .venv dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find core adapters e2e -name __pycache__ -prune -exec rm -rf {} +

.venv/.stamp: requirements/dev.txt .venv/.run-stamp
	$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

.venv/.run-stamp: requirements/run.txt requirements/build.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Dragoman needs Python 3.11 or newer: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(INSTALL) --require-hashes -r requirements/run.txt -r requirements/build.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@
