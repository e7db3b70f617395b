"""Tables whose bits are flipped: one for every form that a log can have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import indextables as it

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string()), ("score", pa.float64())])
LONG = 4_500
"""Rows of the longest split: three pages of Parquet."""
SHORT = 5

KINDS: dict[str, dict[str, str]] = {
    "avro": {},
    "plain": {"transaction.compression.enabled": "false", "state.compression": "none"},
    "json": {"state.format": "json"},
    "parts": {"state.format": "json", "checkpoint.maxFileSize": "1000"},
    "parquet": {"state.format": "parquet"},
}


def rows(first: int, count: int, day: str) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "message": [f"needle{number} in the hay {number % 7}" for number in numbers],
            "day": [day] * count,
            "score": [number / 2 for number in numbers],
        },
        schema=SCHEMA,
    )


SHEETS = {"state.filters": "on", "state.filters.minSplits": "1"}
"""Properties of a table that has a filter sheet, although it is small and on local disk."""


def build(place: Path, kind: str, *, longest: int = SHORT, truncated: bool = False, sheets: bool = False) -> it.Table:
    """A table with a checkpoint in the middle, and before and after it files that were added and removed. One that is
    truncated has nothing but a checkpoint."""
    options = {**KINDS[kind], "checkpoint.enabled": "false", "cache.disk.enabled": "false"}
    table = it.Table.create(
        str(place),
        SCHEMA,
        partition_by=["day"],
        indexing={"message": "text"},
        options=options,
        properties=SHEETS if sheets else None,
    )
    table.append(rows(0, longest, "1"))
    for number in range(1, 4):
        table.append(rows(number * 10_000, SHORT, str(number % 3)))
    table.checkpoint()
    table.overwrite(rows(50_000, SHORT, "2"), where="day = '2'")
    table.append(rows(60_000, SHORT, "0"))
    if truncated:
        table.checkpoint()
        table.truncate_time_travel()
    return table
