"""Search a table without Spark: live splits that the log does not rule out, their indexes, and then rows.

A query finds rows by the index; a predicate is exact on rows. Rows come in the order of the splits and of their rows,
or ranked: then each split gives its own best first, by number, and only the rows of the answer are read in full.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from indextables.errors import ConfigError, SchemaError
from indextables.ops.questions import Question, Split, SplitQuestion, check_column, check_limit
from indextables.ops.ranking import Chosen, Order, rank, scored_rows
from indextables.split.fields import Kind
from indextables.split.searchable import SearchableFields
from indextables.split.snippets import Snippet, SnippetMaker

SCORE = "_score"
SNIPPET = "_snippet"


class Wanted(NamedTuple):
    """What of the rows that are found is to be shown, and in which order."""

    columns: Sequence[str] | None = None
    limit: int | None = None
    score: bool = False
    snippet: Snippet | str | None = None
    order_by: str | None = None
    descending: bool = False


def search(question: Question, wanted: Wanted) -> pa.Table:
    """The rows that a question finds, as one Arrow table."""
    found = found_rows(question, checked(question, wanted))
    question.warn()
    return found


def found_rows(question: SplitQuestion, wanted: Wanted) -> pa.Table:
    """The same, where what is wanted was checked before."""
    return _Search(question, wanted).run()


def stream_rows(question: SplitQuestion, wanted: Wanted) -> Iterator[pa.Table]:
    """The rows that a question finds as they are read, in the order of splits and rows whatever their scores.

    What is wanted was checked before, and has no limit and no order.
    """
    return _Search(question, wanted).stream()


def count(question: Question) -> int:
    """How many rows a question finds: from the log where every row counts, from the index where it decides alone."""

    def count_in(split: Split) -> int:
        if question.where is not None:
            return int(question.numbered(split, ()).num_rows)
        if question.tree is not None:
            return question.searcher(split).count(question.tree, question.text)
        return question.searcher(split).split.num_rows if split.num_records is None else split.num_records

    found = sum(number for _, number in question.ask(count_in))
    question.warn()
    return found


def checked(question: Question, wanted: Wanted) -> Wanted:
    """What is wanted, completed; an error where the table cannot give it."""
    schema = question.schema
    check_limit(wanted.limit)
    names = schema.names if wanted.columns is None else wanted.columns
    if isinstance(names, str):
        raise ConfigError(f'cannot read the columns `{names}`: give a list of names, as in `["{names}"]`')
    columns = [check_column(schema, name) for name in dict.fromkeys(names)]
    if wanted.order_by is not None:
        kind = schema.field(check_column(schema, wanted.order_by)).type
        if pa.types.is_nested(kind):
            raise SchemaError(f"cannot sort by the column `{wanted.order_by}` because `{kind}` has no order")
    return wanted._replace(columns=columns, snippet=_checked_snippet(question, wanted.snippet))


class _Search:
    def __init__(self, question: SplitQuestion, wanted: Wanted) -> None:
        self._question = question
        self._limit = wanted.limit
        self._score = wanted.score
        self._order = Order(wanted.order_by, descending=wanted.descending, score=wanted.score)
        self._snippet = wanted.snippet if isinstance(wanted.snippet, Snippet) else None
        extras = [*([SNIPPET] if self._snippet else []), *([SCORE] if wanted.score else [])]
        self._shown = [*(wanted.columns or ()), *extras]
        read = [*(wanted.columns or ()), *([self._snippet.column] if self._snippet else [])]
        # A table without columns would not say how many rows it has.
        self._read = tuple(dict.fromkeys(read)) or (question.schema.names[0],)

    def run(self) -> pa.Table:
        is_ranked = self._order.column is not None or (self._score and self._question.tree is not None)
        table = self._ranked() if is_ranked else self._in_order()
        return (table if is_ranked else self._with_ones(table)).select(self._shown)

    def stream(self) -> Iterator[pa.Table]:
        for share in self._question.waves():
            for split, (numbers, scores) in self._question.ask(self._hits, share):
                for part in self._question.stream(split, self._read, numbers, scores):
                    if part.num_rows:
                        table = self._with_snippets(split, part)
                        yield (table if scores else self._with_ones(table)).select(self._shown)

    def _hits(self, split: Split) -> tuple[pa.Array[Any] | None, dict[str, pa.Array[Any]]]:
        """The rows that the index finds, in their order, and their scores where there are any."""
        if not self._score or self._question.tree is None:
            return self._question.row_numbers(split), {}
        hits = scored_rows(self._question, split)
        return hits.rows, {SCORE: hits.scores}

    def _with_ones(self, table: pa.Table) -> pa.Table:
        """Every row is as good as the others where there is no query."""
        if not self._score:
            return table
        return table.append_column(SCORE, pa.array([1.0] * table.num_rows, pa.float32()))

    def _in_order(self) -> pa.Table:
        found: list[pa.Table] = []
        missing = self._limit
        shares = [self._question.splits] if missing is None else self._question.waves()
        for share in shares:
            for _, table in self._question.ask(functools.partial(self._first, limit=missing), share):
                found.append(table.slice(0, missing))
                if missing is not None:
                    missing -= found[-1].num_rows
            if missing == 0:
                break
        return self._joined(found)

    def _first(self, split: Split, limit: int | None) -> pa.Table:
        return self._with_snippets(split, self._question.rows(split, self._read, limit))

    def _ranked(self) -> pa.Table:
        """A split whose rows turn out to be bad leaves nothing behind: the best are chosen again without it."""
        question = self._question
        ranked = question.ask(lambda split: rank(question, split, self._order, self._limit))
        while True:
            chosen = self._order.best([table for _, table in ranked], self._limit)
            needed = [split for split, _ in ranked if chosen.has(split.position)]
            fetched = question.ask(functools.partial(self._fetch, chosen=chosen), needed)
            if len(fetched) == len(needed):
                break
            good = {split for split, _ in fetched}
            ranked = [(split, table) for split, table in ranked if split in good or split not in needed]
        table = chosen.arrange(self._joined([table for _, table in fetched]))
        return table if chosen.scores is None else table.append_column(SCORE, chosen.scores)

    def _fetch(self, split: Split, chosen: Chosen) -> pa.Table:
        rows = self._question.read(split, chosen.rows_of(split.position), self._read)
        return self._with_snippets(split, rows)

    def _with_snippets(self, split: Split, table: pa.Table) -> pa.Table:
        if self._snippet is None:
            return table
        maker = SnippetMaker(self._snippet, self._question.tree, SearchableFields(self._question.fields))
        snippets = maker.make(table[self._snippet.column].to_pylist())
        return table.append_column(SNIPPET, pa.array(snippets, pa.string()))

    def _joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        fields = [self._question.schema.field(name) for name in self._read]
        snippet = [] if self._snippet is None else [pa.field(SNIPPET, pa.string())]
        return pa.concat_tables([pa.schema([*fields, *snippet]).empty_table(), *tables])


def _checked_snippet(question: Question, wanted: Snippet | str | None) -> Snippet | None:
    if wanted is None:
        return None
    if not isinstance(wanted, str | Snippet):
        raise ConfigError(
            f"cannot make snippets of a `{type(wanted).__name__}`: expected the name of a column, or a `Snippet`"
        )
    snippet = Snippet(wanted) if isinstance(wanted, str) else wanted
    check_column(question.schema, snippet.column)
    field = question.fields.find(snippet.column)
    if field is None or field.kind is not Kind.TEXT:
        raise SchemaError(
            f"cannot make snippets of the column `{snippet.column}` because it is not indexed as `text`",
            hint=f"create the table with `indexing={{{snippet.column!r}: 'text'}}`",
        )
    return snippet
