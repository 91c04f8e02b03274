# Every target sets up what it needs: system packages, sources, .venv/, build/.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BUILD_DIR ?= build
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
venv := .venv/bin

# $(call both,<one command>,<another>): at the same time; fails where either does.
both = $(1) & one=$$!; $(2); other=$$?; wait $$one && exit $$other
sources = tools/setup/mlir-sources.sh $(BUILD_DIR)/_deps/mlir
compile = BUILD_DIR=$(BUILD_DIR) JOBS=$(JOBS) tools/setup/build.sh $(CMAKE_FLAGS)
environment = BUILD_DIR=$(abspath $(BUILD_DIR)) tools/setup/python-env.sh

.PHONY: help setup build demo test test-lit test-python test-thorough lint format docs wheel runtime-wheel static clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install system packages, fetch the binding sources, make .venv/
	@tools/setup/system-packages.sh
	@$(call both,$(sources),$(environment))

build: ## build the tools and the Python bindings
	@tools/setup/system-packages.sh
	@$(call both,$(environment),$(sources) && $(environment) --to-build && $(compile))

demo: build ## optimize two real programs and show what was found
	@$(venv)/mirage demo

test: build ## run all tests (lit, then pytest)
	@tools/run-tests.sh

test-lit: build ## run the lit tests only
	@$(venv)/lit -sv $(BUILD_DIR)/test

test-python: build ## run the Python tests only
	@$(venv)/python -m pytest -q -n $(JOBS) --dist worksteal test/python

test-thorough: build ## run all tests, with the further cases that `make test` leaves out
	@tools/run-tests.sh --thorough

lint: build ## check style, types, imports and the generated reference, as the pre-commit hooks do
	@$(environment) --to-lint
	@$(venv)/ruff check . && $(venv)/ruff format --check .
	@$(venv)/python tools/generate-stubs.py $(BUILD_DIR)/typings
	@$(venv)/pyright
	@$(venv)/lint-imports --no-cache
	@tools/clang-format.sh --check
	@$(venv)/python tools/generate-docs.py --check docs/reference

format: setup ## format all sources in place
	@$(environment) --to-lint
	@$(venv)/ruff check --fix . && $(venv)/ruff format .
	@tools/clang-format.sh

docs: build ## generate docs/reference from the ODS files and the options
	@$(venv)/python tools/generate-docs.py docs/reference

wheel: setup ## build self-contained wheels into dist/ (static MLIR; PYTHONS=<interpreters>)
	@tools/setup/system-packages.sh --static
	@tools/build-wheel.sh $(PYTHONS)

runtime-wheel: setup ## build the wheel mirage-runtime into dist/ (pure Python: loads and runs artifacts)
	@$(venv)/python tools/build-runtime-wheel.py dist

static: setup ## build a static stripped mirage-opt into build-static/bin
	@tools/setup/system-packages.sh --static
	@BUILD_DIR=build-static JOBS=$(JOBS) tools/setup/build.sh \
		-DMIRAGE_STATIC=ON -DMIRAGE_PYTHON=OFF

clean: ## remove what was built (the sources that were fetched stay)
	rm -rf build-static dist
	@find $(BUILD_DIR) -mindepth 1 -maxdepth 1 ! -name _deps -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## remove .venv/ and everything that was fetched too
	rm -rf $(BUILD_DIR) .venv
