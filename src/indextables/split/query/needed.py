"""Decide from a split's terms whether it can match a query; never a false no."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from indextables.predicate.bound import BoundComparison, BoundIn
from indextables.split.query.catalog import STRING, TEXT, Catalog, Field, resolve
from indextables.split.query.tree import And, Boost, Holds, InSet, Leaf, Node, Or, Phrase, Prefer, Term

MayContain = Callable[[str, str], bool]
"""Returns whether a field, by its name in the index, may hold a term."""


def may_match(tree: Node, catalog: Catalog, may_contain: MayContain) -> bool:
    """Return whether the required terms may exist; leaves on other things always may."""
    if isinstance(tree, And):
        return all(may_match(part, catalog, may_contain) for part in tree.parts)
    if isinstance(tree, Or):
        return any(may_match(part, catalog, may_contain) for part in tree.parts)
    if isinstance(tree, Prefer):
        return may_match(tree.required, catalog, may_contain)
    if isinstance(tree, Boost):
        return may_match(tree.part, catalog, may_contain)
    texts: Sequence[str]
    if isinstance(tree, Term | Phrase | InSet):
        texts = tree.texts if isinstance(tree, InSet) else (tree.text,)
    elif isinstance(tree, Holds):
        texts = _equal_texts(tree)
    else:
        return True
    return any(_may_hold(texts, field, catalog, may_contain) for field in _fields(tree, catalog))


def _equal_texts(leaf: Holds) -> Sequence[str]:
    """Return the values of which a row must have one; none if others match too."""
    test = leaf.test
    if isinstance(test, BoundComparison) and test.operator == "=":
        values: Sequence[object] = (test.value,)
    elif isinstance(test, BoundIn) and not test.negated:
        values = test.values
    else:
        return ()
    return [value for value in values if isinstance(value, str)]


def _fields(leaf: Leaf, catalog: Catalog) -> list[Field | None]:
    """Return the fields of a leaf; None represents an unknown field."""
    if leaf.path is None:
        return [*catalog.text_fields()] or [None]
    found = resolve(catalog, leaf.path)
    return [None if found is None else found[0]]


def _may_hold(texts: Sequence[str], field: Field | None, catalog: Catalog, may_contain: MayContain) -> bool:
    if not texts or field is None or field.kind not in {TEXT, STRING} or field.type.startswith("decimal"):
        return True
    return any(all(may_contain(field.name, term) for term in catalog.tokens(field.column, text)) for text in texts)
