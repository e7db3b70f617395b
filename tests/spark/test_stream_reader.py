"""The reader of a stream, asked as Spark asks it: every row that is added once, wherever it starts and stops."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.spark.streams import Stream, rows

import indextables as it
from indextables.errors import ConfigError, CorruptLogError, IndexTablesError, RetentionError
from indextables.spark.compat.stream_classes import ReadAllAvailable
from indextables.spark.source.source import IndexTablesSource


class Query:
    """A query without Spark: its offsets and commits, and the ids of every batch."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.options = {key.lower(): str(value) for key, value in options.items()}
        self.offsets: list[str] = []
        self.committed = 0
        self.batches: list[list[int]] = []

    def run(self, **options: Any) -> Query:
        """In a new process: first what was planned and not committed, then all that is there now."""
        reader = self.reader(**options)
        reader.prepareForTriggerAvailableNow()
        for batch in range(self.committed, len(self.offsets)):
            self._read(reader, batch)
        while True:
            start = self._start(reader, len(self.offsets))
            end = json.dumps(reader.latestOffset(json.loads(start), reader.getDefaultReadLimit()))
            if end == start:
                return self
            self.offsets.append(end)
            self._read(reader, len(self.offsets) - 1)

    def reader(self, **options: Any) -> Any:
        given = {**self.options, **{key.lower(): str(value) for key, value in options.items()}}
        source = IndexTablesSource({"path": self.url, **given})
        schema = source.schema()
        return pickle.loads(pickle.dumps(source)).streamReader(schema)

    def _start(self, reader: Any, batch: int) -> str:
        return self.offsets[batch - 1] if batch else json.dumps(reader.initialOffset())

    def _read(self, reader: Any, batch: int) -> None:
        start, end = (json.loads(text) for text in (self._start(reader, batch), self.offsets[batch]))
        found: list[int] = []
        other = pickle.loads(pickle.dumps(reader))
        for task in reader.partitions(start, end):
            for part in other.read(pickle.loads(pickle.dumps(task))):
                found += part.column("id").to_pylist()
        self.batches.append(sorted(found))
        self.committed = batch + 1

    @property
    def ids(self) -> list[int]:
        return sorted(number for batch in self.batches for number in batch)


@pytest.fixture
def stream(tmp_path) -> Stream:
    made = Stream(tmp_path)
    for number in range(3):
        made.append(number * 10)
    return made


def test_the_whole_table_first_and_then_what_is_added(stream) -> None:
    query = Query(stream.source, maxFilesPerTrigger=2).run()
    assert [len(batch) for batch in query.batches] == [20, 10]
    stream.append(30)
    stream.append(40, count=3)
    assert [len(batch) for batch in query.run(maxFilesPerTrigger=1).batches] == [20, 10, 10, 3]
    assert query.run().ids == list(range(43))
    assert len(query.batches) == 4


def test_limits_of_bytes_and_of_files(stream) -> None:
    size = stream.table.files()["size"][0].as_py()
    assert [len(batch) for batch in Query(stream.source, maxBytesPerTrigger=size * 5 // 2).run().batches] == [20, 10]
    both = Query(stream.source, maxBytesPerTrigger="1G", maxFilesPerTrigger=1).run()
    assert [len(batch) for batch in both.batches] == [10, 10, 10]
    reader = Query(stream.source, maxFilesPerTrigger=1).reader()
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert end["position"] == {"version": 4, "passed": 0, "whole": False}, "the trigger's own limit counts"


def test_what_is_added_after_the_start_of_a_run_is_for_the_next(stream) -> None:
    reader = Query(stream.source).reader()
    reader.prepareForTriggerAvailableNow()
    stream.append(30)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert end["position"]["version"] == 4
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"startingVersion": 2}, 10),
        ({"startingVersion": 0}, 0),
        ({"startingVersion": "Latest"}, 30),
        ({"startingTimestamp": "2020-01-01"}, 0),
        ({"startingTimestamp": None}, 20),
    ],
)
def test_where_a_stream_starts(stream, options, first) -> None:
    if None in options.values():
        options = {"startingTimestamp": stream.table.history()["timestamp"][0].as_py().isoformat()}
    query = Query(stream.source, **options).run()
    stream.append(30)
    assert query.run().ids == list(range(first, 40))


@pytest.mark.parametrize("options", [{}, {"startingVersion": "latest"}])
def test_a_first_batch_that_is_repeated_holds_what_it_held(stream, options) -> None:
    query = Query(stream.source, maxFilesPerTrigger=2, **options).run()
    first = query.batches[0]
    query.offsets, query.batches, query.committed = query.offsets[:1], [], 0
    stream.append(30)
    query.run()
    assert query.batches[0] == first
    assert query.ids == list(range(0 if not options else 30, 40))


