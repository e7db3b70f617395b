"""Compile a query's tree to a Tantivy query for one table's fields.

Tantivy's own query parser is never used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import tantivy

from indextables.errors import QueryError
from indextables.predicate.source import show_place
from indextables.split.query.catalog import JSON, STRING, TEXT, Catalog, Field, resolve, suggest
from indextables.split.query.holds import query_of
from indextables.split.query.json_leaves import JsonLeaves
from indextables.split.query.text_leaves import TextLeaves
from indextables.split.query.tree import All, And, Boost, Holds, Leaf, Node, Not, Or, Prefer
from indextables.split.query.value_leaves import ValueLeaves
from indextables.split.query.values import Unsupported

_NO_TEXT = "write `field:value`, or index a column as `text`"
_MUST, _SHOULD, _MUST_NOT = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot


def compile_query(tree: Node, catalog: Catalog, schema: tantivy.Schema, *, text: str = "") -> tantivy.Query:
    """Compile `tree`, or raise a `QueryError` that shows the position in `text`."""
    return _Compiler(catalog, schema, text).compile(tree)


class _Compiler:
    def __init__(self, catalog: Catalog, schema: tantivy.Schema, text: str) -> None:
        self._catalog = catalog
        self._schema = schema
        self._text = text

    def compile(self, node: Node) -> tantivy.Query:
        if isinstance(node, And):
            return self._both(node.parts)
        if isinstance(node, Or):
            return tantivy.Query.boolean_query([(_SHOULD, self.compile(part)) for part in node.parts])
        if isinstance(node, Not):
            return self._both([node])
        if isinstance(node, Prefer):
            required, optional = self.compile(node.required), self.compile(node.optional)
            return tantivy.Query.boolean_query([(_MUST, required), (_SHOULD, optional)])
        if isinstance(node, Boost):
            return tantivy.Query.boost_query(self.compile(node.part), node.factor)
        if isinstance(node, All):
            return tantivy.Query.all_query()
        return self._leaf(node)

    def _both(self, parts: Iterable[Node]) -> tantivy.Query:
        """Join parts by AND; negations alone would find nothing, so add all rows."""
        must = [self.compile(part) for part in parts if not isinstance(part, Not)]
        must_not = [self.compile(part.part) for part in parts if isinstance(part, Not)]
        clauses = [(_MUST, query) for query in must or [tantivy.Query.all_query()]]
        return tantivy.Query.boolean_query(clauses + [(_MUST_NOT, query) for query in must_not])

    def _leaf(self, leaf: Leaf) -> tantivy.Query:
        if leaf.path is None:
            fields = self._catalog.text_fields()
            if not fields:
                self._fail(leaf.place, "it names no field, and the table has no text field", _NO_TEXT)
            queries = [self._on_field(leaf, field, ()) for field in fields]
            return queries[0] if len(queries) == 1 else tantivy.Query.disjunction_max_query(queries)
        found = resolve(self._catalog, leaf.path)
        if found is None:
            reason = f"there is no field `{'.'.join(leaf.path)[:100]}`"
            self._fail(leaf.path_place, reason, suggest(self._catalog, leaf.path))
        if isinstance(leaf, Holds):
            return query_of(leaf.test, found[0], self._schema)
        return self._on_field(leaf, *found)

    def _on_field(self, leaf: Leaf, field: Field, inside: tuple[str, ...]) -> tantivy.Query:
        try:
            if field.kind == JSON:
                return JsonLeaves(self._catalog, self._schema, field, inside).compile(leaf)
            if field.kind in {TEXT, STRING}:
                return TextLeaves(self._catalog, self._schema, field).compile(leaf)
            return ValueLeaves(self._catalog, self._schema, field).compile(leaf)
        except Unsupported as error:
            self._fail(leaf.place, error.reason, error.hint)

    def _fail(self, place: int, reason: str, hint: str | None = None) -> NoReturn:
        where = f", at {show_place(self._text, place)}" if self._text else ""
        raise QueryError(f"cannot run the query because {reason}{where}", hint=hint) from None
