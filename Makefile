# `make demo` and `make test` set up what they need in .venv; PYTHON names another interpreter (3.11 or newer).
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: demo test lint format clean

demo: .venv/demo
	$(BIN)/flatmix demo

test: .venv/test
	$(BIN)/pytest

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: .venv/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/demo .venv/test: .venv/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@

clean:
	rm -rf .venv demo-run
