"""The writer of a stream, asked as Spark asks it: every batch is committed once, however often it is tried."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.streams import SCHEMA, Stream, rows

import indextables as it
from indextables.errors import CommitConflictError, ConfigError
from indextables.spark.options.arrow_types import to_spark_schema
from indextables.spark.source.source import IndexTablesSource


class Sink(Stream):
    """A sink whose batches come without Spark."""

    def __init__(self, place: Path) -> None:
        self.sink, self.checkpoint = str(place / "sink"), str(place / "checkpoint")
        self.begin_query("first")

    def begin_query(self, name: str) -> None:
        """Spark makes the checkpoint before it asks for a writer."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        Path(self.checkpoint).mkdir()
        Path(self.checkpoint, "metadata").write_text(json.dumps({"id": name}))

    def source(self, **options: str) -> IndexTablesSource:
        given = {"path": self.sink, "checkpointLocation": self.checkpoint, **options}
        return IndexTablesSource({key.lower(): value for key, value in given.items()})

    def write(self, *tables: pa.Table, overwrite: bool = False, **options: str) -> list[Any]:
        """The messages of a task each."""
        writer = self.source(**options).streamWriter(to_spark_schema(SCHEMA), overwrite)
        copies = [pickle.loads(pickle.dumps(writer)) for _ in tables]
        return [copy.write(iter(table.to_batches())) for copy, table in zip(copies, tables, strict=True)]

    def commit(self, messages: list[Any], batch: int, *, overwrite: bool = False, **options: str) -> None:
        writer = self.source(**options).streamWriter(to_spark_schema(SCHEMA), overwrite)
        writer.commit(pickle.loads(pickle.dumps(messages)), batch)

    def batch(self, number: int, *tables: pa.Table, overwrite: bool = False, **options: str) -> None:
        messages = self.write(*tables, overwrite=overwrite, **options)
        self.commit(messages, number, overwrite=overwrite, **options)


@pytest.fixture
def sink(tmp_path) -> Sink:
    return Sink(tmp_path)


def test_a_batch_that_is_repeated_is_committed_once(sink) -> None:
    sink.batch(0, rows(0, 3), rows(3, 3))
    sink.batch(1, rows(6, 2))
    sink.batch(1, rows(6, 2))
    sink.batch(0, rows(0, 6))
    assert sink.ids() == list(range(8))
    assert sink.batches() == [6, 2]
    assert sink.is_clean(), "what was written again is deleted"


def test_a_batch_is_known_after_the_log_was_cleaned_up(sink) -> None:
    for number in range(3):
        sink.batch(number, rows(number * 2, 2))
    it.Table.open(sink.sink).checkpoint()
    newest = it.Table.open(sink.sink).version
    for version in range(newest):
        Path(sink.sink, "_transaction_log", f"{version:020}.json").unlink()
    sink.batch(2, rows(4, 2))
    assert it.Table.open(sink.sink).version == newest
    assert sink.ids() == list(range(6))
    assert sink.is_clean()


def test_a_batch_that_another_process_committed_meanwhile_is_repeated(sink) -> None:
    sink.batch(0, rows(0, 1))
    late = sink.write(rows(1, 2))
    sink.batch(1, rows(1, 2))
    sink.commit(late, 1)
    assert sink.ids() == [0, 1, 2]
    assert sink.is_clean()


def test_a_deleted_checkpoint_starts_anew(sink) -> None:
    sink.batch(0, rows(0, 2))
    sink.begin_query("second")
    sink.batch(0, rows(0, 2))
    assert sink.ids() == [0, 0, 1, 1]


def test_the_output_mode_complete_replaces_all_rows(sink) -> None:
    sink.batch(0, rows(0, 3), overwrite=True)
    sink.batch(1, rows(1, 3), rows(7, 1), overwrite=True)
    assert sink.ids() == [1, 2, 3, 7]
    sink.batch(1, rows(0, 9), overwrite=True)
    assert sink.ids() == [1, 2, 3, 7]
    sink.batch(2, rows(0, 0), overwrite=True)
    assert sink.ids() == [], "no rows are a result, too"


