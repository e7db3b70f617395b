"""Streams for tests: from a table into a table, until nothing more comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import indextables as it
from indextables.spark.compat.stream_classes import HAS_READ_LIMITS
from indextables.spark.options.stream_options import BOUNDS

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string())])


class Stream:
    """A source table, a sink table and a checkpoint in one directory."""

    def __init__(self, place: Path) -> None:
        self.source, self.sink, self.checkpoint = (str(place / name) for name in ("source", "sink", "checkpoint"))
        self.table = it.Table.create(self.source, SCHEMA, indexing={"message": "text"})

    def append(self, first: int, count: int = 10) -> None:
        """One more version, of one file."""
        self.table.append(rows(first, count))

    def load(self, session: Any, **options: Any) -> Any:
        """The source as a stream; a Spark that has no bounds of batches gets none."""
        options = {name: value for name, value in options.items() if HAS_READ_LIMITS or name not in BOUNDS}
        return session.readStream.format("indextables").options(**options).load(self.source)

    def run(self, session: Any, sink_options: dict[str, Any] | None = None, **options: Any) -> None:
        """Everything that there is, in as many batches as it takes."""
        finish(self.start(self.load(session, **options), sink_options))

    def start(self, frame: Any, sink_options: dict[str, Any] | None = None, mode: str = "append", **spoken: Any) -> Any:
        """A query that ends once all is read; `partition_by` is said to the writer."""
        given = {"path": self.sink, "checkpointLocation": self.checkpoint, **(sink_options or {})}
        writer = frame.writeStream.format("indextables").outputMode(mode).trigger(availableNow=True)
        writer = writer.partitionBy(spoken["partition_by"]) if spoken else writer
        return writer.options(**given).start()

    def forget_commit(self, *batches: int) -> None:
        """As if the query had ended between the commit of a batch and its note of that."""
        for batch in batches:
            for name in (f"{batch}", f".{batch}.crc"):
                Path(self.checkpoint, "commits", name).unlink()

    def ids(self) -> list[int]:
        return sorted(it.Table.open(self.sink).search(columns=["id"])["id"].to_pylist())

    def batches(self) -> list[int]:
        """How many rows each version of the sink adds."""
        log = it.TransactionLog(self.sink)
        added = [
            [action for action in log.read_version(at) if isinstance(action, it.actions.Add)] for at in log.versions()
        ]
        return [sum(add.num_records for add in adds) for adds in added[1:]]

    def is_clean(self) -> bool:
        """Whether the sink has no file but those of its newest version."""
        return set(it.Table.open(self.sink).files()["path"].to_pylist()) == {
            str(path.relative_to(self.sink)) for path in Path(self.sink).rglob("*.split")
        }


def rows(first: int, count: int = 10) -> pa.Table:
    numbers = range(first, first + count)
    values = {
        "id": list(numbers),
        "message": [f"request {number} {'failed' if number % 5 == 0 else 'served'}" for number in numbers],
        "day": [f"2026-01-0{1 + number % 2}" for number in numbers],
    }
    return pa.table(values, SCHEMA)


def finish(query: Any) -> None:
    """Wait for the end of a query."""
    assert query.awaitTermination(120), "it never ended"


def failure(query: Any) -> str:
    """What a query failed of."""
    try:
        query.awaitTermination(120)
    except Exception as error:
        return str(error)
    raise AssertionError("it did not fail")
