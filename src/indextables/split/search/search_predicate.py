"""Search predicates of SQL on named columns, joined by AND, OR and NOT.

    message TEXTSEARCH 'disk AND full'     a query to columns of text
    host FIELDMATCH 'web-1'                one whole value, in a column that is not split into words
    attrs INDEXQUERY 'attrs.user:ann'      a query to columns of any kind

A query may name only the columns of its predicate; if it names none, it searches the text columns among them. A
predicate is never null: a row without a value matches no word, and matches the negation of every word.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import msgspec

from indextables.errors import QueryError
from indextables.split.index.builder import make_schema
from indextables.split.index.fields import FieldMap, IndexField, Kind
from indextables.split.query import compile_query, parse_query
from indextables.split.query.tree import And, Boost, Leaf, Node, Not, Or, Phrase, Prefer, both, either, negate
from indextables.split.search.searchable import SearchableFields

TEXTSEARCH, FIELDMATCH, INDEXQUERY = "textsearch", "fieldmatch", "indexquery"


class Search(msgspec.Struct, frozen=True, tag_field="op", tag="search"):
    """One operator on some columns.

    `fields` describe the indexing of the searched columns. `is_everywhere` is true if the columns are all text columns
    of a table: then the score equals the score of a query to the table.
    """

    function: str
    columns: tuple[str, ...]
    text: str
    fields: tuple[IndexField, ...] = ()
    is_everywhere: bool = False

    def __str__(self) -> str:
        quoted = self.text.replace("\\", "\\\\").replace("'", "\\'")
        return f"{', '.join(self.columns)} {self.function.upper()} '{quoted}'"


class All(msgspec.Struct, frozen=True, tag_field="op", tag="and"):
    """All parts are true."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return f"({' AND '.join(map(str, self.parts))})"


class Some(msgspec.Struct, frozen=True, tag_field="op", tag="or"):
    """At least one part is true."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return f"({' OR '.join(map(str, self.parts))})"


class Opposite(msgspec.Struct, frozen=True, tag_field="op", tag="not"):
    """The part is not true."""

    part: Predicate

    def __str__(self) -> str:
        return f"NOT {self.part}"


Predicate = Search | All | Some | Opposite
# Created at import: msgspec crashes if two threads decode a type for the first time at once.
_decoder: msgspec.json.Decoder[Predicate] = msgspec.json.Decoder(Predicate)


def from_json(text: str) -> Predicate:
    return _decoder.decode(text)


def to_json(predicate: Predicate) -> str:
    return msgspec.json.encode(predicate).decode()


def operators(predicate: Predicate) -> list[Search]:
    """Return the operators of a predicate."""
    if isinstance(predicate, Search):
        return [predicate]
    parts = (predicate.part,) if isinstance(predicate, Opposite) else predicate.parts
    return [search for part in parts for search in operators(part)]


def for_table(predicate: Predicate, text_columns: Collection[str]) -> Predicate:
    """Adapt a predicate to a table with these text columns."""
    if isinstance(predicate, Search):
        is_everywhere = len(predicate.columns) > 1 and set(predicate.columns) == set(text_columns)
        return Search(predicate.function, predicate.columns, predicate.text, is_everywhere=is_everywhere)
    if isinstance(predicate, Opposite):
        return Opposite(for_table(predicate.part, text_columns))
    return type(predicate)(tuple(for_table(part, text_columns) for part in predicate.parts))


def tree_of(predicate: Predicate) -> Node:
    """Return the query that finds the rows of a predicate."""
    if isinstance(predicate, All):
        return both(map(tree_of, predicate.parts))
    if isinstance(predicate, Some):
        return either(map(tree_of, predicate.parts))
    if isinstance(predicate, Opposite):
        return negate(tree_of(predicate.part))
    if predicate.function == FIELDMATCH:
        return Phrase(predicate.text, path=(predicate.columns[0],))
    if len(predicate.columns) == 1:
        alone = (predicate.columns[0],)
        return _scoped(parse_query(predicate.text, alone), [alone])
    tree = parse_query(predicate.text)
    is_scoped = predicate.columns and not predicate.is_everywhere
    return _scoped(tree, [(name,) for name in predicate.columns]) if is_scoped else tree


def checked(function: str, fields: FieldMap, text: str) -> Search:
    """Return a search on some fields; raise a `QueryError` if it is not possible."""
    chosen = _columns(function, fields)
    search = Search(function, tuple(field.column for field in chosen), text)
    try:
        tree = tree_of(search)
        catalog = SearchableFields(fields)
        compile_query(tree, catalog, make_schema(fields), text="" if function == FIELDMATCH else text)
    except QueryError as error:
        raise QueryError(f"cannot use {function.upper()}: {error.message}", hint=error.hint) from None
    looked_at = {field.column for field, leaf in catalog.asked_by(tree) if leaf.path is not None}
    used = tuple(field for field in fields.fields if field.column in looked_at) or fields.fields[:1]
    return msgspec.structs.replace(search, fields=used)


def _columns(function: str, fields: FieldMap) -> Sequence[IndexField]:
    """Return the fields to search if the query names none."""
    alone = fields.fields[0] if len(fields.fields) == 1 else None
    if function == FIELDMATCH:
        if alone is None:
            raise QueryError("cannot use FIELDMATCH on several columns", hint="name one column")
        if alone.kind in {Kind.TEXT, Kind.JSON}:
            raise QueryError(
                f"cannot use FIELDMATCH on `{alone.column}` because it is indexed as `{alone.kind}`",
                hint="TEXTSEARCH looks for words in text, and INDEXQUERY works on any column",
            )
        return fields.fields
    if alone is None:
        texts = fields.text_fields()
        if not texts and function == TEXTSEARCH:
            raise QueryError(
                "cannot use TEXTSEARCH because none of the columns is indexed as `text`",
                hint="INDEXQUERY works on any column that it names",
            )
        return texts
    if function == TEXTSEARCH and alone.kind is not Kind.TEXT:
        raise QueryError(
            f"cannot use TEXTSEARCH on `{alone.column}` because it is indexed as `{alone.kind}`",
            hint="FIELDMATCH compares whole values, and INDEXQUERY works on any column",
        )
    return fields.fields


def _scoped(tree: Node, paths: Sequence[tuple[str, ...]]) -> Node:
    """Apply leaves without a field to these fields; any of them may match."""
    if isinstance(tree, And):
        return And(tuple(_scoped(part, paths) for part in tree.parts))
    if isinstance(tree, Or):
        return Or(tuple(_scoped(part, paths) for part in tree.parts))
    if isinstance(tree, Not):
        return Not(_scoped(tree.part, paths))
    if isinstance(tree, Boost):
        return Boost(_scoped(tree.part, paths), tree.factor)
    if isinstance(tree, Prefer):
        return Prefer(_scoped(tree.required, paths), _scoped(tree.optional, paths))
    if isinstance(tree, Leaf) and tree.path is None:
        return either(dataclasses.replace(tree, path=path) for path in paths)
    return tree
