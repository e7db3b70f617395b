"""Fetch the indexes of a table into the local cache before they are asked.

Plain filters of Spark SQL ask only indexes on local disk, and the first search of a split waits for its index. Work
that was cancelled or failed leaves the fetched indexes in the cache.
"""

from __future__ import annotations

import pyarrow as pa

from indextables.clock import SYSTEM_CLOCK
from indextables.config import settings
from indextables.errors import ConfigError
from indextables.maintain.one_row import answer_schema, one_row
from indextables.scan.split_scan import TableScan
from indextables.split.search.open_splits import OpenSplits
from indextables.transaction_log import TransactionLog

PREWARMED_SCHEMA = answer_schema(
    table_path=pa.string(),
    status=pa.string(),
    splits=pa.int64(),
    fetched_splits=pa.int64(),
    fetched_bytes=pa.int64(),
    duration_ms=pa.int64(),
)


def prewarm(log: TransactionLog, *, where: str | None = None) -> pa.Table:
    """Fetch the indexes of the splits that a predicate leaves; the answer is one row."""
    began = SYSTEM_CLOCK.monotonic()
    config = log.config
    if not config[settings.CACHE_DISK_ENABLED] or not config[settings.CACHE_DISK_MAX_SIZE]:
        raise ConfigError(
            "cannot prewarm the cache because there is no cache on local disk",
            hint=f"set `{settings.CACHE_DISK_ENABLED.key}` and `{settings.CACHE_DISK_MAX_SIZE.key}`",
        )
    scan = TableScan(log.snapshot(), config, OpenSplits(log.reader.store, config), where=where)
    missing = {split: searcher.whole_bytes_to_fetch for split, searcher in scan.ask(scan.searcher)}
    missing = {split: num_bytes for split, num_bytes in missing.items() if num_bytes}
    _check_room(sum(missing.values()), config[settings.CACHE_DISK_MAX_SIZE])
    scan.ask(lambda split: scan.searcher(split).fetch_whole(), tuple(missing))
    return one_row(
        PREWARMED_SCHEMA,
        {
            "table_path": log.url,
            "status": "SUCCESS" if missing else "NO_ACTION",
            "splits": scan.num_splits,
            "fetched_splits": len(missing),
            "fetched_bytes": sum(missing.values()),
            "duration_ms": int((SYSTEM_CLOCK.monotonic() - began) * 1_000),
        },
    )


def _check_room(num_bytes: int, max_bytes: int) -> None:
    """Refuse to fetch more than the cache holds: it would drop what was just fetched."""
    if num_bytes > max_bytes:
        raise ConfigError(
            f"cannot prewarm the cache: the indexes take {num_bytes:,} bytes, and the cache at most {max_bytes:,}",
            hint=f"choose splits by a predicate, or raise `{settings.CACHE_DISK_MAX_SIZE.key}`",
        )
