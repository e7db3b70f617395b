"""Plans of queries: how a query runs on every index with the same fields.

A plan depends on the table's fields, which define the meaning of a query, and on the fields of an index, not on a
split. So it is made once for all splits that are indexed alike.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import tantivy

from indextables.split.index.fields import FieldMap, IndexField
from indextables.split.partial.needs import Needs, needs_of
from indextables.split.query.catalog import JSON, STRING, TEXT, resolve
from indextables.split.query.tree import Leaf, Node, Phrase, Term
from indextables.split.search.searchable import SearchableFields, answers_alike, compiled_query, may_find_nan


class QueryPlan(NamedTuple):
    """How a query runs.

    `fields` is the index to ask: the split's own, or a new one by the table's fields. `flat` is the query without
    scores. `nan_columns` are those whose NaN the query may find, which a split's own index omits. `term` is the field
    and the term if the query is one term: then the index knows the number of its rows. `needs` and `needs_scored` are
    what the query reads of a split's own index, without and with scores; None is everything.
    """

    is_own: bool
    fields: FieldMap
    catalog: SearchableFields
    query: tantivy.Query
    flat: tantivy.Query
    nan_columns: tuple[str, ...]
    term: tuple[str, str] | None
    needs: Needs | None
    needs_scored: Needs | None


@functools.lru_cache(maxsize=64)
def interned(fields: FieldMap) -> FieldMap:
    """Return one object for equal fields, which compares faster."""
    return fields


@functools.lru_cache(maxsize=64)
def fields_of_mapping(text: str) -> FieldMap:
    """Decode a doc mapping; splits with the same one share its fields."""
    return interned(FieldMap.from_json(text))


@functools.lru_cache(maxsize=64)
def with_nans(fields: FieldMap) -> FieldMap:
    """Return the fields of a new index."""
    return fields.with_nans()


@functools.lru_cache(maxsize=32)
def plan_query(tree: Node, text: str, asked: FieldMap, own: FieldMap | None) -> QueryPlan:
    """Plan a query on splits whose index has the fields `own`, or None if unreadable.

    Errors show `text`.
    """
    catalog = None if own is None else _own_catalog(tree, asked, own)
    fields = with_nans(asked) if own is None or catalog is None else own
    is_own = catalog is not None
    catalog = SearchableFields(fields) if catalog is None else catalog
    query = compiled_query(tree, catalog.map, fields, text)
    found = SearchableFields(asked).asked_by(tree) if is_own else ()
    nans = dict.fromkeys(field.column for field, leaf in found if may_find_nan(field, leaf))
    flat = tantivy.Query.const_score_query(query, 1.0)
    needs, needs_scored = (needs_of(tree, catalog, scored=scored) if is_own else None for scored in (False, True))
    term = _single_term(tree, catalog)
    return QueryPlan(is_own, fields, catalog, query, flat, tuple(nans), term, needs, needs_scored)


def _own_catalog(tree: Node, asked: FieldMap, own: FieldMap) -> SearchableFields | None:
    """Return the catalog of a split's own index; None if it answers differently."""
    if own == asked:
        return SearchableFields(asked)
    used: dict[str, IndexField] = {}
    for field, leaf in SearchableFields(asked).asked_by(tree):
        found = own.find(field.column)
        if found is None or not answers_alike(field, leaf, found):
            return None
        used[field.column] = found
    # Leave out the split's other columns: if they are text, words without a field would be searched in them.
    return SearchableFields(FieldMap(sorted(used.values(), key=lambda field: field.position)))


def _single_term(tree: Node, catalog: SearchableFields) -> tuple[str, str] | None:
    if not isinstance(tree, Term | Phrase) or (isinstance(tree, Phrase) and tree.slop):
        return None
    field = _single_field(tree, catalog)
    if field is None or field.kind not in {TEXT, STRING}:
        return None
    is_whole = field.kind == STRING
    terms = [catalog.parse_literal(field.column, tree.text)] if is_whole else catalog.tokens(field.column, tree.text)
    return (field.name, terms[0]) if len(terms) == 1 and isinstance(terms[0], str) else None


def _single_field(leaf: Leaf, catalog: SearchableFields) -> IndexField | None:
    if leaf.path is None:
        fields = catalog.text_fields()
        return fields[0] if len(fields) == 1 else None
    found = resolve(catalog, leaf.path)
    return None if found is None or found[0].kind == JSON else catalog.find(found[0].column)
