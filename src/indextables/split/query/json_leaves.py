r"""Leaves on a path inside JSON.

A word of JSON stands in the index behind its path: the keys joined by U+0001, then U+0000, `s` for text, and the word.
Patterns are run over that, since the library takes no path with a pattern.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import tantivy

from indextables.split.literals import JSON_ROOT
from indextables.split.query import patterns
from indextables.split.query.catalog import Catalog, Field
from indextables.split.query.text_leaves import fuzzy, normal, pattern_of, words
from indextables.split.query.tree import Exists, Fuzzy, InSet, Leaf, Phrase, Range, Term
from indextables.split.query.values import Unsupported, any_of, refuse, regex_query

_WHOLE = re.compile(r"-?[0-9]{1,20}")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")


class JsonLeaves:
    def __init__(self, catalog: Catalog, schema: tantivy.Schema, field: Field, inside: tuple[str, ...]) -> None:
        self._catalog = catalog
        self._schema = schema
        self._field = field
        self._inside = inside
        self._keys = inside or (JSON_ROOT,)
        self._name = _joined(field.name, self._keys)

    def compile(self, leaf: Leaf) -> tantivy.Query:
        if isinstance(leaf, Exists):
            return self._exists(leaf)
        if not self._inside and self._field.type.startswith(("struct", "map")):
            column = self._field.column
            raise Unsupported(f"`{column}` is JSON, and no path inside it is named", f"write `{column}.key:value`")
        if isinstance(leaf, Term):
            return any_of(self._values(leaf.text))
        if isinstance(leaf, Phrase):
            return self._text(leaf.text, leaf.slop)
        if isinstance(leaf, InSet):
            return any_of(query for text in leaf.texts for query in self._values(text))
        if isinstance(leaf, Fuzzy):
            return fuzzy(leaf, self._name, self._field, self._catalog, self._schema)
        if isinstance(leaf, Range):
            refuse(leaf, self._field, "the index has no order inside JSON: filter the rows with `where`")
        return self._pattern(pattern_of(leaf, self._normal))

    def _normal(self, text: str) -> str:
        return normal(self._catalog, self._field, text)

    def _exists(self, leaf: Exists) -> tantivy.Query:
        if not self._field.fast:
            refuse(leaf, self._field, "make it a fast field, with `indexing.fastfields`")
        return tantivy.Query.exists_query(_joined(self._field.name, self._inside), json_subpaths=True)

    def _values(self, text: str) -> Iterator[tantivy.Query]:
        """A bare word may be text, a number or a boolean."""
        yield self._text(text)
        if text in {"true", "false"}:
            yield self._term(text == "true")
        elif _WHOLE.fullmatch(text) and -(2**63) <= int(text) < 2**64:
            yield self._term(int(text))
        elif _NUMBER.fullmatch(text) and math.isfinite(float(text)):
            yield self._term(float(text))

    def _text(self, text: str, slop: int = 0) -> tantivy.Query:
        return words(text, slop, self._name, self._field, self._catalog, self._schema)

    def _term(self, value: object) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, self._name, value)

    def _pattern(self, pattern: str) -> tantivy.Query:
        # Alone first: behind the path, parentheses that do not match could come to match.
        regex_query(self._schema, self._field.name, pattern)
        path = "\x01".join(self._keys)
        return regex_query(self._schema, self._field.name, f"{patterns.escape(path + chr(0))}s(?:{pattern})")


def _joined(name: str, keys: tuple[str, ...]) -> str:
    return ".".join([name, *(key.replace("\\", "\\\\").replace(".", "\\.") for key in keys)])
