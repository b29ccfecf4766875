# Each target sets up what it needs; a second run starts at once. VENV=DIR puts the environment elsewhere.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV ?= .venv
PYTHON ?= python3
CONFIG ?= config/examples/fake.yaml
export PYTHON
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest
RESULTS := var/results
FULL := TRUNKLINE_COUNTS=full $(PYTEST) -m soak

.PHONY: help setup packages demo run quick test peers oracles soak check bench reports requirements lock

help:  ## what there is to make
	@sed -n 's/^\([a-z]*\):.*## /\1 /p' $(MAKEFILE_LIST) | while read -r name text; do printf '%-14s%s\n' "$$name" "$$text"; done

setup:
	@deploy/setup.sh venv $(VENV)

packages:
	@deploy/setup.sh packages

demo: setup  ## answer three real SIP calls on this machine; leaves var/demo
	@$(PY) -m deploy.demo

run: setup  ## trunkline serve CONFIG (CONFIG=file.yaml)
	@$(VENV)/bin/trunkline serve $(CONFIG)

quick: setup  ## the tests without real peers, under 5 minutes
	@$(PYTEST) -n 2 -m "not peers and not soak"

test: setup packages  ## everything that gates, with SIPp and baresip as peers
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	@$(PYTEST) -n 2 -m "not peers and not soak" --results=$(RESULTS)/alone.jsonl
	@$(PYTEST) -n 4 --dist worksteal -m "peers and not soak and not crowd" --results=$(RESULTS)/peers.jsonl
	@$(PYTEST) -m "crowd and not soak" --results=$(RESULTS)/crowd.jsonl
	@$(PYTEST) -m soak -s --results=$(RESULTS)/soak.jsonl
	@$(PY) -m tests.kit.marked reports $(RESULTS)/*.jsonl
	@$(PY) -m tests.kit.marked requirements $(RESULTS)/*.jsonl
	@$(PY) -m tests.kit.tally $(RESULTS)/*.jsonl

peers: setup packages  ## calls with a real Asterisk, fetched once into var/asterisk (350 MB)
	@if tests/peers/asterisk/build.sh $(CURDIR)/var/asterisk; \
	then ASTERISK_DIR=$(CURDIR)/var/asterisk $(PYTEST) tests/peers/asterisk --durations=0; \
	else echo "SKIPPED: no Asterisk could be had, so none of tests/peers/asterisk ran"; fi

oracles: setup  ## programs that others wrote against our providers and fakes, fetched once into var/oracles (1.4 GB); writes docs/oracles.md
	@tests/oracles/install.sh $(CURDIR)/var/oracles
	@mkdir -p $(RESULTS) && rm -f $(RESULTS)/oracles.jsonl
	@ORACLES_DIR=$(CURDIR)/var/oracles $(PYTEST) tests/oracles -rs --results=$(RESULTS)/oracles.jsonl
	@$(PY) -m tests.oracles.page $(RESULTS)/oracles.jsonl

soak: setup packages  ## the soak tests with their full counts; writes docs/evidence
	@mkdir -p docs/evidence
	@set -o pipefail; { echo "commit $$(git describe --always --dirty)" && $(FULL) -s --durations=0 --ignore=tests/fuzz \
	&& $(FULL) -n 2 -rP tests/fuzz; } | sed -u '/^rootdir:/d; /^.gw[0-9]. linux/d' | tee docs/evidence/soak.txt

check: setup  ## style, types, layers, the lock, sizes, words, links
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports
	@$(PY) -m tests.kit.tree

bench: setup  ## how many calls one core carries; writes docs/evidence
	@$(PY) tests/bench/run.py

reports: setup packages  ## field report -> test -> result
	@$(PY) -m tests.kit.marked reports

requirements: setup packages  ## requirement -> test -> result
	@$(PY) -m tests.kit.marked requirements

lock:  ## write requirements.lock anew (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --generate-hashes --no-emit-index-url -o requirements.lock
