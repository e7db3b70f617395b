"""The merges of splits that run in the background of this process, a row each. There are none yet."""

from __future__ import annotations

import pyarrow as pa

MERGE_JOBS_SCHEMA = pa.schema(
    [
        pa.field("job_id", pa.string(), nullable=False),
        pa.field("table_path", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("total_groups", pa.int64(), nullable=False),
        pa.field("completed_groups", pa.int64(), nullable=False),
        pa.field("progress_pct", pa.float64(), nullable=False),
        pa.field("duration_ms", pa.int64(), nullable=False),
        pa.field("error_message", pa.string()),
    ]
)


def list_merge_jobs() -> pa.Table:
    """No rows: splits are not merged in the background."""
    return MERGE_JOBS_SCHEMA.empty_table()
