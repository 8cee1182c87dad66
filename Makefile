# Tasks for development. `make` lists them. PYTHON selects the interpreter, BENCH the arguments of `make bench`.
PYTHON ?= python3
BENCH ?= --events 1000000 --folder bench-data
BIN := .venv/bin

.PHONY: help setup run demo test test-all lint lint-js format bench docs release

help:  ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

$(BIN)/pytest:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e '.[test]'

setup: $(BIN)/pytest  ## create .venv with the server and the test tools

run: setup  ## start a server on http://127.0.0.1:8000
	$(BIN)/analytics-server

demo: setup  ## start a server with half a year of generated traffic
	$(BIN)/analytics-server demo --port 8001

test: setup  ## run the quick part of the tests
	$(BIN)/python -m pytest

test-all: setup  ## run all tests
	$(BIN)/python -m pytest --all

lint: setup  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lint-js:  ## check the scripts, styles and pages (needs Node.js 20.19 or newer)
	cd tests/js && npm ci --no-fund --no-audit && npm run --silent check

format: setup  ## format the Python code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## measure speed, memory and disk use (docs/benchmarks.md)
	$(BIN)/python bench/run.py $(BENCH)

docs: setup  ## check the documentation and run its examples
	$(BIN)/python -m pytest -n 0 tests/unit/test_docs.py tests/api/test_doc_examples.py

release:  ## build a release: make release VERSION=1.2.0
	deploy/release.sh $(VERSION)
