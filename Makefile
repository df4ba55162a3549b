# make demo and make test are all that a fresh machine needs; each installs what it lacks into .venv first.
PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test check study format

help:
	@echo "make demo    render MiniAD, then train, evaluate and export a tiny model; downloads packages only"
	@echo "make test    run all tests, without a network"
	@echo "make check   formatting, lint, types, layers, configs"
	@echo "make study   show what is learned: five small trainings and one table"
	@echo "make format  format the code and mend what ruff can mend"

demo: $(VENV)/installed
	$(BIN)/python tools/demo.py

study: $(VENV)/installed
	$(BIN)/python tools/study.py

# One thread a worker: two workers with all cores each would fight over them.
test: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile

check: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m actdeny_train.cli

format: $(VENV)/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The stamps make a second call instant; a changed pyproject.toml installs again. The project and all that it depends on go into
# one call of pip, so that torch and torchvision are chosen together.
$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --editable '.[dev]'
	@touch $(VENV)/installed $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "actdeny needs Python 3.11 or newer, but '$(PYTHON) --version' says: $$($(PYTHON) --version 2>&1)." \
			"Install one and name it, as in: make demo PYTHON=python3.12" >&2; exit 1; }
	@echo "Installing into $(VENV): a few minutes, up to 7 GB where pip takes the CUDA build of torch."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu install python3-venv." >&2; exit 1; }
