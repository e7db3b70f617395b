"""What a query reads of an index: terms, whole fields, field norms, fast columns.

A query reads through its leaves only. A leaf that looks up terms reads their way through the term dictionary, their
postings, and for a phrase their positions. A leaf of any other kind may read everything of its field. Scores read the
field norms. All else that the engine reads, it reads when an index or a field is opened: see `tantivy_files`.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from indextables.predicate.bound import BoundComparison
from indextables.split.query.catalog import FLOAT, STRING, TEXT, Catalog, Field, resolve
from indextables.split.query.tree import Holds, InSet, Leaf, Node, Phrase, Term, leaves
from indextables.split.query.values import Unsupported, literal


class TermNeed(NamedTuple):
    """A term of a field, by the field's name in the index."""

    field: str
    term: bytes
    positions: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """What a search reads; fields by their names in the index."""

    terms: frozenset[TermNeed] = frozenset()
    fields: frozenset[str] = frozenset()
    norms: frozenset[str] = frozenset()
    fast: bool = False

    def with_fast(self) -> Needs:
        """Add all fast columns, which aggregations read."""
        return dataclasses.replace(self, fast=True)


def needs_of(tree: Node, catalog: Catalog, *, scored: bool) -> Needs | None:
    """Return what a query needs; None if this is not known, so everything."""
    found = _Collector(catalog)
    for leaf in leaves(tree):
        if not found.add(leaf):
            return None
    norms = {need.field for need in found.terms} | found.fields if scored else ()
    return Needs(frozenset(found.terms), frozenset(found.fields), frozenset(norms), found.fast)


class _Collector:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.terms: set[TermNeed] = set()
        self.fields: set[str] = set()
        self.fast = False

    def add(self, leaf: Leaf) -> bool:
        """Note what a leaf needs; return False if this is not known."""
        if leaf.path is None:
            for field in self._catalog.text_fields():
                self._add_on(leaf, field)
            return True
        found = resolve(self._catalog, leaf.path)
        if found is None:
            return False
        self._add_on(leaf, found[0])
        return True

    def _add_on(self, leaf: Leaf, field: Field) -> None:
        terms = self._terms(leaf, field)
        if terms is not None:
            self.terms |= terms
            return
        self.fields.add(field.name)
        self.fast = self.fast or field.fast
        marks = self._catalog.nan_field(field.column) if field.kind == FLOAT else None
        if marks is not None:
            self.fields.add(marks.name)

    def _terms(self, leaf: Leaf, field: Field) -> set[TermNeed] | None:
        """Return the terms that a leaf looks up, or None if it may read its whole field."""
        if field.kind == STRING and isinstance(leaf, Holds):
            return _equal_value(leaf, field)
        if field.kind == STRING and isinstance(leaf, Term | Phrase):
            return self._whole_value(leaf, field)
        if field.kind != TEXT or not isinstance(leaf, Term | Phrase | InSet):
            return None
        texts = leaf.texts if isinstance(leaf, InSet) else (leaf.text,)
        return {need for text in texts for need in self._words(text, field)}

    def _whole_value(self, leaf: Term | Phrase, field: Field) -> set[TermNeed] | None:
        try:
            value = literal(self._catalog, field, leaf.text)
        except Unsupported:
            return None
        if value is None:
            return set()
        return {TermNeed(field.name, value.encode(), positions=False)} if isinstance(value, str) else None

    def _words(self, text: str, field: Field) -> set[TermNeed]:
        tokens = self._catalog.tokens(field.column, text)
        if len(tokens) > 1:
            tokens = [*tokens, *(token for _, token in self._catalog.placed_tokens(field.column, text))]
        positions = len(tokens) > 1 and not field.tokenizer.startswith("ngram")
        return {TermNeed(field.name, token.encode(), positions) for token in tokens}


def _equal_value(leaf: Holds, field: Field) -> set[TermNeed] | None:
    """Return the one term of an equality, or None for another test of values."""
    test = leaf.test
    if not isinstance(test, BoundComparison) or test.operator != "=" or not isinstance(test.value, str):
        return None
    return {TermNeed(field.name, test.value.encode(), positions=False)}