def test_batches_without_rows_make_no_version(sink) -> None:
    sink.batch(0, rows(0, 0))
    assert it.Table.open(sink.sink).version == 0, "the first makes the table"
    sink.batch(1)
    sink.batch(1, rows(0, 0))
    assert it.Table.open(sink.sink).version == 0
    sink.batch(2, rows(0, 1))
    assert sink.batches() == [1]


def test_a_batch_for_a_table_that_was_made_anew_meanwhile_is_refused(sink) -> None:
    sink.batch(0, rows(0, 1))
    messages = sink.write(rows(1, 1))
    shutil.rmtree(sink.sink)
    it.Table.create(sink.sink, SCHEMA)
    with pytest.raises(CommitConflictError):
        sink.commit(messages, 1)
    assert sink.ids() == []
    assert list(Path(sink.sink).rglob("*.split")) == []


def test_the_splits_of_a_batch_that_failed_are_deleted(sink) -> None:
    sink.batch(0, rows(0, 1))
    messages = sink.write(rows(1, 1))
    sink.source().streamWriter(to_spark_schema(SCHEMA), overwrite=False).abort([*messages, None], 1)
    assert sink.is_clean()
    committed = sink.write(rows(1, 1))
    sink.commit(committed, 1)
    sink.source().streamWriter(to_spark_schema(SCHEMA), overwrite=False).abort([*committed, None], 1)
    assert sink.ids() == [0, 1], "what a version names stays"


@pytest.mark.parametrize(
    "option", ["replaceWhere", "partitionOverwriteMode", "ifVersion", "txnVersion", "startingVersion", "search"]
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_options_without_a_meaning_are_refused(sink, option, overwrite) -> None:
    value = {"partitionOverwriteMode": "dynamic", "replaceWhere": "day = '1'", "search": "x"}.get(option, "1")
    with pytest.raises(ConfigError, match=f"the option `{option}`"):
        sink.write(overwrite=overwrite, **{option: value})
    assert not Path(sink.sink).exists()


def test_partitions_and_indexing(sink) -> None:
    options = {"partitionBy": "day", "indexing.message": "text"}
    sink.batch(0, rows(0), **options)
    sink.batch(1, rows(10), **options)
    table = it.Table.open(sink.sink)
    assert table.partition_columns == ("day",)
    assert table.count("failed") == 4


@pytest.mark.parametrize(
    ("metadata", "message"),
    [(None, "there is no `metadata` in its checkpoint"), ("{}", "holds no id"), ("x", "holds no id")],
)
def test_a_checkpoint_that_does_not_name_the_query_is_refused(sink, metadata, message) -> None:
    Path(sink.checkpoint, "metadata").unlink()
    if metadata is not None:
        Path(sink.checkpoint, "metadata").write_text(metadata)
    with pytest.raises(ConfigError) as refused:
        sink.write(rows(0))
    assert message in str(refused.value)
    assert "txnAppId" in str(refused.value)


def test_a_checkpoint_where_no_table_can_be_needs_a_name_of_the_application(sink) -> None:
    with pytest.raises(ConfigError, match="cannot be read here") as refused:
        sink.write(rows(0), checkpointLocation="ftp://host/checkpoint")
    assert "txnAppId" in str(refused.value)
    sink.batch(0, rows(0, 1), checkpointLocation="ftp://host/checkpoint", txnAppId="mine")
    assert it.TransactionLog(sink.sink).snapshot().transactions == {"mine": (0, 1)}


def test_a_stream_without_a_checkpoint_is_refused(sink) -> None:
    source = IndexTablesSource({"path": sink.sink})
    with pytest.raises(ConfigError, match="without the option `checkpointLocation`"):
        source.streamWriter(to_spark_schema(SCHEMA), overwrite=False)
