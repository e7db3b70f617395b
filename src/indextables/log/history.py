"""Who changed the table, when and how: one row a version, from its commit line."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from indextables.log.reader import LogReader
from indextables.log.replay import VersionFile
from indextables.log.time_travel import times_of
from indextables.protocol.actions import Add, Remove

HISTORY_SCHEMA = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("operation", pa.string()),
        pa.field("parameters", pa.map_(pa.string(), pa.string())),
        pa.field("read_version", pa.int64()),
        pa.field("files_added", pa.int64(), nullable=False),
        pa.field("files_removed", pa.int64(), nullable=False),
        pa.field("records_added", pa.int64(), nullable=False),
        pa.field("txn_id", pa.string()),
        pa.field("engine", pa.string()),
    ]
)


def read_history(reader: LogReader, limit: int | None = None) -> pa.Table:
    """The newest versions first. Versions of writers that leave no commit line have no operation."""
    segment = reader.segment()
    if limit is None or segment.newest - limit + 1 < segment.oldest:
        segment = reader.whole_segment()
    oldest = segment.oldest if limit is None else max(segment.oldest, segment.newest - limit + 1)
    files = reader.read_versions(range(oldest, segment.newest + 1))
    rows = [_row(file, time_ms) for file, time_ms in zip(files, times_of(reader, files), strict=True)][::-1]
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def _row(file: VersionFile, time_ms: int) -> dict[str, Any]:
    adds = [action for action in file.actions if isinstance(action, Add)]
    info = file.info
    row: dict[str, Any] = {
        "version": file.version,
        "timestamp": time_ms,
        "operation": "CREATE" if file.version == 0 else None,
        "files_added": len(adds),
        "files_removed": sum(isinstance(action, Remove) for action in file.actions),
        "records_added": sum(add.num_records or 0 for add in adds),
    }
    if info is not None:
        row |= {
            "operation": info.operation,
            "parameters": [(key, _text(value)) for key, value in info.parameters.items()],
            "read_version": info.read_version,
            "txn_id": info.txn_id,
            "engine": info.engine,
        }
    return row


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
