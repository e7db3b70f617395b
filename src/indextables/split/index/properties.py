"""Validate changes of table properties: one spelling per setting. Pure.

A property must fit the table's columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from indextables.config import Config, lookup
from indextables.config.resolve import PREFIX
from indextables.split.index.fields import map_fields

_INDEXING = "indexing."


def changed_properties(
    given: Mapping[str, str | None],
    configuration: Mapping[str, str],
    schema: pa.Schema,
    partition_columns: Sequence[str] = (),
) -> dict[str, str | None]:
    """Return the properties to change.

    These are the given ones, and None for other spellings of the same settings, which would contradict them. Raises a
    `SchemaError` if a property indexes a missing column, or a column that cannot be indexed like that.
    """
    settings = {_setting(key, schema) for key in given} - {None}
    others = {key: None for key in configuration if key not in given and _setting(key, schema) in settings}
    changed: dict[str, str | None] = {**others, **given}
    if any(value is not None and _is_indexing(key) for key, value in given.items()):
        kept = {key: value for key, value in {**configuration, **changed}.items() if value is not None}
        map_fields(schema, Config.resolve(properties=kept), partition_columns)
    return changed


def _setting(key: str, schema: pa.Schema) -> tuple[str, str] | None:
    """Return the setting of a key, with the column of a per-column setting."""
    found = lookup.find(_plain(key))
    if found is None:
        return None
    if not isinstance(found, tuple):
        return found.key, ""
    family, field = found
    return family.key, field if field in schema.names else field.lower()


def _is_indexing(key: str) -> bool:
    found = lookup.find(_plain(key))
    return found is not None and (found[0] if isinstance(found, tuple) else found).key.startswith(_INDEXING)


def _plain(key: str) -> str:
    return key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key
