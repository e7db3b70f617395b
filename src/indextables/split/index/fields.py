"""Map the columns of a schema to fields of the index. Pure.

A field has its own name (`f0`, `f1`, by the position of its column), so that no column name can clash with the engine's
syntax. A setting that fits no column, or not the type of its column, is an error.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.config import Config, settings
from indextables.errors import SchemaError
from indextables.protocol.doc_mapping import canonical_json
from indextables.runtime.caching import lazy_property
from indextables.split.index.tokenizers import is_tokenizer, known_tokenizers

RESERVED = frozenset({"_row", "_score", "_snippet"})
MAX_TERM_BYTES = 65_530
"""The engine silently drops longer terms."""
MAX_WHOLE_BYTES = MAX_TERM_BYTES - 5
"""The index may hold only the beginning of a longer value.

Strings are cut between characters of up to four bytes, and the engine cuts words of JSON to the byte after this one.
"""

_MAX_I64_DIGITS = 18
_NUM_FAST_COLUMNS = 32


class Kind(enum.StrEnum):
    """Indexing of a column."""

    TEXT = "text"
    STRING = "string"
    JSON = "json"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"
    BOOL = "bool"
    BYTES = "bytes"
    IP = "ip"


_NUMERIC = frozenset({Kind.INT, Kind.UINT, Kind.FLOAT})
_RENAMED = {"column": "name", "name": "field", "max_token_length": "maxTokenLength"}


class IndexField(msgspec.Struct, frozen=True, kw_only=True, rename=_RENAMED, forbid_unknown_fields=False):
    """A column in the index; `type` is its Arrow type as text, for parsing literals."""

    column: str
    name: str
    kind: Kind
    type: str
    tokenizer: str = "raw"
    record: str = "position"
    fast: bool = False
    max_token_length: int = 255

    @property
    def position(self) -> int:
        return int(self.name[1:])

    @property
    def nan_of(self) -> str | None:
        """Column that this field marks NaN for; None for any other field."""
        return self.column.removeprefix(_NAN_OF) if self.column.startswith(_NAN_OF) else None

    @property
    def meaning(self) -> tuple[object, ...]:
        """Properties that decide which rows a query finds, and their scores."""
        return self.column, self.kind, self.type, self.tokenizer, self.record, self.max_token_length

    @property
    def is_fast_number(self) -> bool:
        """Whether the values are in a fast column instead of terms."""
        return self.fast and self.kind in _NUMERIC


# Created at import: msgspec crashes if two threads decode a type for the first time at once.
_decoder = msgspec.json.Decoder(list[IndexField])


_NAN_OF = "\0nan of "


class FieldMap:
    """The fields of an index in column order; immutable."""

    def __init__(self, fields: Iterable[IndexField]) -> None:
        self.fields = tuple(fields)
        self._by_column = {field.column: field for field in self.fields}
        self._by_lower = {field.column.lower(): field for field in self.fields}
        self._hash = hash(self.fields)
        self.longest_name = max(map(len, self._by_lower), default=0)

    def find(self, column: str) -> IndexField | None:
        """Return the field of a column by its exact name, else ignoring case."""
        return self._by_column.get(column) or self._by_lower.get(column.lower())

    def text_fields(self) -> tuple[IndexField, ...]:
        """Return the fields to search if a query names none."""
        return tuple(field for field in self.fields if field.kind is Kind.TEXT)

    def with_nans(self) -> FieldMap:
        """Add a field per float column that marks NaN, which the column's own field omits."""
        added = (
            IndexField(column=_NAN_OF + field.column, name=f"n{field.position}", kind=Kind.BOOL, type="bool")
            for field in self.fields
            if field.kind is Kind.FLOAT
        )
        return FieldMap((*self.fields, *added))

    def nan_field(self, column: str) -> IndexField | None:
        """Return the field that marks NaN in a column, or None."""
        return self._by_column.get(_NAN_OF + column)

    def to_json(self) -> str:
        """Return the doc mapping: a canonical JSON array of objects."""
        return self._json

    @lazy_property
    def _json(self) -> str:
        return canonical_json(msgspec.json.encode([msgspec.to_builtins(field) for field in self.fields]).decode())

    @classmethod
    def from_json(cls, text: str) -> FieldMap:
        try:
            fields = sorted(_decoder.decode(text), key=lambda field: field.position)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise SchemaError(f"cannot read a doc mapping because {error}") from error
        if len({field.column for field in fields}) != len(fields) or len({field.name for field in fields}) != len(
            fields
        ):
            raise SchemaError("cannot read a doc mapping because it names a column or a field twice")
        return cls(fields)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, FieldMap) and self.fields == other.fields)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"FieldMap({', '.join(f'{field.column}: {field.kind}' for field in self.fields)})"


def map_fields(schema: pa.Schema, config: Config, partition_columns: Sequence[str] = ()) -> FieldMap:
    """Map each column of a schema by its type and the settings `indexing.*`."""
    _check_names(schema.names)
    mapper = _Mapper(schema, config, partition_columns)
    return FieldMap(mapper.field(position) for position in range(len(schema.names)))


def value_type(type_: Any) -> Any:
    """Return the type of a column's values without encodings."""
    while pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        type_ = type_.value_type
    return type_


