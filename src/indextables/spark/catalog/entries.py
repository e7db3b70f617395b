"""Parts of a `CREATE TABLE` statement: the table's own settings and the catalog's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql.types import CharType, StringType, StructField, StructType, VarcharType

from indextables.config import lookup
from indextables.config.resolve import PREFIX
from indextables.config.setting import Setting
from indextables.errors import ConfigError, SchemaError, TableExistsError, TableNotFoundError
from indextables.log.snapshot import Head
from indextables.spark.options.arrow_types import to_spark_schema
from indextables.spark.options.save_options import spelled_settings, table_properties
from indextables.spark.options.save_schema import arrow_schema
from indextables.spark.options.source_options import READ_OPTIONS, WRITE_OPTIONS, SourceOptions
from indextables.store.base import ObjectStore

_OPTION = "option."
_PATH = "path"
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
_COMMENT = "comment"
_LOCATION = "location"
_RESERVED = {"provider", _LOCATION, _COMMENT, "owner", "external", "is_managed_location", "collation", "table_type"}
_INDEXING = "indexing."
_SPLIT = ".split"


class NewTable(NamedTuple):
    """A table to create; `indexing` and `properties` are keys of the log."""

    schema: str
    partition_columns: list[str]
    indexing: dict[str, str]
    properties: dict[str, str]


class NewEntry(NamedTuple):
    """A catalog entry to create.

    `settings` are the properties that belong to the table, `plain` the other properties.
    """

    name: str
    schema: StructType | None
    partition_columns: list[str]
    options: dict[str, str]
    settings: dict[str, str]
    plain: dict[str, str]
    comment: str | None
    place: str | None

    @classmethod
    def read(cls, asked: Mapping[str, Any]) -> NewEntry:
        """Read the request that Java sends for a statement.

        Spark writes each option twice, with and without a prefix.
        """
        given: dict[str, str] = asked["properties"]
        options = {key[len(_OPTION) :]: value for key, value in given.items() if key.startswith(_OPTION)}
        path = next((value for key, value in options.items() if key.lower() == _PATH), None)
        options = {key: value for key, value in options.items() if key.lower() != _PATH}
        _check_options(asked["name"], options)
        own = {
            key: value
            for key, value in given.items()
            if not key.startswith(_OPTION) and key not in _RESERVED and key not in options and key.lower() != _PATH
        }
        settings, plain = split_properties(asked["name"], own)
        return cls(
            name=asked["name"],
            schema=None if asked["schema"] is None else StructType.fromJson(json.loads(asked["schema"])),
            partition_columns=asked["partitions"],
            options=options,
            settings={key: value for key, value in settings.items() if value is not None},
            plain={key: value for key, value in plain.items() if value is not None},
            comment=given.get(_COMMENT),
            place=given.get(_LOCATION, path),
        )

    def planned(self, options: Mapping[str, str]) -> NewTable:
        """Return the table to create, with the settings of the statement and the session."""
        if self.schema is None:
            raise TableNotFoundError(
                f"cannot take the columns of `{self.name}` from its place: No transaction log found at "
                f"`{options[_PATH]}`",
                hint="name the columns, and a new table is made there",
            )
        columns = arrow_schema(self.schema)
        by_lower = {name.lower(): name for name in columns.names}
        settings = spelled_settings(SourceOptions.parse(options).settings, columns)
        properties = spelled_settings(self.settings, columns)
        return NewTable(
            _as_strings(self.schema).json(),
            [by_lower.get(name.lower(), name) for name in self.partition_columns],
            table_properties({**settings, **properties}),
            {f"{PREFIX}{key}": value for key, value in properties.items() if not key.startswith(_INDEXING)},
        )

    def check_vacant(self, store: ObjectStore, url: str) -> None:
        """Refuse a location that holds other files: `DROP TABLE` would delete them.

        Files that a killed write has left behind are allowed: no version names them.
        """
        other = next((found.key for found in store.list() if not found.key.endswith(_SPLIT)), None)
        if other is not None:
            raise TableExistsError(
                f"cannot make `{self.name}` because its place `{url}` holds other files, as `{other}`",
                hint="remove them, or choose a place with `LOCATION`",
            )

    def check_agrees(self, head: Head, url: str, *, hint: str) -> None:
        """Refuse a statement that disagrees with the existing table.

        The order of columns counts, because an `INSERT` without column names follows it.
        """
        there = to_spark_schema(head.schema)
        if self.schema is not None and _shown(_as_strings(self.schema)).lower() != _shown(there).lower():
            raise SchemaError(
                f"cannot use the columns ({_shown(self.schema)}) for `{self.name}` because the table at `{url}` has "
                f"({_shown(there)})",
                hint=hint,
            )
        partitions = [name.lower() for name in self.partition_columns]
        if partitions and partitions != [name.lower() for name in head.partition_columns]:
            raise SchemaError(
                f"cannot partition `{self.name}` by ({', '.join(self.partition_columns)}) because the table at `{url}` "
                f"is partitioned by ({', '.join(head.partition_columns)})",
                hint=hint,
            )
        known = head.metadata.configuration
        for key, value in spelled_settings({**_indexing(self.options), **self.settings}, head.schema).items():
            if known.get(f"{PREFIX}{key}") != value:
                raise ConfigError(
                    f"cannot set `{key}` to `{value}` for `{self.name}` because the table at `{url}` is there already, "
                    f"with `{known.get(f'{PREFIX}{key}', 'nothing')}`",
                    hint="`ALTER TABLE ... SET TBLPROPERTIES` changes the properties of a table",
                )

    def taken(self, url: str) -> TableExistsError:
        return TableExistsError(
            f"cannot make `{self.name}` because there is a table at `{url}`",
            hint="`CREATE TABLE ... USING indextables LOCATION ...` without a query takes it as it is",
        )

    def kept_options(self) -> dict[str, str]:
        """Return the options of every read and write, without the indexing settings."""
        return {key: value for key, value in self.options.items() if key not in _indexing(self.options)}

    def commented(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the comments of the statement's columns."""
        given = {} if self.schema is None else {field.name.lower(): field.metadata for field in self.schema.fields}
        for field in schema["fields"]:
            comment = given.get(field["name"].lower(), {}).get(_COMMENT)
            field["metadata"] |= {} if comment is None else {_COMMENT: comment}
        return schema


