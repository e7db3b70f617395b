"""Search a table without Spark: live splits that the log does not rule out, their indexes, and then rows.

A query finds rows by the index; a predicate is exact on rows. Splits are searched side by side, and rows come in the
order of the splits and of their rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from indextables.config import Config
from indextables.errors import ConfigError, SchemaError
from indextables.log.pools import SHARED_POOLS
from indextables.log.snapshot import Snapshot
from indextables.predicate import bind, parse_predicate, to_arrow
from indextables.predicate.bound import bound_columns
from indextables.scan.files import prune_table
from indextables.split.index_cache import IndexCache
from indextables.split.query import parse_query
from indextables.split.query.tree import Node
from indextables.split.searcher import SplitSearcher
from indextables.split.split_file import SplitFile
from indextables.store import ObjectStore

SEARCHING = "searching"
_WORKERS = min(8, os.cpu_count() or 1)
_FIELDS = ["path", "size", "num_records", "footer_start_offset", "footer_end_offset"]


class _Question(NamedTuple):
    """What is sought in every split."""

    text: str
    tree: Node | None
    where: Any
    read: Sequence[str]
    columns: Sequence[str]


class Search:
    """One question to a table at one version."""

    def __init__(
        self,
        store: ObjectStore,
        snapshot: Snapshot,
        config: Config,
        *,
        query: str | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._store = store
        self._snapshot = snapshot
        self._cache = IndexCache(config)
        files = snapshot.files if where is None else prune_table(snapshot.files, where, snapshot, config)
        self._files = files.select(_FIELDS).to_pylist()
        self._question = _question(snapshot, query, where, columns)

    def rows(self, limit: int | None = None) -> pa.Table:
        """The rows that are found, as one Arrow table; at most so many of them, whichever come first."""
        if limit is not None and limit < 1:
            raise ConfigError(f"cannot search for `{limit}` rows: expected at least 1")
        schema = pa.schema([self._snapshot.schema.field(name) for name in self._question.columns])
        found: list[pa.Table] = []
        missing = limit
        for table in self._tables():
            found.append(table if missing is None else table.slice(0, missing))
            if missing is not None:
                missing -= found[-1].num_rows
                if not missing:
                    break
        return pa.concat_tables([schema.empty_table(), *found])

    def count(self) -> int:
        """How many rows there are to be found."""
        counted = self._count_in if self._question.where is None else self._count_rows
        return sum(SHARED_POOLS.map(SEARCHING, counted, self._files, workers=_WORKERS))

    def _tables(self) -> Iterator[pa.Table]:
        for start in range(0, len(self._files), _WORKERS):
            share = self._files[start : start + _WORKERS]
            yield from SHARED_POOLS.map(SEARCHING, self._rows_of, share, workers=_WORKERS)

    def _rows_of(self, file: dict[str, Any]) -> pa.Table:
        question = self._question
        split = self._open(file)
        numbers = None
        if question.tree is not None:
            numbers = self._searcher(split, file).row_numbers(question.tree, question.text)
        schema = pa.schema([split.schema.field(name) for name in question.read])
        table = pa.Table.from_batches(split.rows(numbers, question.read), schema)
        if question.where is not None:
            table = table.filter(question.where)
        return table.select(question.columns)

    def _count_in(self, file: dict[str, Any]) -> int:
        """From the index alone, or from the log where every row counts."""
        tree = self._question.tree
        if tree is None and file["num_records"] is not None:
            return int(file["num_records"])
        split = self._open(file)
        return split.num_rows if tree is None else self._searcher(split, file).count(tree, self._question.text)

    def _count_rows(self, file: dict[str, Any]) -> int:
        return int(self._rows_of(file).num_rows)

    def _open(self, file: dict[str, Any]) -> SplitFile:
        return SplitFile.open(
            self._store,
            file["path"],
            size=file["size"],
            footer_start_offset=file["footer_start_offset"],
            footer_end_offset=file["footer_end_offset"],
        )

    def _searcher(self, split: SplitFile, file: dict[str, Any]) -> SplitSearcher:
        identity = f"{self._store.location.url}/{file['path']}:{file['size']}:{split.directory.split_id}"
        return SplitSearcher(split, identity, self._cache)


def _question(snapshot: Snapshot, query: str | None, where: str | None, names: Sequence[str] | None) -> _Question:
    known = snapshot.schema.names
    wanted = known if names is None else list(dict.fromkeys(names))
    unknown = next((name for name in wanted if name not in known), None)
    if unknown is not None:
        raise SchemaError(
            f"cannot read the column `{unknown}` because the table has no such column",
            hint=f"it has {', '.join(f'`{name}`' for name in known)}",
        )
    tree = None if query is None else parse_query(query)
    if where is None:
        return _Question(query or "", tree, None, wanted, wanted)
    bound = bind(parse_predicate(where), snapshot.schema)
    read = list(dict.fromkeys([*wanted, *(column.path[0] for column in bound_columns(bound))]))
    return _Question(query or "", tree, to_arrow(bound), read, wanted)
