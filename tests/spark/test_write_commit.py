"""The driver's side of a save, in this process: what it commits, refuses, deletes and leaves alone."""

from __future__ import annotations

import logging
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType
from tests.doubles.faulty_store import Call, Fault, FaultyStore
from tests.spark.spark_rows import numbers, orphans

import indextables as it
from indextables.config import Config
from indextables.errors import CommitConflictError, CommitStateUnknownError, ConfigError, IndexTablesError, SchemaError
from indextables.protocol.names import parse_version_key
from indextables.spark.options.source_options import SourceOptions
from indextables.spark.source.batch_writer import TableWriter, WrittenSplits
from indextables.store import open_store

COLUMNS = {"id": LongType(), "part": IntegerType(), "message": StringType()}
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("message", pa.string())])


@pytest.fixture
def url(tmp_path) -> str:
    return str(tmp_path / "table")


def begin(url: str, columns: dict[str, DataType] = COLUMNS, *, overwrite: bool = False, **options: str) -> TableWriter:
    named = {key.replace("__", ".").lower(): value for key, value in options.items()}
    asked = SourceOptions.parse({"path": url, **named})
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    writer = TableWriter.begin(asked, schema, overwrite=overwrite)
    return pickle.loads(pickle.dumps(writer))


def batch(*ids: int) -> pa.RecordBatch:
    rows = [{"id": i, "part": i % 3, "message": f"row {i}"} for i in ids]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def task(writer: TableWriter, *ids: int) -> WrittenSplits:
    return pickle.loads(pickle.dumps(writer.write(iter([batch(*ids)]))))


def through(monkeypatch, url: str, script: Callable[[Call], Fault]) -> None:
    """Let every handle that a writer opens from now on speak to the store through a script."""

    def faulty(writer: TableWriter) -> it.TransactionLog:
        store = FaultyStore(open_store(url, Config.resolve()), script)
        options = {"transaction.retry.baseDelayMs": 1, "transaction.retry.maxAttempts": 2, **writer._asked.settings}
        return it.TransactionLog(url, store=store, options=options)

    monkeypatch.setattr(TableWriter, "_log", faulty)


def is_version(call: Call) -> bool:
    return parse_version_key(call.key) is not None


def test_tasks_write_splits_and_the_driver_commits_them_at_once(url) -> None:
    writer = begin(url, partitionBy="part")
    messages = [task(writer, 1, 2, 3), task(writer), task(writer, 4)]
    assert not Path(url, "_transaction_log").exists(), "nothing is a table before the commit"
    assert [(message.num_rows, len(message.adds)) for message in messages] == [(3, 3), (0, 0), (1, 1)]
    assert messages[0].num_bytes == sum(add.size for add in messages[0].adds) > 0
    assert messages[0].seconds > 0
    writer.commit(messages)
    assert it.Table.open(url).version == 1
    assert numbers(url) == [1, 2, 3, 4]


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.RETRIED])
def test_a_commit_whose_answer_is_lost_is_there_and_nothing_is_deleted(url, monkeypatch, fault) -> None:
    it.Table.create(url, SCHEMA)
    writer = begin(url)
    messages = [task(writer, 1, 2)]
    once = iter([fault])

    def script(call: Call) -> Fault:
        return next(once, Fault.NONE) if call.verb == "put_if_absent" and is_version(call) else Fault.NONE

    through(monkeypatch, url, script)
    writer.commit(messages)
    assert numbers(url) == [1, 2]


def test_nothing_is_deleted_where_nobody_knows_whether_the_commit_happened(url, monkeypatch) -> None:
    it.Table.create(url, SCHEMA)
    writer = begin(url)
    messages = [task(writer, 1), task(writer, 2)]
    is_put = False

    def script(call: Call) -> Fault:
        nonlocal is_put
        if call.verb == "put_if_absent" and is_version(call):
            is_put = True
            return Fault.ANSWER_LOST
        return Fault.UNAVAILABLE if is_put and call.verb != "delete" else Fault.NONE

    through(monkeypatch, url, script)
    with pytest.raises(CommitStateUnknownError):
        writer.commit(messages)
    writer.abort(messages)
    assert numbers(url) == [1, 2], "the commit had landed, and its splits are there"