def split_properties(name: str, given: Mapping[str, str | None]) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Split properties into settings of the table, by their full keys, and others."""
    settings: dict[str, str | None] = {}
    plain: dict[str, str | None] = {}
    for key, value in given.items():
        short = _short(key)
        found = lookup.find(short)
        if found is None and short == key:
            plain[key] = value
            continue
        if found is None:
            near = lookup.nearest(short)
            raise ConfigError(
                f"cannot set `{key}` for `{name}` because there is no such setting",
                hint=None if near is None else f"did you mean `{PREFIX}{near}`?",
            )
        if isinstance(found, Setting) and (found.host_only or found.secret):
            raise ConfigError(
                f"cannot keep `{key}` as a property of `{name}` because it is a setting of readers, not of the table",
                hint="give it in `OPTIONS`, or to the session",
            )
        full = found.key if isinstance(found, Setting) else f"{found[0].key}.{found[1]}"
        settings[f"{PREFIX}{full}"] = value
    if _LOCATION in plain and _LOCATION in given:
        raise ConfigError(f"cannot move `{name}`: drop it, and create it at the other place")
    return settings, plain


def is_secret(key: str) -> bool:
    """Return whether the value of an option is never shown."""
    found = lookup.find(_short(key))
    return isinstance(found, Setting) and found.secret


def _check_options(name: str, options: Mapping[str, str]) -> None:
    own = {option.lower() for option in (*READ_OPTIONS, *WRITE_OPTIONS)}
    refused = next((key for key in options if key.lower() in own), None)
    if refused is not None:
        raise ConfigError(
            f"cannot keep the option `{refused}` for `{name}` because it is an option of one read or write",
            hint="create a view with the option instead",
        )
    SourceOptions.parse({**options, _PATH: name})


def _indexing(options: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if _short(key).lower().startswith(_INDEXING)}


def _short(key: str) -> str:
    return key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key


def _as_strings(schema: StructType) -> StructType:
    """Return `CHAR(n)` and `VARCHAR(n)` columns as strings with Spark's metadata."""
    return StructType([_as_string(field) for field in schema.fields])


def _as_string(field: StructField) -> StructField:
    if not isinstance(field.dataType, CharType | VarcharType):
        return field
    metadata = {**field.metadata, _LENGTH: field.dataType.simpleString()}
    return StructField(field.name, StringType(), field.nullable, metadata)


def _shown(schema: StructType) -> str:
    kinds = (field.metadata.get(_LENGTH) or field.dataType.simpleString() for field in schema.fields)
    return ", ".join(f"{field.name} {kind}" for field, kind in zip(schema.fields, kinds, strict=True))
