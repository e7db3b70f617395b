"""Very large tables: entries made by Arrow kernels as they are asked for, written as one compacted state.

A partition holds a thousand files at any size, as the days of a table do: a larger table has more of them. Neighbours
in the order of their adds stand in different partitions, so a compacted state must move every one of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import indextables as it
from bench.our_files import NEVER, WITHOUT_CACHE
from indextables.clock import SYSTEM_CLOCK
from indextables.log.files import LiveFiles
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.prune.files import partition_bounds
from indextables.runtime.pools import SHARED_POOLS
from indextables.state.reader import StateReader
from indextables.state.writer import StateWriter

FILES_PER_PARTITION = 1_000
PARTITION_COLUMN = "day"
PARTITION_LISTED = 0
SCHEMA = pa.schema(
    [(PARTITION_COLUMN, pa.int32()), ("id", pa.int64()), ("amount", pa.float64()), ("name", pa.string())]
)

_ROWS_AT_ONCE = 50_000
_FIRST_MS = 1_780_000_000_000
_RECORDS = 1_000
_ODD = np.uint64(0x9E3779B97F4A7C15)


def num_partitions(count: int) -> int:
    return max(1, count // FILES_PER_PARTITION)


def entries(start: int, stop: int, days: int) -> pa.Table:
    """The files from one number to another; each is a pure function of its number."""
    numbers = np.arange(start, stop, dtype=np.int64)
    noise = (numbers.astype(np.uint64) + np.uint64(1)) * _ODD
    names, day = _names(numbers, noise), pc.cast(pa.array(numbers % days), pa.string())
    amounts = pc.cast(pa.array((noise >> np.uint64(44)).astype(np.int64)), pa.string())
    first = pa.array(numbers * _RECORDS)
    last = pc.add(first, _RECORDS - 1)
    known: dict[str, Any] = {
        "path": pc.binary_join_element_wise(f"{PARTITION_COLUMN}=", day, "/splits/split-", names, ".split", ""),
        "partition_values": _map({PARTITION_COLUMN: day}),
        "size": pa.array(10_000_000 + (noise >> np.uint64(45)).astype(np.int64)),
        "modification_time": pa.array(_FIRST_MS + numbers),
        "data_change": pa.repeat(pa.scalar(value=True), len(numbers)),
        "stats": pc.binary_join_element_wise(
            '{"nullCount":{"amount":', pc.utf8_slice_codeunits(amounts, 0, 1), "}}", ""
        ),
        "min_values": _map(
            {"id": pc.cast(first, pa.string()), "amount": amounts, "name": pc.utf8_slice_codeunits(names, 24)}
        ),
        "max_values": _map(
            {"id": pc.cast(last, pa.string()), "amount": amounts, "name": pc.utf8_slice_codeunits(names, 20)}
        ),
        "num_records": pa.repeat(pa.scalar(_RECORDS, pa.int64()), len(numbers)),
        "has_footer_offsets": pa.repeat(pa.scalar(value=False), len(numbers)),
        "added_at_version": pa.repeat(pa.scalar(1, pa.int64()), len(numbers)),
        "added_at_timestamp": pa.array(_FIRST_MS + numbers),
    }
    columns = [
        known[field.name] if field.name in known else pa.nulls(len(numbers), field.type) for field in FILES_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=FILES_SCHEMA)


def build(path: Path, count: int, options: Mapping[str, str] | None = None) -> None:
    """Write a table whose only state holds so many files; a few of them are in memory at once."""
    log = it.TransactionLog(path, options={**WITHOUT_CACHE, "checkpoint.interval": NEVER, **(options or {})})
    log.initialize(SCHEMA, partition_columns=[PARTITION_COLUMN])
    log.add_files([])
    segment, snapshot = log.reader.newest_snapshot()
    generated = dataclasses.replace(snapshot, live_files=LiveFiles(_Generated(count)))
    states = StateReader(log.reader.store, log.config, SHARED_POOLS)
    writer = StateWriter(log.reader.store, log.config, SYSTEM_CLOCK, states, partition_bounds)
    writer.write(log.reader, segment, generated, compact=True)


def shared_table(directory: Path, count: int) -> Path:
    """A table of so many files that several benchmarks read, built where it is not there yet."""
    path = directory / f"many-{count}"
    if not path.exists():
        unfinished = directory / f"unfinished-many-{count}"
        build(unfinished, count)
        unfinished.rename(path)
    return path


class _Generated:
    """Files that are made as they are asked for."""

    def __init__(self, count: int) -> None:
        self._count = self.num_files = count

    def tables(self, keep: object = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        for start in range(0, self._count, _ROWS_AT_ONCE):
            table = entries(start, min(start + _ROWS_AT_ONCE, self._count), num_partitions(self._count))
            yield table if columns is None else table.select(list(columns))


def _names(numbers: np.ndarray[Any, Any], noise: np.ndarray[Any, Any]) -> pa.Array[Any]:
    """Names as this library gives them: UUIDs that begin with the time, here a millisecond a file."""
    moments = (_FIRST_MS + numbers).astype(">u8")
    parts = np.empty((len(numbers), 16), np.uint8)
    parts[:, :6] = moments.view(np.uint8).reshape(-1, 8)[:, 2:]
    parts[:, 6:14] = noise.astype(">u8").view(np.uint8).reshape(-1, 8)
    parts[:, 14:] = parts[:, 4:6]
    parts[:, 6] = parts[:, 6] & 0x0F | 0x70
    parts[:, 8] = parts[:, 8] & 0x3F | 0x80
    digits = np.frombuffer(parts.tobytes().hex().encode(), np.uint8).reshape(-1, 32)
    text = np.full((len(numbers), 36), ord("-"), np.uint8)
    start = 0
    for place, length in ((0, 8), (9, 4), (14, 4), (19, 4), (24, 12)):
        text[:, place : place + length] = digits[:, start : start + length]
        start += length
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(36), len(numbers), [None, pa.py_buffer(text.tobytes())])
    return fixed.cast(pa.binary()).cast(pa.string())


def _map(values: Mapping[str, Any]) -> pa.Array[Any]:
    """One map for each row, with a value of each key."""
    width, length = len(values), len(next(iter(values.values())))
    keys = pa.array(list(values) * length, pa.string())
    order = np.arange(width * length).reshape(width, length).T.reshape(-1)
    items = pa.concat_arrays(list(values.values())).take(pa.array(order))
    return pa.MapArray.from_arrays(pa.array(np.arange(length + 1, dtype=np.int32) * width), keys, items)
