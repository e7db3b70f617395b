"""Search a table without Spark: prune splits, search indexes, read rows.

A query finds rows by the index; a predicate is checked exactly on rows. Rows are in the order of splits and row
numbers, or ranked. For a ranked search each split returns the numbers of its best rows, and only the rows of the result
are read in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from indextables.arrow_values import repeated, to_array
from indextables.errors import ConfigError, SchemaError
from indextables.scan.ranking import Order, rank, scored_rows
from indextables.scan.split_scan import Split, SplitScan, TableScan, check_column, check_limit, joined_tables
from indextables.split.index.fields import Kind
from indextables.split.search.searchable import SearchableFields
from indextables.split.search.snippets import Snippet, SnippetMaker

_Hits: TypeAlias = "tuple[Split, pa.Array[Any] | None]"

SCORE = "_score"
SNIPPET = "_snippet"


class Projection(NamedTuple):
    """Columns, order and limit of the returned rows."""

    columns: Sequence[str] | None = None
    limit: int | None = None
    score: bool = False
    snippet: Snippet | str | None = None
    order_by: str | None = None
    descending: bool = False


def search(scan: TableScan, wanted: Projection) -> pa.Table:
    """Return the rows of a scan as one Arrow table."""
    found = found_rows(scan, checked(scan, wanted))
    scan.warn()
    return found


def found_rows(scan: SplitScan, wanted: Projection) -> pa.Table:
    """Return the rows of a scan for a checked projection."""
    return _Search(scan, wanted).run()


def stream_rows(scan: SplitScan, wanted: Projection) -> Iterator[pa.Table]:
    """Yield the rows of a scan as they are read, in the order of splits and rows.

    The projection is already checked, and has no limit and no order.
    """
    return _Search(scan, wanted).stream()


def count(scan: TableScan) -> int:
    """Count the rows of a scan.

    The count comes from the log if every row counts, and from the index if it decides alone.
    """

    tree = scan.tree
    if scan.where is None and tree is None:
        known, asked = scan.counted_by_log()
        found = known + sum(number for _, number in scan.ask(scan.count, asked))
    else:
        found = sum(scan.ask_together(lambda index: None if tree is None else index.count(tree, scan.text), scan.count))
    scan.warn()
    return found


def checked(scan: TableScan, wanted: Projection) -> Projection:
    """Complete a projection; raise an error if it does not fit the table."""
    schema = scan.schema
    check_limit(wanted.limit)
    names = schema.names if wanted.columns is None else wanted.columns
    if isinstance(names, str):
        raise ConfigError(f'cannot read the columns `{names}`: give a list of names, as in `["{names}"]`')
    columns = [check_column(schema, name) for name in dict.fromkeys(names)]
    if wanted.order_by is not None:
        kind = schema.field(check_column(schema, wanted.order_by)).type
        if pa.types.is_nested(kind):
            raise SchemaError(f"cannot sort by the column `{wanted.order_by}` because `{kind}` has no order")
    return wanted._replace(columns=columns, snippet=_checked_snippet(scan, wanted.snippet))


class _Search:
    def __init__(self, scan: SplitScan, wanted: Projection) -> None:
        self._scan = scan
        self._limit = wanted.limit
        self._score = wanted.score
        self._order = Order(wanted.order_by, descending=wanted.descending, score=wanted.score)
        self._snippet = wanted.snippet if isinstance(wanted.snippet, Snippet) else None
        extras = [*([SNIPPET] if self._snippet else []), *([SCORE] if wanted.score else [])]
        self._shown = [*(wanted.columns or ()), *extras]
        read = [*(wanted.columns or ()), *([self._snippet.column] if self._snippet else [])]
        # A table without columns has no number of rows.
        self._read = tuple(dict.fromkeys(read)) or (scan.schema.names[0],)

    def run(self) -> pa.Table:
        is_ranked = self._order.column is not None or (self._score and self._scan.tree is not None)
        if self._score:
            is_alone = self._scan.where is None and self._order.column is None
            self._scan.prepare_scores(self._limit if is_alone else None)
        table = self._ranked() if is_ranked else self._in_order()
        return (table if is_ranked else self._with_ones(table)).select(self._shown)

    def stream(self) -> Iterator[pa.Table]:
        if self._score:
            self._scan.prepare_scores(None)
        for share in self._scan.waves(is_scored=self._score):
            for split, (numbers, scores) in self._scan.ask(self._hits, share):
                for part in self._scan.stream(split, self._read, numbers, scores):
                    if part.num_rows:
                        table = self._with_snippets(part)
                        yield (table if scores else self._with_ones(table)).select(self._shown)

    def _hits(self, split: Split) -> tuple[pa.Array[Any] | None, dict[str, pa.Array[Any]]]:
        """Return the hits of the index in row order, and their scores if wanted."""
        if not self._score or self._scan.tree is None:
            return self._scan.row_numbers(split), {}
        hits = scored_rows(self._scan, split)
        return hits.rows, {SCORE: hits.scores}

    def _with_ones(self, table: pa.Table) -> pa.Table:
        """Add a score of 1 to every row if there is no query."""
        if not self._score:
            return table
        return table.append_column(SCORE, repeated(1.0, table.num_rows, pa.float32()))

    def _in_order(self) -> pa.Table:
        read = self._filtered if self._scan.where is not None else self._unfiltered
        found: list[pa.Table] = []
        missing = self._limit
        shares = [self._scan.found()] if missing is None else self._scan.waves(missing)
        for share in shares:
            for table in read(share, missing):
                found.append(table.slice(0, missing))
                if missing is not None:
                    missing -= found[-1].num_rows
            if missing == 0:
                break
        return self._joined(found)

    def _filtered(self, share: Sequence[Split], limit: int | None) -> list[pa.Table]:
        """Return the first rows of each split that match the predicate."""

        def first(split: Split) -> pa.Table:
            return self._with_snippets(self._scan.rows(split, self._read, limit))

        return [table for _, table in self._scan.ask(first, share)]

    def _unfiltered(self, share: Sequence[Split], limit: int | None) -> Iterator[pa.Table]:
        """Yield the first rows of some splits: hits of all indexes, then rows by column.

        If a split cannot be read, the rows of later ones replace its rows.
        """
        hits = self._scan.hits(share, limit)
        left = [(split, numbers) for split, numbers in hits if numbers is None or len(numbers)]
        while left and limit != 0:
            now, rest = _first_hits(left, limit)
            good, table = self._scan.gather(now, self._read)
            if len(good) < len(now):
                bad = {split for split, _ in now} - set(good)
                left = [(split, numbers) for split, numbers in left if split not in bad]
                continue
            left = rest
            if limit is not None:
                limit -= min(limit, table.num_rows)
            yield self._with_snippets(table)

    def _ranked(self) -> pa.Table:
        """Return the best rows; choose again without a split that cannot be read."""
        scan = self._scan
        splits = scan.splits if self._score else scan.found()
        ranked = scan.ask(lambda split: rank(scan, split, self._order, self._limit), splits)
        while True:
            chosen = self._order.best([table for _, table in ranked], self._limit)
            needed = [split for split, _ in ranked if chosen.has(split.position)]
            good, rows = scan.gather([(split, chosen.rows_of(split.position)) for split in needed], self._read)
            if len(good) == len(needed):
                break
            ranked = [(split, table) for split, table in ranked if split in good or split not in needed]
        table = chosen.arrange(self._with_snippets(rows))
        return table if chosen.scores is None else table.append_column(SCORE, chosen.scores)

    def _with_snippets(self, table: pa.Table) -> pa.Table:
        if self._snippet is None:
            return table
        maker = SnippetMaker(self._snippet, self._scan.tree, SearchableFields(self._scan.fields))
        snippets = maker.make(table[self._snippet.column].to_pylist())
        return table.append_column(SNIPPET, to_array(snippets, pa.string()))

    def _joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        fields = [self._scan.schema.field(name) for name in self._read]
        snippet = [] if self._snippet is None else [pa.field(SNIPPET, pa.string())]
        return joined_tables(tables, pa.schema([*fields, *snippet]))


def _first_hits(hits: Sequence[_Hits], limit: int | None) -> tuple[list[_Hits], list[_Hits]]:
    """Return the first hits up to a limit, and the splits that are left out."""
    if limit is None:
        return list(hits), []
    now: list[_Hits] = []
    for at, (split, numbers) in enumerate(hits):
        if limit <= 0:
            return now, list(hits[at:])
        now.append((split, None if numbers is None else numbers[:limit]))
        num_rows = split.num_records if numbers is None else len(numbers)
        limit -= limit if num_rows is None else num_rows
    return now, []


def _checked_snippet(scan: TableScan, wanted: Snippet | str | None) -> Snippet | None:
    if wanted is None:
        return None
    if not isinstance(wanted, str | Snippet):
        raise ConfigError(
            f"cannot make snippets of a `{type(wanted).__name__}`: expected the name of a column, or a `Snippet`"
        )
    snippet = Snippet(wanted) if isinstance(wanted, str) else wanted
    check_column(scan.schema, snippet.column)
    field = scan.fields.find(snippet.column)
    if field is None or field.kind is not Kind.TEXT:
        raise SchemaError(
            f"cannot make snippets of the column `{snippet.column}` because it is not indexed as `text`",
            hint=f"create the table with `indexing={{{snippet.column!r}: 'text'}}`",
        )
    return snippet
