"""Mistakes that are easily made get an error of the library, with a hint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType
from tests.conftest import SCHEMA, make_add

import indextables as it
from indextables.errors import ConfigError, RetentionError, SchemaError


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        (pd.DataFrame({"a": [1]}), "append"),
        (pl.DataFrame({"a": [1]}), "append"),
        (pa.table({"a": [1]}), "append"),
        (StructType().add("a", LongType()), "schema.json()"),
        ({"a": "int"}, "pyarrow.schema"),
        (None, "pyarrow.schema"),
        ([("a", pa.int64())], "pyarrow.schema"),
    ],
)
def test_a_table_is_created_with_a_schema_alone(tmp_path, schema, hint):
    with pytest.raises(SchemaError, match=r"cannot create a table with a `\w+` as its schema: expected") as refused:
        it.Table.create(str(tmp_path / "t"), schema)
    assert hint in refused.value.hint
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("url", [None, b"/data/logs", 7, ["/data/logs"]])
def test_an_address_is_text_or_a_path(url):
    for use in (it.open, it.Table, it.TransactionLog, lambda url: it.write(url, [{"id": 1}])):
        with pytest.raises(ConfigError, match="expected a path, or an address"):
            use(url)


def test_versions_are_counted_from_0(tmp_path):
    table = it.Table.create(str(tmp_path / "t"), SCHEMA)
    for read in (
        lambda: it.Table.open(table.url, version=-1),
        lambda: table.log.snapshot(version=-5),
        lambda: table.restore(version=-1),
    ):
        with pytest.raises(ConfigError, match="versions are counted from 0"):
            read()
    with pytest.raises(RetentionError, match="because it has the versions"):
        it.Table.open(table.url, version=7)


def test_numbers_of_records_add_up_beyond_64_bits(tmp_path):
    most = (1 << 63) - 1
    log = it.TransactionLog(str(tmp_path / "t"))
    log.initialize(SCHEMA)
    log.add_files([make_add(f"{name}.split", num_records=most, size=most) for name in "abc"])
    log.add_files([make_add("d.split", num_records=None, size=5)])
    snapshot = log.snapshot()
    assert (snapshot.num_records, snapshot.total_bytes) == (3 * most, 3 * most + 5)
    log.checkpoint()
    assert it.TransactionLog(log.url).snapshot().num_records == 3 * most


def test_without_pyspark_the_error_says_what_to_install(tmp_path):
    program = """
        import sys
        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "pyspark":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.meta_path.insert(0, Missing())
        import pyarrow as pa
        import indextables as it
        table = it.Table.create(sys.argv[1], pa.schema([("a", pa.int64())]))
        for use in (lambda: it.read, lambda: it.sql, lambda: it.enable, lambda: it.spark.session,
                    lambda: table.to_spark(None)):
            try:
                use()
            except it.errors.ConfigError as error:
                assert "pip install 'indextables[spark]'" in error.hint, error
                print(error.message)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "t")]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines() == ["cannot work with Spark because `pyspark` is not installed"] * 5, ran.stderr


@pytest.mark.parametrize("after_seconds", [0.05, 0.15, 0.3, 0.6])
def test_an_interrupt_at_start_up_is_silent(after_seconds):
    program = "import sys; sys.stdout.write('.'); sys.stdout.flush(); from indextables_start import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "count", os.devnull], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.read(1) == b"."
        time.sleep(after_seconds)
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=60)
    assert b"Traceback" not in shown
    # A signal that meets the end of the interpreter ends the process by itself, which a shell shows as 130, too.
    assert process.returncode in (1, 130, -signal.SIGINT)


def test_interrupts_that_the_caller_ignores_stay_ignored():
    program = """
        import os, signal
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from indextables_start import main
        os.kill(os.getpid(), signal.SIGINT)
        main()
    """
    command = [sys.executable, "-c", textwrap.dedent(program), "--version"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout.split()[0]) == (0, "indextables,"), ran.stderr
