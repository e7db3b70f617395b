"""How the columns of a table are indexed at one version: as its settings say, whatever its splits say.

Splits that were written under other settings stay as they are until they are merged or reindexed. What a search means
is decided here, for all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import pyarrow as pa

from indextables.config import Config
from indextables.errors import SchemaError
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.schema import schema_from_json
from indextables.split.fields import FieldMap, IndexField, map_fields


def table_fields(snapshot: Snapshot, config: Config) -> FieldMap:
    """The fields that say what a search of a table means: those of a split that is written at this version.

    `config` is of the handle. Where its settings do not fit the table, the properties of the table decide, and where
    not even those do, its newest split.
    """
    try:
        return fields_of_settings(snapshot, config)
    except SchemaError as error:
        try:
            return fields_of_settings(snapshot, Config.resolve())
        except SchemaError:
            newest = _newest_fields(snapshot)
            if newest is None:
                raise error from None
            return newest


def fields_of_settings(head: Head, config: Config) -> FieldMap:
    """How a split that is written now is indexed; a `SchemaError` where the settings do not fit the table."""
    in_force = config.with_properties(head.metadata.configuration)
    return _mapped(head.metadata.schema_string, tuple(head.partition_columns), in_force)


def fields_of_mappings(snapshot: Snapshot, files: pa.Table) -> Mapping[tuple[str | None, str | None], FieldMap | None]:
    """How some files are indexed, by the reference and the text of the mapping that their add actions carry; None where
    the log does not say."""
    columns = ["doc_mapping_ref", "doc_mapping_json"]
    found = files.select(columns).group_by(columns, use_threads=False).aggregate([])
    keys = zip(*(found[name].to_pylist() for name in columns), strict=True)
    return {key: _fields_of(snapshot, *key) for key in keys}


def mean_the_same(fields: FieldMap, asked: Iterable[IndexField]) -> bool:
    """Whether searches on some columns mean what the fields of a table say."""
    known = ((field, fields.find(field.column)) for field in asked)
    return all(found is not None and found.meaning == field.meaning for field, found in known)


@functools.lru_cache(maxsize=64)
def _mapped(schema_string: str, partition_columns: tuple[str, ...], in_force: Config) -> FieldMap:
    return map_fields(schema_from_json(schema_string), in_force, partition_columns)


def _newest_fields(snapshot: Snapshot) -> FieldMap | None:
    if not snapshot.files.num_rows:
        return None
    last = snapshot.files.slice(snapshot.files.num_rows - 1)
    return _fields_of(snapshot, last["doc_mapping_ref"][0].as_py(), last["doc_mapping_json"][0].as_py())


def _fields_of(snapshot: Snapshot, reference: str | None, carried: str | None) -> FieldMap | None:
    mapping = carried or (None if reference is None else snapshot.doc_mappings.get(reference))
    return None if mapping is None else _field_map(mapping)


@functools.lru_cache(maxsize=64)
def _field_map(mapping: str) -> FieldMap | None:
    try:
        return FieldMap.from_json(mapping)
    except SchemaError:  # another writer's
        return None
