"""Checkpoint, also named compact: write a compacted state of the newest version."""

from __future__ import annotations

import pyarrow as pa

from indextables.maintain.one_row import answer_schema, one_row
from indextables.transaction_log import TransactionLog

CHECKPOINT_SCHEMA = answer_schema(
    table_path=pa.string(),
    status=pa.string(),
    checkpoint_version=pa.int64(),
    num_actions=pa.int64(),
    num_files=pa.int64(),
    protocol_version=pa.int32(),
    is_multi_part=pa.bool_(),
)

_DEFINITIONS = 2


def make_checkpoint(log: TransactionLog) -> pa.Table:
    """Compact the newest version into a checkpoint and describe it in one row.

    The row counts as actions the protocol, the metadata, each file and each skip in force.
    """
    written = log.checkpoint()
    snapshot = log.snapshot(version=written.version)
    row = {
        "table_path": log.url,
        "status": "SUCCESS",
        "checkpoint_version": written.version,
        "num_actions": _DEFINITIONS + snapshot.num_files + len(snapshot.skips),
        "num_files": snapshot.num_files,
        "protocol_version": snapshot.protocol.min_writer_version,
        "is_multi_part": written.parts is not None and written.parts > 1,
    }
    return one_row(CHECKPOINT_SCHEMA, row)
