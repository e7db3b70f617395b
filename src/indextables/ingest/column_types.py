"""Convert column specs such as `level:string` or `tags:array<string>` to fields.

Also converts types back to words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from indextables.errors import SchemaError
from indextables.protocol.schema import schema_from_json, schema_to_json

_ALIASES = {
    "int": "integer",
    "int32": "integer",
    "bigint": "long",
    "int64": "long",
    "smallint": "short",
    "int16": "short",
    "tinyint": "byte",
    "int8": "byte",
    "real": "float",
    "float32": "float",
    "float64": "double",
    "bool": "boolean",
    "bytes": "binary",
    "datetime": "timestamp_ntz",
}
_NAMES = ("string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp")
_KNOWN = {*_NAMES, "timestamp_ntz", "decimal"}
_INDEXED_STRINGS = ("text", "json", "ip")
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")
_WORD = re.compile(r"\s*(decimal\s*\([^)]*\)|[^<>,:\s]+|[<>,:])\s*", re.IGNORECASE)


class NamedColumn(NamedTuple):
    """A column with its indexing, if the spec names one."""

    field: pa.Field[Any]
    indexing: str | None


def parse_column(text: str) -> NamedColumn:
    """Parse `name:type`.

    The type is one of Spark's, or `text`, `json` or `ip` for strings with that indexing.
    """
    name, colon, kind = text.partition(":")
    if not name or not colon or not kind:
        raise SchemaError(
            f"cannot read `{text}` as a column: expected NAME:TYPE",
            hint="write it as in `message:text` or `ts:timestamp`",
        )
    indexing = kind.strip().lower() if kind.strip().lower() in _INDEXED_STRINGS else None
    spark = "string" if indexing else _Words(kind, name).type()
    schema = schema_from_json(
        msgspec.json.encode({"type": "struct", "fields": [{"name": name, "type": spark, "nullable": True}]}).decode()
    )
    return NamedColumn(schema.field(0), indexing)


def type_text(kind: pa.DataType) -> str:
    """Return a type in words: `long`, `array<string>`, `struct<a:long,b:string>`."""
    try:
        schema = msgspec.json.decode(schema_to_json(pa.schema([("column", kind)])))
    except SchemaError:
        return str(kind)
    return _spark_text(schema["fields"][0]["type"])


class _Words:
    """Parser over the words of a type, from left to right."""

    def __init__(self, text: str, column: str) -> None:
        self._text, self._column = text, column
        self._left = [match.group(1) for match in _WORD.finditer(text)]

    def type(self) -> Any:
        """Parse the whole text into Spark's JSON of a type."""
        kind = self._type()
        if self._left:
            raise self._error()
        return kind

    def _type(self) -> Any:
        word = re.sub(r"\s+", "", self._next()).lower()
        if word == "array":
            (element,) = self._types(1)
            return {"type": "array", "elementType": element, "containsNull": True}
        if word == "map":
            key, value = self._types(2)
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        if word == "struct":
            return {"type": "struct", "fields": self._inside(self._field)}
        word = _ALIASES.get(word, word)
        if word not in _KNOWN and not _DECIMAL.fullmatch(word):
            raise self._error()
        return word

    def _field(self) -> dict[str, Any]:
        name = self._next()
        self._expect(":")
        return {"name": name, "type": self._type(), "nullable": True}

    def _types(self, count: int) -> list[Any]:
        types = self._inside(self._type)
        if len(types) != count:
            raise self._error()
        return types

    def _inside(self, read: Callable[[], Any]) -> list[Any]:
        self._expect("<")
        found = [read()]
        while self._left[:1] == [","]:
            self._next()
            found.append(read())
        self._expect(">")
        return found

    def _expect(self, word: str) -> None:
        if self._next() != word:
            raise self._error()

    def _next(self) -> str:
        if not self._left:
            raise self._error()
        return self._left.pop(0)

    def _error(self) -> SchemaError:
        return SchemaError(
            f"cannot make the column `{self._column}` because there is no type `{self._text}`",
            hint=f"there are {_types()}",
        )


def _types() -> str:
    names: Iterable[str] = (*_INDEXED_STRINGS, *_NAMES, "timestamp_ntz", "decimal(p,s)", "array<...>", "map<...>")
    return ", ".join(f"`{name}`" for name in (*names, "struct<name:type,...>"))


def _spark_text(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "array":
        return f"array<{_spark_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_spark_text(kind['keyType'])},{_spark_text(kind['valueType'])}>"
    fields = (f"{field['name']}:{_spark_text(field['type'])}" for field in kind["fields"])
    return f"struct<{','.join(fields)}>"
