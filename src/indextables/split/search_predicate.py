"""Search predicates, as SQL has them: on the columns that they name, alone or joined by AND, OR and NOT.

    message TEXTSEARCH 'disk AND full'     a query to columns of text
    host FIELDMATCH 'web-1'                one whole value, in a column that is not split into words
    attrs INDEXQUERY 'attrs.user:ann'      a query to columns of any kind

A query may name the columns of its predicate and no others; where it names none, it means those of them that are text.
A predicate is never null: what holds no value is found by no word, and by the opposite of every word.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import msgspec

from indextables.errors import QueryError
from indextables.split.fields import FieldMap, IndexField, Kind
from indextables.split.indexing import make_schema
from indextables.split.query import compile_query, parse_query
from indextables.split.query.tree import And, Boost, Leaf, Node, Not, Or, Phrase, Prefer, both, either, negate
from indextables.split.searchable import SearchableFields

TEXTSEARCH, FIELDMATCH, INDEXQUERY = "textsearch", "fieldmatch", "indexquery"


class Search(msgspec.Struct, frozen=True, tag_field="op", tag="search"):
    """One operator on some columns. `fields` says how those are indexed that it looks at. `is_everywhere` says that the
    columns are all columns of text that a table has: then it is scored like a query to the table."""

    function: str
    columns: tuple[str, ...]
    text: str
    fields: tuple[IndexField, ...] = ()
    is_everywhere: bool = False

    def __str__(self) -> str:
        quoted = self.text.replace("\\", "\\\\").replace("'", "\\'")
        return f"{', '.join(self.columns)} {self.function.upper()} '{quoted}'"


class All(msgspec.Struct, frozen=True, tag_field="op", tag="and"):
    """Every part is true."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return f"({' AND '.join(map(str, self.parts))})"


class Some(msgspec.Struct, frozen=True, tag_field="op", tag="or"):
    """A part is true."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return f"({' OR '.join(map(str, self.parts))})"


class Opposite(msgspec.Struct, frozen=True, tag_field="op", tag="not"):
    """The part is not true."""

    part: Predicate

    def __str__(self) -> str:
        return f"NOT {self.part}"


Predicate = Search | All | Some | Opposite
# Made here, because msgspec crashes where two threads decode a type for the first time at once.
_decoder: msgspec.json.Decoder[Predicate] = msgspec.json.Decoder(Predicate)


def from_json(text: str) -> Predicate:
    return _decoder.decode(text)


def to_json(predicate: Predicate) -> str:
    return msgspec.json.encode(predicate).decode()


def operators(predicate: Predicate) -> list[Search]:
    """The operators of a predicate."""
    if isinstance(predicate, Search):
        return [predicate]
    parts = (predicate.part,) if isinstance(predicate, Opposite) else predicate.parts
    return [search for part in parts for search in operators(part)]


def for_table(predicate: Predicate, text_columns: Collection[str]) -> Predicate:
    """A predicate on a table of which all columns of text are known."""
    if isinstance(predicate, Search):
        is_everywhere = len(predicate.columns) > 1 and set(predicate.columns) == set(text_columns)
        return Search(predicate.function, predicate.columns, predicate.text, is_everywhere=is_everywhere)
    if isinstance(predicate, Opposite):
        return Opposite(for_table(predicate.part, text_columns))
    return type(predicate)(tuple(for_table(part, text_columns) for part in predicate.parts))


def tree_of(predicate: Predicate) -> Node:
    """The query that finds the rows of a predicate."""
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
    """A search on the fields of some columns; a `QueryError` where it cannot be."""
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
    """The fields that a search means where it names none."""
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
    """The tree with its leaves of no field on some fields, each of which may hold what is looked for."""
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
