"""Determine how a table's columns are indexed at one version, by its settings.

Splits written under other settings stay unchanged until they are merged or reindexed. The meaning of a search is
decided here, for all splits.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_scalar
from indextables.config import Config
from indextables.errors import SchemaError
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.schema import schema_from_json
from indextables.split.index.fields import FieldMap, IndexField, map_fields


def table_fields(snapshot: Snapshot, config: Config) -> FieldMap:
    """Return the fields that define searches of a table.

    These are the fields of a new split at this version. `config` is the handle's. If its settings do not fit the table,
    the table's properties decide; if these do not fit either, its newest split.
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
    """Return the fields of a new split; raise `SchemaError` if settings do not fit."""
    in_force = config.with_properties(head.metadata.configuration)
    return _mapped(head.metadata.schema_string, tuple(head.partition_columns), in_force)


def fields_of_mappings(snapshot: Snapshot, files: pa.Table) -> Mapping[tuple[str | None, str | None], FieldMap | None]:
    """Return the fields of files by the reference and text of their doc mapping.

    The value is None if the log does not record the mapping.
    """
    keys = _distinct(files["doc_mapping_ref"], files["doc_mapping_json"])
    return {key: _fields_of(snapshot, *key) for key in keys}


def _distinct(*columns: pa.ChunkedArray[Any]) -> Iterator[tuple[str | None, str | None]]:
    """Yield the distinct pairs of two columns of text."""
    if not len(columns[0]):
        return
    left, right = (
        pc.dictionary_encode(pc.cast(column, pa.string()).combine_chunks(), null_encoding="encode")
        for column in columns
    )
    places = (pc.cast(each.indices, pa.int64()) for each in (left, right))
    codes = pc.add(pc.multiply(next(places), to_scalar(len(right.dictionary))), next(places))
    for code in pc.unique(codes).to_pylist():
        at, other = divmod(code, len(right.dictionary))
        yield left.dictionary[at].as_py(), right.dictionary[other].as_py()


def mean_the_same(fields: FieldMap, asked: Iterable[IndexField]) -> bool:
    """Return whether searches on these columns have the meaning of the table's fields."""
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
    except SchemaError:  # of another writer
        return None