def test_what_the_log_refuses_is_deleted(url) -> None:
    it.Table.create(url, SCHEMA)
    writer = begin(url, overwrite=True, ifVersion="0")
    messages = [task(writer, 1), task(writer, 2)]
    it.Table.open(url).append(batch(9))
    with pytest.raises(CommitConflictError, match="at version 1, not at version 0"):
        writer.commit(messages)
    writer.abort(messages)
    assert orphans(url) == set()
    assert numbers(url) == [9]


def test_a_table_that_was_made_anew_gets_no_rows_of_the_old_one(url) -> None:
    it.Table.create(url, SCHEMA)
    for overwrite in (False, True):
        writer = begin(url, overwrite=overwrite)
        shutil.rmtree(url)
        it.Table.create(url, SCHEMA)
        messages = [task(writer, 1)]
        with pytest.raises(CommitConflictError, match="the table was recreated"):
            writer.commit(messages)
        assert orphans(url) == set()
        assert numbers(url) == []


def test_what_was_never_committed_is_deleted_by_an_abort(url) -> None:
    for writer in (begin(url), begin(url, overwrite=True)):
        messages = [task(writer, 1), None, task(writer, 2)]
        assert len(orphans(url)) == 2
        writer.abort(messages)
        assert orphans(url) == set()
    it.Table.create(url, SCHEMA)
    writer = begin(url)
    messages = [None, task(writer, 1)]
    it.Table.open(url).append(batch(9))
    writer.abort(messages)
    assert orphans(url) == set()
    assert numbers(url) == [9]


def test_an_abort_after_a_commit_that_was_tried_deletes_nothing(url) -> None:
    it.Table.create(url, SCHEMA)
    writer = begin(url)
    messages = [task(writer, 1)]
    writer.abort(messages)
    it.TransactionLog(url).add_files(messages[0].adds)
    assert numbers(url) == [1], "a put that was under way has arrived, and its splits are there"


def test_a_task_without_a_message_is_no_task_without_rows(url) -> None:
    writer = begin(url)
    messages = [task(writer, 1), None]
    with pytest.raises(IndexTablesError, match="a task did not report its splits"):
        writer.commit(messages)
    writer.abort(messages)
    assert orphans(url) == set()
    assert not Path(url, "_transaction_log").exists()


def test_an_abort_keeps_what_any_version_names(url) -> None:
    it.Table.create(url, SCHEMA)
    writer = begin(url)
    live, replaced, unnamed = (task(writer, i) for i in (1, 2, 3))
    log = it.TransactionLog(url)
    log.add_files(replaced.adds)
    log.overwrite_files(live.adds)
    writer.abort([live, None, replaced, unnamed])
    assert numbers(url) == [1]
    assert numbers(url, version=1) == [2]
    assert not Path(url, unnamed.adds[0].path).exists()


def test_an_abort_that_cannot_ask_the_log_deletes_nothing(url, monkeypatch, caplog) -> None:
    it.Table.create(url, SCHEMA)
    writer = begin(url)
    messages = [task(writer, 1), None]
    through(monkeypatch, url, lambda call: Fault.UNAVAILABLE if call.verb != "delete_many" else Fault.NONE)
    with caplog.at_level(logging.WARNING):
        writer.abort(messages)
    assert "1 splits stay until a purge because the log is not readable" in caplog.text
    assert len(orphans(url)) == 1


def test_a_task_that_fails_deletes_the_splits_it_put(url) -> None:
    it.Table.create(url, SCHEMA)
    writer = begin(url, write__targetSplitSize="1")

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch(1, 2)
        yield batch(3)
        assert len(orphans(url)) == 2
        raise EOFError

    with pytest.raises(EOFError):
        writer.write(rows())
    assert orphans(url) == set()


