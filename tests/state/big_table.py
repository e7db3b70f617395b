"""A table of very many files, and what it costs in memory to work with it. Run in a process of its own."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from tests.conftest import make_add

import indextables as it
from indextables.log.files import LiveFiles
from indextables.log.replay import fold
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.prune.files import partition_bounds
from indextables.state.writer import StateWriter
from indextables.state.written import WrittenCheckpoint

_ROWS = 5_000
_PADDING = " " * 2_500
_SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("bucket", pa.int32())])


class GeneratedFiles:
    """Files that are made as they are asked for. Every part holds every partition."""

    def __init__(self, num_files: int) -> None:
        self._num_files = num_files

    def tables(self, keep: object = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        for start in range(0, self._num_files, _ROWS):
            table = _files(start, min(_ROWS, self._num_files - start))
            yield table if columns is None else table.select(columns)


def _files(start: int, count: int) -> pa.Table:
    numbers = pa.array(range(start, start + count), pa.int64())
    buckets = pc.cast(pc.subtract(numbers, pc.multiply(pc.divide(numbers, 97), 97)), pa.string())
    texts = pc.cast(numbers, pa.string())
    known = {
        "path": pc.binary_join_element_wise("bucket=", buckets, "/splits/split-0000-", texts, ".split", ""),
        "partition_values": _map("bucket", buckets),
        "size": numbers,
        "modification_time": pa.array([1_700_000_000_000] * count),
        "data_change": pa.array([True] * count),
        "stats": pc.binary_join_element_wise('{"numRecords":1000,"minValues":{"id":', texts, "}}" + _PADDING, ""),
        "min_values": _map("message", pc.binary_join_element_wise("some text of a message that is low ", texts, "")),
        "max_values": _map("message", pc.binary_join_element_wise("some text of a message that is high ", texts, "")),
        "num_records": pa.array([1000] * count),
        "has_footer_offsets": pa.array([False] * count),
        "added_at_version": pa.array([1] * count),
        "added_at_timestamp": pa.array([1_700_000_000_000] * count),
    }
    columns = [pc.cast(known[name], kind) if name in known else pa.nulls(count, kind) for name, kind in _fields()]
    return pa.Table.from_arrays(columns, schema=FILES_SCHEMA)


def _fields() -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in FILES_SCHEMA]


def _map(key: str, values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(list(range(len(values) + 1)), pa.array([key] * len(values)), values)


def build(log: it.TransactionLog, num_files: int) -> None:
    """A table whose state of version 1 holds so many files."""
    log.initialize(_SCHEMA, partition_columns=("bucket",))
    log.add_files([])
    segment, snapshot = log.reader.newest_snapshot()
    generated = dataclasses.replace(snapshot, live_files=LiveFiles(GeneratedFiles(num_files)))
    writer(log).write(log.reader, segment, generated, compact=True)


def writer(log: it.TransactionLog) -> StateWriter:
    states = log._checkpointer._states
    return StateWriter(log._store, log.config, log._clock, states, partition_bounds)


def write(log: it.TransactionLog, *, compact: bool) -> WrittenCheckpoint:
    """The state of the newest version, from a snapshot whose files are not loaded."""
    segment = log.reader.segment()
    base = log._checkpointer._states.load(segment.checkpoints)
    snapshot = fold(base, log.reader.read_versions(range(base.version + 1, segment.newest + 1)))
    return writer(log).write(log.reader, segment, snapshot, compact=compact)


def listing(log: it.TransactionLog) -> int:
    """The files counted part by part."""
    base = log._checkpointer._states.load(log.reader.segment().checkpoints)
    return sum(table.num_rows for table in base.live_files.tables())


def memory(field: str) -> int:
    """What the kernel says of this process, in MiB. `VmHWM` is the peak since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith(f"{field}:"))


def measure(work) -> dict[str, object]:
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    return {"before": before, "peak": memory("VmHWM"), "seconds": round(seconds, 2), "result": result}


def _new_adds(version: int, count: int) -> list[it.actions.Add]:
    return [make_add(f"{version}-{at}.split", partition_values={"bucket": "5"}) for at in range(count)]


def main() -> None:
    """`verb url count [option=value ...]`"""
    verb, url, count = sys.argv[1:4]
    options = dict(option.split("=") for option in sys.argv[4:])
    log = it.TransactionLog(url, options={"checkpoint.interval": 10**6, **options})
    works = {
        "build": lambda: build(log, int(count)),
        "list": lambda: listing(log),
        "add": lambda: log.add_files(_new_adds(log.versions()[-1], int(count))),
        "incremental": lambda: write(log, compact=False).state.num_files,
        "compact": lambda: write(log, compact=True).state.num_files,
        "whole": lambda: log.snapshot().files.nbytes >> 20,
    }
    print(json.dumps(measure(works[verb])))


if __name__ == "__main__":
    main()
