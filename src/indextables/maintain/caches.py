"""Clear the caches of this process: log reads, open splits, files on local disk.

Cache entries are immutable and never stale; clearing them only frees memory and disk. Code that holds an entry keeps
using it. Other processes, such as Spark workers, keep their caches. Extracted indexes on local disk are shared by the
processes of a user; only unused ones are removed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from indextables.arrow_values import to_table
from indextables.config import Config
from indextables.location import parse_location
from indextables.log.reader import LogReader, open_readers
from indextables.maintain.one_row import answer_schema
from indextables.split.index.cache_entries import COMBINED
from indextables.split.index.index_cache import IndexCache
from indextables.split.partial.sparse_cache import SparseCache
from indextables.split.rows.copy_files import CopyFiles
from indextables.split.search.open_splits import all_open_splits

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
    """Drop the cached log reads of one table, or of every open log.

    Returns one row per table, with the hits and misses of its caches since it was opened.
    """
    readers = sorted(open_readers(), key=lambda reader: reader.url)
    tables = {url: list(group) for url, group in itertools.groupby(readers, key=lambda reader: reader.url)}
    if url is not None:
        place = parse_location(url).url
        tables = {place: tables.get(place, [])}
    return to_table([_invalidate(*table) for table in tables.items()], schema=INVALIDATED_SCHEMA)


def flush_searchers(options: Mapping[str, Any]) -> pa.Table:
    """Close all open splits; remove unused indexes and decoded rows from local disk.

    The options name the directory of the cache.
    """
    num_closed = sum(splits.clear() for splits in all_open_splits())
    config = Config.resolve(options=options)
    cache, parts, copies = IndexCache(config), SparseCache(config), CopyFiles(config)
    removed = [
        _flushed("indexes", SWITCHED_OFF, 0, "no indexes are kept on local disk"),
        _flushed("rows", SWITCHED_OFF, 0, "no decoded rows are kept on local disk"),
    ]
    IndexCache(config, kind=COMBINED).clear()  # links, which are no indexes of their own
    if cache.place is not None:
        indexes = f"unused extracted indexes, removed from {os.path.dirname(cache.place)}"
        rows = f"decoded copies of splits, removed from {copies.root}"
        removed = [
            _flushed("indexes", FLUSHED, cache.clear() + parts.clear(), indexes),
            _flushed("rows", FLUSHED, copies.clear(), rows),
        ]
    return to_table(
        [_flushed("searchers", FLUSHED, num_closed, "open splits of this process, closed"), *removed],
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
