"""The files that an operation could not process, a row each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from indextables.protocol.actions import Skip

SKIPPED_FILES_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("skip_count", pa.int32(), nullable=False),
        pa.field("retry_after", pa.timestamp("ms", tz="UTC")),
    ]
)


def list_skipped_files(skips: Iterable[Skip]) -> pa.Table:
    """The skips as a table."""
    return pa.Table.from_pylist(skip_rows(skips), schema=SKIPPED_FILES_SCHEMA)


def skip_rows(skips: Iterable[Skip]) -> list[dict[str, Any]]:
    """The fields of each skip that the table shows."""
    return [{name: getattr(skip, name) for name in SKIPPED_FILES_SCHEMA.names} for skip in skips]
