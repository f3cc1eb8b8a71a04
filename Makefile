# Two commands are enough: `make run` and `make test`. Both prepare .venv first; the second time they reinstall nothing.
BIN := .venv/bin
SWARM_RUNS ?= 20000
HOURS ?= 8
# One more than two cores: tests of processes wait for each other's timeouts while other tests compute.
TEST_WORKERS ?= 3
CHECKED_TESTS := $(wildcard tests/tidy tests/unit tests/scenarios tests/contracts)

.DEFAULT_GOAL := help
.PHONY: help setup setup-run setup-dev setup-bench run test check swarm night fast bench pins clean

help: ## say what each target does
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '%-18s %s\n' "$$name" "$$text"; done

setup: setup-dev ## prepare .venv with everything that running, testing and checking need

setup-run:
	@scripts/setup run

setup-dev:
	@scripts/setup dev

setup-bench:
	@scripts/setup bench

run: setup-run ## the demonstration: real brokers, the bank, two kills, the audit on Spark, and report/report.html
	@$(BIN)/holdfast demo

test: setup-dev ## the whole suite
	@$(BIN)/pytest -q -n $(TEST_WORKERS) --dist worksteal

check: setup-dev ## what a reviewer would run: ruff, mypy, tidiness, unit tests, scenarios, contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy src tests
	@$(BIN)/pytest -q -n $(TEST_WORKERS) --dist worksteal $(CHECKED_TESTS)

swarm: setup-dev ## many seeded random runs in the simulator (SWARM_RUNS=20000)
	@SWARM_RUNS=$(SWARM_RUNS) $(BIN)/pytest -q -n $(TEST_WORKERS) --dist worksteal tests/swarm

night: setup-dev ## random runs of everything for HOURS=8, in turn; the table and what was found are in nights/
	@$(BIN)/holdfast night --hours $(HOURS)

fast: setup-dev ## compile machines and simulator for campaigns, if there is a C compiler (one to three minutes)
	@$(BIN)/python scripts/fast.py

bench: setup-bench ## measure Holdfast beside a bare relay in one run
	@$(BIN)/holdfast bench

pins: ## renew requirements*.txt from pyproject.toml, in a clean environment
	@scripts/pins

clean: ## remove .venv and everything that was made
	rm -rf .venv .setup.lock .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist report
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find src -name '*.egg-info' -type d -prune -exec rm -rf {} +
