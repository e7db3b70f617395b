"""Describe the newest state or checkpoint of a table: its format, what it holds, and whether it should be compacted.

Works on a table whose newest state is damaged or whose log has a hole, and says so.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from indextables.config import Config
from indextables.errors import CheckpointError
from indextables.ops.answers import answer_schema, one_row
from indextables.ops.newest_checkpoint import newest_checkpoint
from indextables.ops.skipped_files import SKIPPED_FILES_SCHEMA, skip_rows
from indextables.protocol.state_manifest import StateManifest
from indextables.state.changes import NO_CHANGES
from indextables.state.compaction import needs_compaction
from indextables.transaction_log import TransactionLog

STATE_SCHEMA = answer_schema(
    table_path=pa.string(),
    format=pa.string(),
    version=pa.int64(),
    num_files=pa.int64(),
    num_manifests=pa.int64(),
    num_tombstones=pa.int64(),
    tombstone_ratio=pa.float64(),
    total_bytes=pa.int64(),
    needs_compaction=pa.bool_(),
    num_skipped=pa.int64(),
    skipped_files=pa.list_(pa.struct(list(SKIPPED_FILES_SCHEMA))),
    status=pa.string(),
)
NO_STATE = "none"
OK = "OK"


def describe_state(log: TransactionLog) -> pa.Table:
    """One row. The skips are those in force at the newest version; everything else is of the newest state that can be
    used, or of the newest version where there is none."""
    search = newest_checkpoint(log)
    problems = list(search.problems)
    try:
        current = log.snapshot()
    except CheckpointError as error:
        if search.found is None:
            raise
        problems.append(error.message)
        current = search.found.snapshot
    described = current if search.found is None else search.found.snapshot
    state = None if search.found is None else search.found.state
    skips = skip_rows(current.skips.values())
    row = {
        "table_path": log.url,
        "format": NO_STATE if search.found is None else search.found.format,
        "version": described.version,
        "num_files": described.num_files,
        "total_bytes": described.total_bytes,
        **_layout(state, log.config.with_properties(current.metadata.configuration)),
        "num_skipped": len(skips),
        "skipped_files": skips,
        "status": "; ".join(problems) or OK,
    }
    return one_row(STATE_SCHEMA, row)


def _layout(state: StateManifest | None, config: Config) -> dict[str, Any]:
    """How the files are laid out; only Avro states have manifests."""
    if state is None:
        return {"num_manifests": 0, "num_tombstones": 0, "tombstone_ratio": 0.0, "needs_compaction": False}
    num_entries = sum(info.num_entries for info in state.manifests)
    return {
        "num_manifests": len(state.manifests),
        "num_tombstones": len(state.tombstones),
        "tombstone_ratio": len(state.tombstones) / num_entries if num_entries else 0.0,
        "needs_compaction": needs_compaction(state, NO_CHANGES, config),
    }
