r"""Compile leaves on a path inside JSON.

A value that is not an object is indexed under `$`, and a path passes through lists. In a column of lists the path of a
query is searched under `$`. In a column of JSON texts, where a row may hold an object or a list of objects, both places
are searched.

In the index a word of JSON follows its path: the keys joined by U+0001, then U+0000, `s` for text, and the word.
Patterns run over this form, since the library takes no path with a pattern.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import tantivy

from indextables.split.index.literals import JSON_ROOT
from indextables.split.query import patterns
from indextables.split.query.catalog import Catalog, Field
from indextables.split.query.text_leaves import check_word, fuzzy, normal, pattern_of, words
from indextables.split.query.tree import Exists, Fuzzy, InSet, Leaf, Phrase, Range, Term
from indextables.split.query.values import Unsupported, any_of, check_length, refuse, regex_query

_SEPARATOR = "\x01"
_MAX_PATH_BYTES = 4_000
"""Longest path: every word of a query carries its path to the library."""
_OBJECTS = ("struct", "map")
_LIST = re.compile(r"(?:large_|fixed_size_)?list(?:_view)?<.*?: ")
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")


class JsonLeaves:
    def __init__(self, catalog: Catalog, schema: tantivy.Schema, field: Field, inside: tuple[str, ...]) -> None:
        self._catalog = catalog
        self._schema = schema
        self._field = field
        self._inside = inside
        _check_path(field, inside)
        self._item_type = _item_type(field.type)
        self._places = self._all_places()

    def _all_places(self) -> list[tuple[str, ...]]:
        """Return the index paths that may hold a value of the query's path."""
        below_root = (JSON_ROOT, *self._inside)
        if not self._inside or self._item_type != self._field.type:
            return [below_root]
        return [self._inside] if self._field.type.startswith(_OBJECTS) else [self._inside, below_root]

    def compile(self, leaf: Leaf) -> tantivy.Query:
        column, is_list = self._field.column, self._item_type != self._field.type
        if self._inside and is_list and not self._item_type.startswith(_OBJECTS):
            raise Unsupported(f"`{column}` holds no objects, and so has no path", f"write `{column}:value`")
        if isinstance(leaf, Exists):
            return self._exists(leaf)
        if not self._inside and self._item_type.startswith(_OBJECTS):
            raise Unsupported(f"`{column}` is JSON, and no path inside it is named", f"write `{column}.key:value`")
        if isinstance(leaf, Term):
            return any_of(self._values(leaf.text))
        if isinstance(leaf, Phrase):
            return self._text(leaf.text, leaf.slop)
        if isinstance(leaf, InSet):
            return any_of(query for text in leaf.texts for query in self._values(text))
        if isinstance(leaf, Fuzzy):
            return any_of(fuzzy(leaf, name, self._field, self._catalog, self._schema) for name in self._names())
        if isinstance(leaf, Range):
            refuse(leaf, self._field, "the index has no order inside JSON: filter the rows with `where`")
        return self._pattern(pattern_of(leaf, self._normal))

    def _normal(self, text: str) -> str:
        return normal(self._catalog, self._field, text)

    def _exists(self, leaf: Exists) -> tantivy.Query:
        if not self._field.fast:
            refuse(leaf, self._field, "make it a fast field, with `indexing.fastfields`")
        names = self._names() if self._inside else [self._field.name]
        return any_of(tantivy.Query.exists_query(name, json_subpaths=True) for name in names)

    def _values(self, text: str) -> Iterator[tantivy.Query]:
        """Yield queries for a bare word, which may be text, a number or a boolean."""
        yield self._text(text)
        if text in {"true", "false"}:
            yield self._term(text == "true")
        elif _WHOLE.fullmatch(text) and -(2**63) <= int(text) < 2**64:
            yield self._term(int(text))
        elif _NUMBER.fullmatch(text) and math.isfinite(float(text)):
            yield self._term(float(text))

    def _text(self, text: str, slop: int = 0) -> tantivy.Query:
        check_word(text, self._field, self._catalog)
        for token in self._catalog.tokens(self._field.column, text):
            check_length(token.encode(), self._field)
        return any_of(words(text, slop, name, self._field, self._catalog, self._schema) for name in self._names())

    def _term(self, value: object) -> tantivy.Query:
        return any_of(tantivy.Query.term_query(self._schema, name, value) for name in self._names())

    def _pattern(self, pattern: str) -> tantivy.Query:
        # First alone: behind the path, unbalanced parentheses could become balanced.
        regex_query(self._schema, self._field.name, pattern)
        paths = [patterns.escape(_SEPARATOR.join(keys) + chr(0)) for keys in self._places]
        return any_of(regex_query(self._schema, self._field.name, f"{path}s(?:{pattern})") for path in paths)

    def _names(self) -> list[str]:
        return [_joined(self._field.name, keys) for keys in self._places]


def _check_path(field: Field, inside: tuple[str, ...]) -> None:
    num_bytes = sum(len(key.encode()) + 1 for key in inside)
    if num_bytes > _MAX_PATH_BYTES:
        raise Unsupported(
            f"a path inside `{field.column}` has at most {_MAX_PATH_BYTES:,} bytes, and this has {num_bytes:,}"
        )


def _item_type(type_: str) -> str:
    """Return the innermost item type of a list; any other type unchanged."""
    while (match := _LIST.match(type_)) is not None:
        type_ = type_[match.end() :]
    return type_


def _joined(name: str, keys: tuple[str, ...]) -> str:
    """Return a path in the library's syntax.

    The library looks for a field again at every dot, so the keys are joined like in the index.
    """
    escaped = (key.replace("\\", "\\\\").replace(".", "\\.") for key in keys)
    return f"{name}.{_SEPARATOR.join(escaped)}"