def test_two_saves_that_create_one_table_both_append(url) -> None:
    writers = [begin(url, partitionBy="part", indexing__message="text") for _ in range(2)]
    messages = [task(writer, number) for number, writer in enumerate(writers)]
    for writer, message in zip(writers, messages, strict=True):
        writer.commit([message])
    assert numbers(url) == [0, 1]
    assert it.Table.open(url).version == 2


@pytest.mark.parametrize(
    ("columns", "options", "kind", "said"),
    [
        ({**COLUMNS, "message": BinaryType()}, {}, SchemaError, "there is a table with another schema"),
        (COLUMNS, {"partitionBy": "part"}, SchemaError, r"partitioned by \(\), not by \(part\)"),
        (
            COLUMNS,
            {"indexing__message": "text"},
            CommitConflictError,
            "has created one with other properties meanwhile",
        ),
    ],
)
def test_the_second_of_two_that_disagree_is_refused(url, columns, options, kind, said) -> None:
    first, second = begin(url), begin(url, columns, **options)
    message = task(first, 1)
    rows = batch(2)
    if columns is not COLUMNS:
        rows = rows.set_column(2, "message", pa.array([b"x"]))
    refused = second.write(iter([rows]))
    first.commit([message])
    with pytest.raises(kind, match=said):
        second.commit([refused])
    second.abort([refused])
    assert orphans(url) == set()
    assert numbers(url) == [1]


def test_a_table_with_columns_that_may_not_be_null_was_created_meanwhile(url) -> None:
    writer = begin(url)
    message = task(writer, 1)
    it.Table.create(url, pa.schema([SCHEMA.field(0).with_nullable(False), SCHEMA.field(1), SCHEMA.field(2)]))
    with pytest.raises(CommitConflictError, match="created one with columns that may not be null"):
        writer.commit([message])
    assert orphans(url) == set()


def test_rows_outside_the_predicate_are_refused_on_a_new_table_too(url) -> None:
    writer = begin(url, overwrite=True, partitionBy="part", replaceWhere="part = 1")
    with pytest.raises(SchemaError, match="`part = 1` is not true of it"):
        task(writer, 1, 2)
    assert orphans(url) == set()
    writer.commit([task(writer, 1, 4)])
    assert numbers(url) == [1, 4]


def test_dynamic_partitions_are_those_of_all_tasks_on_the_newest_version(url) -> None:
    it.Table.create(url, SCHEMA, partition_by=("part",)).append(batch(0, 1, 2))
    writer = begin(url, overwrite=True, partitionOverwriteMode="dynamic")
    messages = [task(writer, 3), task(writer), task(writer, 4)]
    it.Table.open(url).append(batch(6, 7, 8))
    writer.commit(messages)
    assert numbers(url) == [2, 3, 4, 8]


def test_a_checkpoint_that_fails_is_no_failure_of_the_save(url, monkeypatch, caplog) -> None:
    it.Table.create(url, SCHEMA)
    writer = begin(url, checkpoint__interval="1")
    messages = [task(writer, 1)]

    def script(call: Call) -> Fault:
        is_state = "put" in call.verb and not is_version(call)
        return Fault.UNAVAILABLE if is_state else Fault.NONE

    through(monkeypatch, url, script)
    with caplog.at_level(logging.WARNING):
        writer.commit(messages)
    assert "no checkpoint of" in caplog.text
    assert numbers(url) == [1]


def test_a_writer_is_small_and_shows_no_secret(url) -> None:
    table = it.Table.create(url, SCHEMA)
    table.set_properties({f"docMappingSchema.x{i}": "m" * 1_000 for i in range(100)})
    writer = begin(url, aws__secretKey="hush-hush")
    assert len(pickle.dumps(writer)) < 3_000
    assert "hush-hush" not in repr(writer) + repr(writer._asked) + str(vars(writer))


def test_a_setting_that_cannot_be_is_refused_without_its_value(url) -> None:
    with pytest.raises(ConfigError, match=r"write\.targetSplitSize"):
        begin(url, write__targetSplitSize="much")
    with pytest.raises(ConfigError, match=r"did you mean `aws\.secretKey`") as refused:
        begin(url, aws__secretKeyy="hush-hush")
    assert "hush" not in str(refused.value)
