"""Decide from the terms of splits if they can match a query; never a false no.

The splits are the bits of a number: bit `i` is set if split `i` may match. One split is the number 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from indextables.predicate.bound import BoundComparison, BoundIn
from indextables.split.query.catalog import STRING, TEXT, Catalog, Field, resolve
from indextables.split.query.tree import And, Boost, Holds, InSet, Leaf, Node, Or, Phrase, Prefer, Term

_TermLeaf = Term | Phrase | InSet | Holds
MayContain = Callable[[str, str], bool]
"""Returns whether a field, by its name in the index, may hold a term."""

Holders = Callable[[str, str], int]
"""Returns the splits that may hold a term in a field, by its name in the index."""


def may_match(tree: Node, catalog: Catalog, may_contain: MayContain) -> bool:
    """Return whether the required terms may exist; leaves on other things always may."""
    return splits_left(tree, catalog, lambda field, term: int(may_contain(field, term)), 1) == 1


def splits_left(tree: Node, catalog: Catalog, holders: Holders, everything: int) -> int:
    """Return the splits that may hold the required terms, out of `everything`."""
    if isinstance(tree, And):
        return _all((splits_left(part, catalog, holders, everything) for part in tree.parts), everything)
    if isinstance(tree, Or):
        return _any((splits_left(part, catalog, holders, everything) for part in tree.parts), everything)
    if isinstance(tree, Prefer):
        return splits_left(tree.required, catalog, holders, everything)
    if isinstance(tree, Boost):
        return splits_left(tree.part, catalog, holders, everything)
    if isinstance(tree, Term | Phrase | InSet | Holds):
        found = (_holders(tree, field, catalog, holders, everything) for field in _fields(tree, catalog))
        return _any(found, everything)
    return everything


def asked_terms(tree: Node, catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Yield the fields and terms that `splits_left` may ask for."""
    if isinstance(tree, And | Or):
        for part in tree.parts:
            yield from asked_terms(part, catalog)
    elif isinstance(tree, Prefer):
        yield from asked_terms(tree.required, catalog)
    elif isinstance(tree, Boost):
        yield from asked_terms(tree.part, catalog)
    elif isinstance(tree, Term | Phrase | InSet | Holds):
        for field in _fields(tree, catalog):
            for text in _texts(tree, field):
                if field is not None:
                    yield from ((field.name, term) for term in catalog.tokens(field.column, text))


def _all(parts: Iterable[int], everything: int) -> int:
    left = everything
    for part in parts:
        left &= part
        if not left:
            break
    return left


def _any(parts: Iterable[int], everything: int) -> int:
    found = 0
    for part in parts:
        found |= part
        if found == everything:
            break
    return found


def _fields(leaf: Leaf, catalog: Catalog) -> list[Field | None]:
    """Return the fields of a leaf; None represents an unknown field."""
    if leaf.path is None:
        return [*catalog.text_fields()] or [None]
    found = resolve(catalog, leaf.path)
    return [None if found is None else found[0]]


def _texts(leaf: _TermLeaf, field: Field | None) -> tuple[str, ...]:
    """Return the texts of which a split must hold one; none if it need not hold any."""
    if field is None or field.kind not in {TEXT, STRING} or field.type.startswith("decimal"):
        return ()
    if isinstance(leaf, Holds):
        return _equal_texts(leaf)
    return tuple(leaf.texts) if isinstance(leaf, InSet) else (leaf.text,)


def _equal_texts(leaf: Holds) -> tuple[str, ...]:
    """Return the values of which a row must have one; none if others match too."""
    test = leaf.test
    if isinstance(test, BoundComparison) and test.operator == "=":
        return (test.value,) if isinstance(test.value, str) else ()
    if isinstance(test, BoundIn) and not test.negated:
        return tuple(value for value in test.values if isinstance(value, str))
    return ()


def _holders(leaf: _TermLeaf, field: Field | None, catalog: Catalog, holders: Holders, everything: int) -> int:
    texts = _texts(leaf, field)
    if field is None or not texts:
        return everything
    name, column = field.name, field.column
    found = (_all((holders(name, term) for term in catalog.tokens(column, text)), everything) for text in texts)
    return _any(found, everything)
