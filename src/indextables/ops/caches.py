"""The caches of this process, emptied: what was read of logs, and open splits with their extracted indexes.

Nothing in them can be wrong, since all of it is immutable by its key; emptying them gives memory and disk back. Whoever
uses an entry goes on with it. The caches of other processes, such as Spark's workers, are not reached; of the indexes
on local disk, which the processes of a user share, those that nobody uses go.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from indextables.config import Config
from indextables.log.reader import LogReader, open_readers
from indextables.ops.answers import answer_schema
from indextables.split.index_cache import IndexCache
from indextables.split.open_splits import all_open_splits
from indextables.store.url import parse_location

INVALIDATED_SCHEMA = answer_schema(
    table_path=pa.string(),
    result=pa.string(),
    cache_hits_before=pa.int64(),
    cache_misses_before=pa.int64(),
    hit_rate_before=pa.float64(),
)
FLUSHED_SCHEMA = answer_schema(
    cache_type=pa.string(), status=pa.string(), cleared_entries=pa.int64(), message=pa.string()
)
INVALIDATED = "INVALIDATED"
NOT_OPEN = "NOT OPEN"
FLUSHED = "FLUSHED"
SWITCHED_OFF = "SWITCHED OFF"


def invalidate_logs(url: str | None = None) -> pa.Table:
    """Forget what was read of the log of a table, or of every log that is open: a row a table, with how often its
    caches had the answer since it was opened."""
    readers = sorted(open_readers(), key=lambda reader: reader.url)
    tables = {url: list(group) for url, group in itertools.groupby(readers, key=lambda reader: reader.url)}
    if url is not None:
        place = parse_location(url).url
        tables = {place: tables.get(place, [])}
    return pa.Table.from_pylist([_invalidate(*table) for table in tables.items()], schema=INVALIDATED_SCHEMA)


def flush_searchers(options: Mapping[str, Any]) -> pa.Table:
    """Close all splits that are open, and remove the indexes that nobody uses from the local disk, where the options
    say that they are."""
    num_closed = sum(splits.clear() for splits in all_open_splits())
    cache = IndexCache(Config.resolve(options=options))
    removed = _flushed("indexes", SWITCHED_OFF, 0, "no indexes are kept on local disk")
    if cache.place is not None:
        message = f"extracted indexes that nobody used, removed from {cache.place}"
        removed = _flushed("indexes", FLUSHED, cache.clear(), message)
    return pa.Table.from_pylist(
        [
            _flushed("searchers", FLUSHED, num_closed, "open splits of this process, closed"),
            removed,
        ],
        schema=FLUSHED_SCHEMA,
    )


def _invalidate(url: str, readers: list[LogReader]) -> dict[str, Any]:
    stats = [reader.cache.stats() for reader in readers]
    for reader in readers:
        reader.forget()
    hits, misses = sum(stat.hits for stat in stats), sum(stat.misses for stat in stats)
    return {
        "table_path": url,
        "result": INVALIDATED if readers else NOT_OPEN,
        "cache_hits_before": hits,
        "cache_misses_before": misses,
        "hit_rate_before": hits / (hits + misses) if hits + misses else 0.0,
    }


def _flushed(kind: str, status: str, num_entries: int, message: str) -> dict[str, Any]:
    return {"cache_type": kind, "status": status, "cleared_entries": num_entries, "message": message}
