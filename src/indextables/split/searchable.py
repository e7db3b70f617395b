"""The fields of an index, as a query needs to know them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indextables.split import analyzers, literals
from indextables.split.fields import FieldMap, IndexField, Kind
from indextables.split.query.catalog import Literal, resolve
from indextables.split.query.tree import Exists, InSet, Leaf, Node, Phrase, Range, Term, leaves

_FAST_DECIDES = frozenset({Kind.TEXT, Kind.JSON, Kind.BYTES})
"""Kinds of which only a fast field knows every value that is there."""


class SearchableFields:
    """What the query language asks of an index's fields."""

    def __init__(self, fields: FieldMap) -> None:
        self._fields = fields

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
        """The fields that the leaves of a query are about, each with its leaf. Unknown names are left out."""
        for leaf in leaves(tree):
            if leaf.path is None:
                yield from ((field, leaf) for field in self.text_fields())
            elif (found := resolve(self, leaf.path)) is not None:
                yield self.known(found[0].column), leaf


def may_find_nan(asked: IndexField, leaf: Leaf) -> bool:
    """Whether a leaf may find NaN, which is greater than every number."""
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
    """Whether a leaf finds the same rows, with the same scores, in the field that an index has as in the one asked."""
    if own is None or own.meaning != asked.meaning:
        return False
    looks_for_any = isinstance(leaf, Exists) or (isinstance(leaf, Range) and leaf.low is None and leaf.high is None)
    return not looks_for_any or asked.kind not in _FAST_DECIDES or own.fast == asked.fast