def test_a_merge_repeats_no_row(stream) -> None:
    query = Query(stream.source).run()
    merge(stream)
    stream.append(30)
    assert query.run().ids == list(range(40))
    assert Query(stream.source).run().ids == list(range(40))


def merge(stream: Stream) -> None:
    """All splits of the source as one, with the same rows."""
    scratch = it.Table.create(Path(stream.source).parent / "merged", stream.table.schema)
    scratch.append(rows(0, 30))
    merged = scratch.files()
    known = {name: merged[name][0].as_py() for name in ("path", "size", "modification_time", "num_records")}
    shutil.copy(Path(scratch.url, known["path"]), Path(stream.source, known["path"]))
    log = it.TransactionLog(stream.source)
    add = it.actions.Add(**known, partition_values={}, data_change=True)
    log.replace_files(log.snapshot().files["path"].to_pylist(), [add])


@pytest.mark.parametrize(("option", "more"), [("ignore", [50, 51, 60]), ("skip", [60])])
def test_an_overwrite_is_passed_over_as_asked(stream, option, more) -> None:
    query = Query(stream.source).run()
    stream.table.overwrite(rows(50, 2))
    stream.append(60, count=1)
    assert query.run(onRemovedRows=option).ids == [*range(30), *more]


def test_an_overwrite_ends_a_stream_once_all_before_it_is_given(stream) -> None:
    query = Query(stream.source).run()
    stream.append(30)
    stream.table.overwrite(rows(50, 2))
    with pytest.raises(IndexTablesError, match="through version 5 because it removes rows"):
        query.run()
    assert query.ids == list(range(40))
    assert query.run(onRemovedRows="ignore").ids == [*range(40), 50, 51]


def test_a_search_in_a_stream(stream) -> None:
    query = Query(stream.source, search="failed", where="id >= 10", columns="Id,message").run()
    stream.append(30)
    assert query.run().ids == [10, 15, 20, 25, 30, 35]
    assert query.reader()._schema.names == ["id", "message"]


def test_a_table_that_was_made_anew_is_not_followed(stream, tmp_path) -> None:
    query = Query(stream.source).run()
    shutil.rmtree(stream.source)
    anew = Stream(tmp_path)
    for number in range(5):
        anew.append(100 * number)
    with pytest.raises(IndexTablesError, match="another table is there now"):
        query.run()


def test_versions_that_are_gone_end_a_stream(stream) -> None:
    query = Query(stream.source).run()
    stream.append(30)
    stream.append(40)
    stream.table.checkpoint()
    for version in range(5):
        Path(stream.source, "_transaction_log", f"{version:020}.json").unlink()
    with pytest.raises(RetentionError, match="from version 4 because that version was cleaned up or purged"):
        query.run()
    assert query.ids == list(range(30))
    assert Query(stream.source).run().ids == list(range(50)), "a new query starts with the whole table"


def test_a_log_that_lost_its_newest_versions_ends_a_stream(stream) -> None:
    query = Query(stream.source).run()
    for version in (2, 3):
        Path(stream.source, "_transaction_log", f"{version:020}.json").unlink()
    with pytest.raises(CorruptLogError, match="at version 4 because the table is at version 1"):
        query.run()


def test_offsets_of_another_source_are_refused(stream) -> None:
    query = Query(stream.source)
    query.offsets, query.committed = ['{"logOffset": 3}'], 1
    with pytest.raises(ConfigError, match="no offset of a table"):
        query.run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingVersion": "-1"}, "expected a version, or `latest`"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "at a version and at a timestamp at once"),
        ({"maxFilesPerTrigger": "0"}, "expected a whole number of at least 1"),
        ({"maxBytesPerTrigger": "much"}, "`maxBytesPerTrigger`: expected a size"),
        ({"onRemovedRows": "cry"}, "expected `fail`, `ignore`, `skip`"),
        ({"versionAsOf": "1"}, "a stream starts at `startingVersion`"),
        ({"limit": "1"}, "cannot read a stream with the option `limit`"),
        ({"checkpointLocation": "x"}, "cannot read a stream with the option `checkpointLocation`"),
        ({"startingVersion": "9"}, "the table is at version 3"),
        ({"startingTimestamp": "2999-01-01"}, "in the future"),
    ],
)
def test_options_without_a_meaning_are_refused(stream, options, message) -> None:
    with pytest.raises(ConfigError) as refused:
        Query(stream.source, **options).run()
    assert message in str(refused.value)


def test_only_streams_take_options_of_streams(stream) -> None:
    source = IndexTablesSource({"path": stream.source, "startingversion": "1"})
    with pytest.raises(ConfigError, match="`startingVersion` because only streams have it"):
        source.reader(source.schema())
    with pytest.raises(ConfigError, match="`startingVersion` because only streams have it"):
        source.writer(source.schema(), overwrite=False)
