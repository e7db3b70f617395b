"""History of the table: one row per version, from its commit line."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_table
from indextables.errors import CheckpointError, CorruptLogError, RetentionError
from indextables.log.reader import LogReader
from indextables.log.replay import VersionFile
from indextables.log.segment import Segment
from indextables.log.time_travel import times_of
from indextables.protocol.actions import Add, Remove

logger = logging.getLogger(__name__)

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
    """Return the newest versions first.

    Versions of writers without commit lines have no operation. A commit of another writer that is only a state is
    compared with the last readable version before it.
    """
    segment = reader.segment()
    if limit is None or segment.newest - limit + 1 < segment.oldest:
        segment = reader.whole_segment()
    in_files = {*segment.older_files, *(range(segment.oldest, segment.newest + 1) if segment.newest_file else ())}
    in_states = {at for at in segment.checkpoints if at not in in_files and reader.is_of_another_writer(at)}
    chosen = sorted(in_files | in_states)[-limit if limit else None :] if limit != 0 else []
    files = reader.read_versions([at for at in chosen if at in in_files])
    rows = [_row(file, time_ms) for file, time_ms in zip(files, times_of(reader, files), strict=True)]
    rows += _rows_of_states(reader, segment, [at for at in chosen if at in in_states])
    rows.sort(key=lambda row: -row["version"])
    return to_table(rows, schema=HISTORY_SCHEMA)


def _rows_of_states(reader: LogReader, segment: Segment, versions: Sequence[int]) -> Iterator[dict[str, Any]]:
    for version in versions:
        try:
            yield _row_of_state(reader, segment, version)
        except (CorruptLogError, CheckpointError, RetentionError) as error:
            logger.warning("omitting version %d from the history: %s", version, error.message)


def _row_of_state(reader: LogReader, segment: Segment, version: int) -> dict[str, Any]:
    older = [at for at in (*segment.checkpoints, *segment.older_files) if at < version]
    before = version - 1 if segment.covers(version - 1) else max(older, default=None)
    after = reader.snapshot(version).files.select(["path", "num_records"])
    known = to_array([], pa.string()) if before is None else reader.snapshot(before).files["path"]
    added = after.filter(pc.invert(pc.is_in(after["path"], value_set=known)))
    return {
        "version": version,
        "timestamp": reader.time_of_state(segment, version),
        "files_added": added.num_rows,
        "files_removed": len(known) - (after.num_rows - added.num_rows),
        "records_added": pc.sum(added["num_records"], min_count=0).as_py(),
    }


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
