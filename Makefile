# make setup | demo | test | lint | bench | micro.  Each makes .venv where it is missing.
VENV    := .venv
PY      := $(VENV)/bin/python
STAMP   := $(VENV)/.installed
DEMO    ?=
TESTS   ?= tests bench/micro
BENCH   ?= --quick

.DEFAULT_GOAL := help
.PHONY: help setup java demo test lint bench micro clean

help:
	@echo "make setup    .venv with everything, and a check that Java >= 17 is there"
	@echo "make demo     continuous queries over real departures and weather  (DEMO='--all': the whole year)"
	@echo "make test     every test that needs no service beside Spark         (TESTS=tests/plans: a part)"
	@echo "make lint     ruff and mypy --strict"
	@echo "make bench    the benchmark harness                                  (BENCH='--list': its scenarios)"
	@echo "make micro    how long planning and statistics take, with pytest-benchmark  (alone on the machine)"
	@echo "make clean    removes .venv and caches"

setup: $(STAMP) java

# The first Python that is new enough makes the environment; it is made anew when pyproject.toml changes.
$(STAMP): pyproject.toml
	@set -e; \
	if ! $(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  found=; \
	  for p in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
	    if "$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$p"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "cqels-opt needs Python 3.11 or newer: install it, or name one: make setup PYTHON=/path/to/python3.11" >&2; exit 2; \
	  fi; \
	  "$$found" -m venv --clear $(VENV) || { \
	    echo "cannot make $(VENV): on Debian install python3-venv (apt-get install python3-venv)" >&2; exit 2; }; \
	fi; \
	echo "installing what cqels-opt needs into $(VENV)"; \
	$(PY) -m pip install -qq --disable-pip-version-check -e '.[dev]'; \
	touch $@

# Spark needs Java: looked for each time, and installed where the machine is Debian and the user is root.
java: $(STAMP)
	@$(PY) -m cqels_opt.java --install

demo: setup
	@$(VENV)/bin/cqels-opt demo $(DEMO)

test: setup
	@$(PY) -m pytest -n 2 --dist loadgroup $(TESTS)

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: setup
	@$(VENV)/bin/cqels-opt bench $(BENCH)

micro: $(STAMP)
	@$(PY) -m pytest bench/micro --benchmark-only --benchmark-columns=min,median,rounds --benchmark-sort=name

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