def is_text(type_: Any) -> bool:
    """Return whether an Arrow type is some form of string."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


class _Mapper:
    """The settings, resolved against the names of a schema."""

    def __init__(self, schema: pa.Schema, config: Config, partition_columns: Sequence[str]) -> None:
        self._schema = schema
        self._config = config
        self._partition_columns = frozenset(partition_columns)
        self._types = self._by_column("indexing.typemap", config.family(settings.INDEXING_TYPEMAP))
        self._tokenizers = self._by_column("indexing.tokenizer", config.family(settings.INDEXING_TOKENIZER))
        fast = config[settings.INDEXING_FASTFIELDS]
        self._fast = None if fast is None else {resolve_column(schema, name, "indexing.fastfields") for name in fast}

    def field(self, position: int) -> IndexField:
        column = self._schema.field(position)
        type_ = value_type(column.type)
        kind = self._kind(column.name, type_)
        tokenizer = self._tokenizer(column.name, kind)
        words = kind in {Kind.TEXT, Kind.JSON}
        return IndexField(
            column=column.name,
            name=f"f{position}",
            kind=kind,
            type=str(type_),
            tokenizer=tokenizer,
            record=self._config[settings.INDEXING_TEXT_INDEX_RECORD_OPTION] if words else "basic",
            fast=self._is_fast(column.name, kind, position),
            max_token_length=self._config[settings.INDEXING_TEXT_MAX_TOKEN_LENGTH] if words else MAX_TERM_BYTES,
        )

    def _kind(self, column: str, type_: Any) -> Kind:
        natural = _natural_kind(column, type_)
        asked = self._types.get(column)
        if asked is None or asked == natural:
            return natural
        if is_text(type_):
            return Kind(asked)
        raise SchemaError(
            f"cannot index column `{column}` as `{asked}` because its type is `{type_}`",
            hint=f"leave `indexing.typemap.{column}` out: only text can be indexed in several ways",
        )

    def _tokenizer(self, column: str, kind: Kind) -> str:
        asked = self._tokenizers.get(column)
        words = kind in {Kind.TEXT, Kind.JSON}
        if asked is None:
            return settings.INDEXING_TOKENIZER.default if words else "raw"
        if not is_tokenizer(asked):
            raise SchemaError(
                f"cannot use `{asked}` for `indexing.tokenizer.{column}` because there is no such tokenizer",
                hint=f"there are {known_tokenizers()}",
            )
        if not words and asked != "raw":
            raise SchemaError(
                f"cannot use `indexing.tokenizer.{column}` because column `{column}` is indexed as `{kind}`",
                hint=f"set `indexing.typemap.{column}` to `text` to search for words",
            )
        return asked

    def _is_fast(self, column: str, kind: Kind, position: int) -> bool:
        if kind is Kind.JSON and self._config[settings.INDEXING_JSON_MODE] == "full":
            return True
        if self._fast is not None:
            return column in self._fast
        return column in self._partition_columns or (kind in _NUMERIC and position < _NUM_FAST_COLUMNS)

    def _by_column(self, key: str, given: Mapping[str, str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in given.items():
            column = resolve_column(self._schema, name, f"{key}.{name}")
            if found.setdefault(column, value) != value:
                raise SchemaError(
                    f"cannot index column `{column}` because `{key}.{column}` is given "
                    f"as `{found[column]}` and as `{value}`: names ignore case"
                )
        return found


def resolve_column(schema: pa.Schema, name: str, key: str) -> str:
    """Return the column that a setting names, ignoring case.

    Raises a `SchemaError` that names the key if there is no such column.
    """
    if name in schema.names:
        return name
    for column in schema.names:
        if column.lower() == name.lower():
            return str(column)
    raise SchemaError(
        f"cannot use `{key}` because the schema has no column `{name}`",
        hint=f"its columns are {', '.join(f'`{column}`' for column in schema.names[:20])}",
    )


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise SchemaError("cannot index a schema that has two columns of one name")
    for name in names:
        if name in RESERVED:
            raise SchemaError(f"cannot index a column called `{name}` because that name is reserved")


def _natural_kind(column: str, type_: Any) -> Kind:
    for matches, kind in _KINDS:
        if matches(type_):
            return kind
    raise SchemaError(
        f"cannot index column `{column}` because its type is `{type_}`",
        hint="cast it to a string, a number or a timestamp first",
    )


def _is_integer(type_: Any) -> bool:
    if pa.types.is_decimal(type_):
        return bool(type_.precision <= _MAX_I64_DIGITS)
    return any(
        matches(type_) for matches in (pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_time)
    )


def _is_bytes(type_: Any) -> bool:
    matching = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(matches(type_) for matches in matching)


_KINDS: tuple[tuple[Any, Kind], ...] = (
    (pa.types.is_uint64, Kind.UINT),
    (_is_integer, Kind.INT),
    (pa.types.is_floating, Kind.FLOAT),
    (pa.types.is_boolean, Kind.BOOL),
    (is_text, Kind.STRING),
    (pa.types.is_null, Kind.STRING),
    (pa.types.is_decimal, Kind.STRING),  # of more than 18 digits: as text of one width, see `literals`
    (_is_bytes, Kind.BYTES),
    (pa.types.is_nested, Kind.JSON),
)
