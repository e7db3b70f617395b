"""What the commands answer with whose work is not there yet."""

from __future__ import annotations

import pyarrow as pa

from indextables.ops.answers import answer_schema

TRUNCATED = answer_schema(
    table_path=pa.string(),
    status=pa.string(),
    checkpoint_version=pa.int64(),
    versions_deleted=pa.int64(),
    checkpoints_deleted=pa.int64(),
    files_preserved=pa.int64(),
    message=pa.string(),
)
PURGED = answer_schema(
    table_path=pa.string(),
    status=pa.string(),
    orphaned_files_found=pa.int64(),
    orphaned_files_deleted=pa.int64(),
    size_mb_deleted=pa.float64(),
    retention_hours=pa.int64(),
    tx_log_files_deleted=pa.int64(),
    manifests_deleted=pa.int64(),
    expired_states_found=pa.int64(),
    expired_states_deleted=pa.int64(),
    dry_run=pa.bool_(),
    duration_ms=pa.int64(),
    message=pa.string(),
)
