# The two commands: `make demo` and `make test`. Both set everything up first.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.ready

.PHONY: env demo test lint lock bench clean

env: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: env
	$(VENV)/bin/sim run m1475 --seed 1475

test: env
	$(VENV)/bin/pytest -n auto tests scenarios

lint: env
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: env
	$(VENV)/bin/python tests/bench/bench_speed.py

# Rewrites the lock file (hashes, no addresses) from pyproject.toml; needs pip-tools in a venv of its own.
lock:
	$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet pip-tools
	.venv-lock/bin/pip-compile --quiet --all-extras --generate-hashes --allow-unsafe --strip-extras --no-header \
	  --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
	  --all-build-deps --output-file requirements.lock pyproject.toml
	rm -rf .venv-lock

clean:
	rm -rf $(VENV) build *.egg-info src/*.egg-info reports/out
