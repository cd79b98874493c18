# Every target sets up what it needs by itself in .venv: a fresh clone is enough.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 2
export NO_MKDOCS_2_WARNING ?= 1

.PHONY: demo test lint type fmt bench docs docs-serve check-install browser clean

demo: .venv/core
	$(BIN)/nopg demo

test: .venv/dev browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 --durations=10

fmt: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

type: .venv/dev
	$(BIN)/mypy

bench: .venv/dev
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python benchmarks/load_tables.py

# Strict: a broken link, an unknown name or a page nobody lists stops the build.
docs: .venv/dev
	$(BIN)/mkdocs build
	@echo "Open site/index.html"

docs-serve: .venv/dev
	$(BIN)/mkdocs serve

# Wheel, sdist and every extra in clean environments; minutes.
check-install: .venv/dev
	$(BIN)/python -m scripts.check_install --out results/install

# The recorder is tested in a real browser; CI installs it, other machines may skip.
browser:
	@command -v chromium >/dev/null || [ -z "$$CI" ] || \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends \
	   chromium fonts-dejavu-core >/dev/null)

.venv/core: pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e ".[plots]"
	touch $@

.venv/dev: pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	touch $@ .venv/core

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
