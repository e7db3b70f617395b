"""The small table of the examples: four rows in three splits, versions 0 to 2, partitioned by day."""

from __future__ import annotations

import datetime as dt
import os

import pyarrow as pa

import indextables as it

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("level", pa.string()),
        ("message", pa.string()),
        ("day", pa.string()),
    ]
)
ROWS = [
    (1, dt.datetime(2026, 1, 1, 10, tzinfo=dt.UTC), "error", "disk full", "2026-01-01"),
    (2, dt.datetime(2026, 1, 1, 11, tzinfo=dt.UTC), "info", "disk mounted", "2026-01-01"),
    (3, dt.datetime(2026, 1, 2, 10, tzinfo=dt.UTC), "error", "read timeout", "2026-01-02"),
    (4, dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC), "error", "write timeout after disk check", "2026-01-02"),
]


def rows(*ids: int) -> list[dict[str, object]]:
    """Rows by their ids, or all."""
    return [dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS if not ids or row[0] in ids]


def make_logs(url: str | os.PathLike[str], **options) -> it.Table:
    """A new table with all rows."""
    table = it.Table.create(url, SCHEMA, partition_by=["day"], indexing={"message": "text"}, options=options)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    return table
