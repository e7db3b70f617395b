"""Streams from a table into a table with Spark, in sessions of every kind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import functions as f
from tests.spark.streams import Stream, failure, finish, rows

import indextables as it
from indextables.errors import ConfigError
from indextables.spark.compat.stream_classes import HAS_READ_LIMITS


@pytest.fixture
def stream(tmp_path) -> Stream:
    made = Stream(tmp_path)
    for number in range(3):
        made.append(number * 10)
    return made


def test_rows_arrive_once_also_when_a_batch_is_repeated(session, stream) -> None:
    options = {"maxFilesPerTrigger": 2, "where": "id <> 7"}
    stream.run(session, {"partitionBy": "day", "indexing.message": "text"}, **options)
    first = [19, 10] if HAS_READ_LIMITS else [29]
    assert stream.batches() == first
    stream.forget_commit(len(first) - 1)
    stream.append(30)
    stream.run(session, **options)
    if not HAS_READ_LIMITS:  # before 4.2, Spark repeats a batch in a run of its own
        stream.run(session, **options)
    assert stream.batches() == [*first, 10]
    assert stream.ids() == [number for number in range(40) if number != 7]
    assert stream.is_clean(), "what was written again is deleted"
    table = it.Table.open(stream.sink)
    assert (table.partition_columns, table.count("failed")) == (("day",), 8)


@pytest.mark.slow
def test_a_deleted_checkpoint_starts_anew_and_another_query_is_another(spark, stream, tmp_path) -> None:
    stream.run(spark)
    shutil.rmtree(stream.checkpoint)
    queries = [stream.start(stream.load(spark))]
    stream.checkpoint = str(tmp_path / "other")
    queries.append(stream.start(stream.load(spark, search="failed", maxFilesPerTrigger=1)))
    for query in queries:
        finish(query)
    assert stream.ids() == sorted([*range(30), *range(30), *range(0, 30, 5)])


@pytest.mark.slow
def test_the_output_mode_complete_replaces_all_rows(spark, stream) -> None:
    counted = stream.load(spark, maxFilesPerTrigger=2).groupBy("day").agg(f.count("*").alias("n"))
    finish(stream.start(counted, mode="complete"))
    assert stream.batches() == ([2, 2] if HAS_READ_LIMITS else [2])
    found = {row["day"]: row["n"] for row in it.Table.open(stream.sink).search().to_pylist()}
    assert found == {"2026-01-01": 15, "2026-01-02": 15}
    stream.append(30)
    with pytest.raises(Exception, match="does not support Update mode"):
        finish(stream.start(counted, mode="update"))
    assert stream.batches() == ([2, 2] if HAS_READ_LIMITS else [2])


def test_a_failure_is_told_by_the_query(spark, stream) -> None:
    stream.table.overwrite(rows(50, 2))
    error = failure(stream.start(stream.load(spark, startingVersion=4)))
    assert "cannot follow" in error
    assert "hint: set the option `onRemovedRows` to continue" in error


def test_options_of_streams_are_refused_elsewhere(session, stream) -> None:
    with pytest.raises(Exception, match="cannot use the option `startingVersion` because only streams have it"):
        session.read.format("indextables").option("startingVersion", 1).load(stream.source).collect()


def test_an_enabled_session_hands_on_what_it_knows(enabled, stream, tmp_path) -> None:
    enabled.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "checkpoints"))
    enabled.conf.set("spark.indextables.indexing.message", "text")
    rows_read = stream.load(enabled, maxBytesPerTrigger="1G")
    writer = rows_read.writeStream.format("indextables").partitionBy("day").trigger(availableNow=True)
    finish(writer.queryName("named").start(stream.sink))
    assert Path(tmp_path, "checkpoints", "named", "metadata").exists()
    table = it.Table.open(stream.sink)
    assert (table.partition_columns, table.count("failed"), table.num_records) == (("day",), 6, 30)


def test_an_enabled_session_raises_errors_of_the_library(enabled, stream, tmp_path) -> None:
    with pytest.raises(ConfigError, match="did you mean `startingVersion`"):
        enabled.readStream.format("indextables").load(stream.source, startingVersio=1)
    with pytest.raises(it.errors.TableNotFoundError):
        enabled.readStream.format("indextables").load(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="differ"):
        stream.start(stream.load(enabled), {"partitionBy": "id"}, partition_by="day")


def test_streams_of_other_formats_go_on_as_before(enabled, tmp_path) -> None:
    enabled.range(3).write.parquet(str(tmp_path / "rows"))
    frame = enabled.readStream.schema("id long").format("parquet").load(str(tmp_path / "rows"))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.trigger(availableNow=True).start(str(tmp_path / "copy")))
    assert enabled.read.parquet(str(tmp_path / "copy")).count() == 3


def test_batches_that_a_function_writes_are_committed_once(enabled, stream) -> None:
    def write(batch, number: int) -> None:
        writer = batch.write.format("indextables").mode("append").option("txnAppId", "pipeline")
        for _ in range(2):
            writer.option("txnVersion", number).save(stream.sink)

    frame = stream.load(enabled, maxFilesPerTrigger=2)
    options = {"checkpointLocation": stream.checkpoint}
    finish(frame.writeStream.foreachBatch(write).options(**options).trigger(availableNow=True).start())
    assert stream.batches() == ([20, 10] if HAS_READ_LIMITS else [30])
    assert stream.is_clean()
    with pytest.raises(ConfigError, match="only one of the options `txnAppId` and `txnVersion`"):
        enabled.range(1).write.format("indextables").mode("append").option("txnAppId", "a").save(stream.sink)
