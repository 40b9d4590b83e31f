# Two commands: `make up` runs the stack, `make test` proves it. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/
UV_VERSION := 0.13.7
LONG ?= tests
# Tests of servers wait for half of their time: twice as many workers as the two cores of CI.
WORKERS ?= 4

.PHONY: up test check lint types tests unit contract long pictures setup clean

setup: $(VENV)/.synced

$(VENV)/bin/uv:
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed, found " + sys.version'
	$(PYTHON) -m venv $(VENV)
	$(RUN)python -m pip install --quiet "uv==$(UV_VERSION)"

$(VENV)/.synced: $(VENV)/bin/uv pyproject.toml uv.lock
	UV_PROJECT_ENVIRONMENT=$(VENV) $(RUN)uv sync --frozen --inexact --quiet
	@touch $@ $(VENV)/.synced-up

# Running needs none of the tools for development; where they are, they stay.
$(VENV)/.synced-up: $(VENV)/bin/uv pyproject.toml uv.lock
	UV_PROJECT_ENVIRONMENT=$(VENV) $(RUN)uv sync --frozen --inexact --no-dev --quiet
	@touch $@

up: $(VENV)/.synced-up
	$(RUN)spinney up $(ARGS)

# Types are checked beside the tests.
test: lint
	$(MAKE) --no-print-directory -j 2 types tests

# Before a commit: style, types and the unit tests of what changed since BASE.
BASE ?= HEAD
check: lint types
	@files=$$($(RUN)python tools/changed_tests.py $(BASE)); test -z "$$files" || $(RUN)pytest -n 2 $$files

lint: setup
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)lint-imports

types: setup
	$(RUN)mypy

# Which tests share a worker: tests/distribution.py.
tests: setup
	$(RUN)pytest tests -n $(WORKERS) --dist loadgroup --durations=40 $(PYTEST_ARGS)

unit: setup
	$(RUN)pytest tests/unit tests/regressions -n $(WORKERS) --dist loadgroup --durations=10 $(PYTEST_ARGS)

contract: setup
	$(RUN)pytest tests --ignore=tests/unit --ignore=tests/regressions -n $(WORKERS) --dist loadgroup --durations=25 $(PYTEST_ARGS)

long: setup
	$(RUN)pytest $(LONG) -m long $(PYTEST_ARGS)

pictures: setup
	PYTHONPATH=tests $(RUN)python -m browser.pictures

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
