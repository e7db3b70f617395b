"""How the columns of a table are indexed at one version: as its newest split says, else as its settings say."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa

from indextables.config import Config
from indextables.errors import SchemaError
from indextables.log.snapshot import Snapshot
from indextables.split.fields import FieldMap, IndexField, map_fields


def indexed_fields(snapshot: Snapshot, config: Config) -> FieldMap:
    """How the newest split is indexed; where the log does not say, how a new one would be."""
    return logged_fields(snapshot, snapshot.files) or fields_of_settings(snapshot, config)


def are_indexed_as(snapshot: Snapshot, fields: Sequence[IndexField]) -> bool:
    """Whether every live split indexes some columns in just this way, so that its index says the same of their rows."""
    files = snapshot.files.select(["doc_mapping_ref", "doc_mapping_json"]).group_by(
        ["doc_mapping_ref", "doc_mapping_json"], use_threads=False
    )
    for text in snapshot.describe(files.aggregate([]))["doc_mapping_json"].to_pylist():
        known = None if text is None else _field_map(text)
        if known is None or any(_way(known.find(field.column)) != _way(field) for field in fields):
            return False
    return True


def fields_of_settings(snapshot: Snapshot, config: Config) -> FieldMap:
    """How a split that is written now is indexed."""
    in_force = config.with_properties(snapshot.metadata.configuration)
    return map_fields(snapshot.schema, in_force, snapshot.partition_columns)


def logged_fields(snapshot: Snapshot, files: pa.Table) -> FieldMap | None:
    """How the last of some splits is indexed; None where the log does not say."""
    if not files.num_rows:
        return None
    carried, reference = (files[name][-1].as_py() for name in ("doc_mapping_json", "doc_mapping_ref"))
    mapping = carried or snapshot.doc_mappings.get(reference)
    return None if mapping is None else _field_map(mapping)


@functools.lru_cache(maxsize=64)
def _field_map(mapping: str) -> FieldMap | None:
    try:
        return FieldMap.from_json(mapping)
    except SchemaError:  # another writer's
        return None


def _way(field: IndexField | None) -> tuple[object, ...] | None:
    """What decides which rows a query finds in a field."""
    if field is None:
        return None
    return field.column, field.kind, field.type, field.tokenizer, field.record, field.max_token_length
