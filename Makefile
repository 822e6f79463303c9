# All targets run in .venv, which make creates from the locks in requirements/. Deleting it is safe.
PYTHON ?= python3
BIN := .venv/bin
CLUSTER := local
SEED := 1000
HISTORIES := 100
STEPS := 500
MINUTES := 0
IMAGES := auto
PLUGINS := all
WORKERS := 1
NODES := 500
WAYS :=
AT_ONCE = $(if $(filter-out 1,$(WORKERS)),--numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder)
INSTALL := $(BIN)/python .ci/install.py

.PHONY: help setup fmt words check size quick test unit again gate version docs release testbed chart e2e e2e-gpu adversary hostile e2e-kind demo demo-schedule demo-svg bench bench-scale bench-transition bench-peers golden proto fuzz clean

help:  ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 16

setup: .venv/.stamp  ## install program and tools in .venv

fmt: .venv/.stamp  ## format the code and apply automatic fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

words: .venv/.stamp
	$(BIN)/python .ci/words.py

check: .venv/.stamp words  ## formatting, lint, words, types (pyright: core, dialects), import contracts
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

size: .venv/.stamp  ## how large and how fine the program is, beside the targets
	$(BIN)/python .ci/size.py

quick: .venv/.stamp  ## tests of core and dialects, without coverage; about a minute
	$(BIN)/pytest --quiet core adapters/dialects

test: unit  ## all tests: unit, then e2e if the test bed is built
	@! $(BIN)/python -m e2e.testbed.ready || $(MAKE) --no-print-directory e2e

unit: .venv/.stamp  ## tests without a cluster; 100 % branch coverage of core and dialects
	$(BIN)/pytest --quiet --numprocesses=auto --maxprocesses=4 --dist=loadfile \
		--no-loadscope-reorder --cov=core --cov=adapters/dialects --cov-report=
	@$(MAKE) --no-print-directory gate

gate: .venv/.stamp
	$(BIN)/coverage report --include='core/*,adapters/dialects/*' --omit='*/tests/*' \
		--fail-under=100 --show-missing --skip-covered

again: .venv/.stamp  ## run the tests that failed last
	$(BIN)/pytest --quiet dragoman core adapters e2e --last-failed --last-failed-no-failures none -rfEs

version: .venv/.stamp  ## write the version of pyproject.toml wherever it is repeated
	$(BIN)/python .ci/release/version.py --write
	$(BIN)/pytest --quiet --rewrite-golden e2e/tests/chart/test_chart.py

docs: .venv/.stamp  ## build the pages as a site with search, dist/site; fails on a dead link
	$(BIN)/python .ci/site/build.py

release: .venv/.stamp  ## build what is published, in dist; IMAGES=auto|require|skip, URL=, PROJECT=
	PYTHONPATH=. $(BIN)/python .ci/release/release.py dist --images=$(IMAGES) --url=$(URL) \
		--project=$(PROJECT) --plugins=$(PLUGINS) $(if $(PYTHONS),--pythons=$(PYTHONS))

testbed:  ## build the real components for e2e into a cache outside the repository
	$(PYTHON) -m e2e.testbed.build

chart: .venv/.stamp  ## test the Helm chart: lint, schema, golden files; e2e includes it
	$(BIN)/pytest e2e/tests/chart/test_chart.py -rfEs

e2e: .venv/.stamp  ## tests with real components; CLUSTER=local|kind|KUBECONFIG, WORKERS=1
	$(BIN)/pytest e2e --quiet -rfEs --cluster=$(CLUSTER) $(AT_ONCE)

e2e-gpu: .venv/.stamp  ## every check that needs a real card; ends with 3 where there is none
	$(BIN)/python -m e2e.gpu

adversary: .venv/.stamp  ## attack two replicas with random histories; SEED, HISTORIES, STEPS, MINUTES
	$(BIN)/pytest e2e/tests/adversary/test_history.py -s --seed=$(SEED) --histories=$(HISTORIES) --steps=$(STEPS) --minutes=$(MINUTES)

hostile: .venv/.stamp  ## hostile HTTP and gRPC against one service; MINUTES, SEED
	$(BIN)/python -m e2e.hostile $(or $(filter-out 0,$(MINUTES)),10) $(SEED)

e2e-kind: .venv/.stamp  ## the documentation's commands in a cluster in containers
	$(PYTHON) -m e2e.testbed.build --kind
	$(BIN)/python -m e2e.kind

demo: .venv/.run-stamp  ## run the service on SQLite and drive it as the schedulers do; no cluster
	$(BIN)/dragoman demo configs/examples/mixed.yaml

demo-schedule: .venv/.run-stamp  ## place pods of three dialects on shared cards with one command
	@# Exit status 1: a pod was not placed. The example contains such pods on purpose.
	$(BIN)/dragoman schedule -f configs/examples/mixed.yaml || [ $$? -eq 1 ]

demo-svg: .venv/.run-stamp  ## draw the output of make demo as docs/img/demo.svg
	$(BIN)/python .ci/demo_svg.py docs/img/demo.svg

bench: .venv/.stamp  ## measure; one JSON object per line
	$(BIN)/python bench/run.py

bench-scale: .venv/.stamp  ## fill, gangs, evictions, moves and a queue on NODES=500 nodes; WAYS=
	$(BIN)/python bench/scale_tests.py $(NODES) $(WAYS)

bench-transition: .venv/.stamp  ## nodes go from plugins to claims, beside the same without Dragoman; ARGS="NODES PODS SECONDS"
	$(BIN)/python bench/transition.py $(ARGS)

bench-peers: .venv/.stamp  ## one decision beside Volcano's and Koordinator's own plugins; needs Go
	$(BIN)/python bench/peers/compare.py

golden: .venv/.stamp  ## rewrite the golden files; review the diff
	$(BIN)/pytest --rewrite-golden core adapters e2e/tests/chart/test_chart.py

proto: .venv/.stamp  ## generate code from the proto files
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. \
		adapters/service/grpc/dragoman.proto
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. e2e/harness/node/proto/*.proto
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. adapters/agent/nri/tests/proto/*.proto

fuzz: .venv/.stamp  ## run the property tests for hours
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest --timeout=0

clean:  ## remove everything that make created
	rm -rf .venv dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find dragoman core adapters e2e -name __pycache__ -prune -exec rm -rf {} +

.venv/.stamp: requirements/dev.txt .venv/.run-stamp
	@echo 'Installing the tools in .venv (once, one to four minutes)'
	$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

.venv/.run-stamp: requirements/run.txt requirements/build.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Dragoman needs Python 3.11 or newer: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@echo 'Installing the program in .venv (once, one to four minutes)'
	$(PYTHON) -m venv .venv
	$(INSTALL) --require-hashes -r requirements/run.txt -r requirements/build.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@
