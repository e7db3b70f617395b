"""The ways of this library to read a table, and what each of them answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import indextables as it
from indextables.errors import IndexTablesError

Answers = Mapping[str, Any]
"""What each way answers; an error where it refuses to."""

_OF_LOG: dict[str, Callable[[it.Table], Any]] = {
    "files": lambda table: table.files().sort_by("path").to_pylist(),
    "count": lambda table: (table.count(), table.count(where="day = '0'"), table.num_records),
    "schema": lambda table: (table.schema, table.partition_columns, table.metadata.configuration),
    "history": lambda table: table.history().to_pylist(),
    "older": lambda table: it.Table.open(table.url, version=2, options=table.log.options).count("needle10001"),
    "rows": lambda table: _rows(table.search(where="day = '0'", columns=["id", "score"])),
}
_OF_SPLITS: dict[str, Callable[[it.Table], Any]] = {
    "scan": lambda table: _rows(table.search()),
    "predicate": lambda table: _rows(table.search(where="id >= 2100 AND id < 2103 OR score > 24000")),
    "search": lambda table: _rows(table.search("needle3 OR needle2101 OR needle60003", score=True)),
    "search count": lambda table: table.count('"hay 3" AND NOT needle4'),
    "aggregate": lambda table: table.aggregate("day", query="hay").sort_by("day").to_pylist(),
    "stats": lambda table: table.stats("score").to_pylist(),
}
OPTIONS: dict[str, str] = {}
"""Settings of every handle that is asked, beside those of its cache."""
OF_LOG = tuple(_OF_LOG)
OF_SPLITS = tuple(_OF_SPLITS)


def ask(place: Path, ways: tuple[str, ...], *, cache: Path | None = None) -> Answers:
    """What a new handle answers, with a cache on disk where one is given."""
    disk = {"cache.disk.enabled": "false"} if cache is None else {"cache.disk.path": str(cache)}
    try:
        table = it.Table.open(str(place), options={**OPTIONS, **disk})
    except IndexTablesError as error:
        return dict.fromkeys(ways, error)
    return {way: _answer(({**_OF_LOG, **_OF_SPLITS})[way], table) for way in ways}


def _answer(way: Callable[[it.Table], Any], table: it.Table) -> Any:
    try:
        return way(table)
    except IndexTablesError as error:
        return error


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.sort_by("id").to_pylist()
