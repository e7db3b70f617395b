"""Fields of an index, as the catalog of the query language."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import tantivy

from indextables.split.index import analyzers, literals
from indextables.split.index.builder import make_schema
from indextables.split.index.fields import FieldMap, IndexField, Kind
from indextables.split.query import compile_query
from indextables.split.query.catalog import Literal, resolve
from indextables.split.query.tree import Exists, InSet, Leaf, Node, Phrase, Range, Term, leaves

_FAST_DECIDES = frozenset({Kind.TEXT, Kind.JSON, Kind.BYTES})
"""Kinds for which only a fast field knows every existing value."""


class SearchableFields:
    """Catalog of an index's fields for the query language."""

    def __init__(self, fields: FieldMap) -> None:
        self._fields = fields

    @property
    def map(self) -> FieldMap:
        return self._fields

    @property
    def fields(self) -> Sequence[IndexField]:
        return self._fields.fields

    @property
    def longest_name(self) -> int:
        return self._fields.longest_name

    def find(self, column: str) -> IndexField | None:
        return self._fields.find(column)

    def nan_field(self, column: str) -> IndexField | None:
        return self._fields.nan_field(column)

    def text_fields(self) -> Sequence[IndexField]:
        return self._fields.text_fields()

    def tokens(self, column: str, text: str) -> list[str]:
        return analyzers.tokens(self.known(column), text)

    def placed_tokens(self, column: str, text: str) -> list[tuple[int, str]]:
        return analyzers.placed_tokens(self.known(column), text)

    def parse_literal(self, column: str, text: str) -> Literal:
        return literals.parse_literal(self.known(column), text)

    def parse_span(self, column: str, text: str) -> tuple[Literal, Literal] | None:
        return literals.parse_span(self.known(column), text)

    def known(self, column: str) -> IndexField:
        field = self._fields.find(column)
        if field is None:
            raise KeyError(column)
        return field

    def asked_by(self, tree: Node) -> Iterator[tuple[IndexField, Leaf]]:
        """Yield the fields of a query's leaves, each with its leaf; skip unknown names."""
        for leaf in leaves(tree):
            if leaf.path is None:
                yield from ((field, leaf) for field in self.text_fields())
            elif (found := resolve(self, leaf.path)) is not None:
                yield self.known(found[0].column), leaf


@functools.lru_cache(maxsize=8)
def compiled_query(tree: Node, asked: FieldMap, indexed: FieldMap, text: str) -> tantivy.Query:
    """Compile a query for the splits whose index has the fields `indexed`.

    The fields `asked` define its meaning; errors show `text`. A search runs on many splits with the same fields, so the
    last queries are cached.
    """
    return compile_query(tree, SearchableFields(asked), _schema_of(indexed), text=text)


# Building the schema of a wide table takes longer than most queries.
_schema_of = functools.lru_cache(maxsize=64)(make_schema)


def may_find_nan(asked: IndexField, leaf: Leaf) -> bool:
    """Return whether a leaf may find NaN, which is greater than every number."""
    if asked.kind is not Kind.FLOAT:
        return False
    if isinstance(leaf, Range):
        return leaf.high is None or _spells_nan(leaf.high)
    if isinstance(leaf, InSet):
        return any(map(_spells_nan, leaf.texts))
    return isinstance(leaf, Exists) or (isinstance(leaf, Term | Phrase) and _spells_nan(leaf.text))


def _spells_nan(text: str) -> bool:
    return text.strip().lower() == "nan"


def answers_alike(asked: IndexField, leaf: Leaf, own: IndexField | None) -> bool:
    """Return whether a leaf finds the same rows and scores in `own` as in `asked`."""
    if own is None or own.meaning != asked.meaning:
        return False
    looks_for_any = isinstance(leaf, Exists) or (isinstance(leaf, Range) and leaf.low is None and leaf.high is None)
    return not looks_for_any or asked.kind not in _FAST_DECIDES or own.fast == asked.fast
