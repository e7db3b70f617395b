"""Counts of rows by a predicate, ours and DuckDB's; each side imports only its own library."""

from __future__ import annotations

import importlib
from pathlib import Path


def our_count(path: Path, cache: Path, where: str) -> int:
    """Open a table and count; no answer is kept, and no index is at hand."""
    import indextables as it

    options = {"cache.disk.path": str(cache), "search.answers.maxSize": "0"}
    return it.Table.open(path, options=options).count(where=where)


def duckdb_count(path: Path, where: str) -> int:
    """Open a connection and count."""
    found = importlib.import_module("duckdb").connect().execute(duckdb_question(path, where)).fetchone()
    return int(found[0])


def duckdb_question(path: Path, where: str) -> str:
    return f"SELECT count(*) FROM read_parquet('{path}') WHERE {where}"
