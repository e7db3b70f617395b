"""How the columns of a table are indexed at one version: as its newest split says, else as its settings say."""

from __future__ import annotations

import pyarrow as pa

from indextables.config import Config
from indextables.errors import SchemaError
from indextables.log.snapshot import Snapshot
from indextables.split.fields import FieldMap, map_fields


def indexed_fields(snapshot: Snapshot, config: Config) -> FieldMap:
    """How the newest split is indexed; where the log does not say, how a new one would be."""
    return logged_fields(snapshot, snapshot.files) or fields_of_settings(snapshot, config)


def fields_of_settings(snapshot: Snapshot, config: Config) -> FieldMap:
    """How a split that is written now is indexed."""
    in_force = config.with_properties(snapshot.metadata.configuration)
    return map_fields(snapshot.schema, in_force, snapshot.partition_columns)


def logged_fields(snapshot: Snapshot, files: pa.Table) -> FieldMap | None:
    """How the last of some splits is indexed; None where the log does not say."""
    last = snapshot.describe(files.slice(max(0, files.num_rows - 1)))
    mapping = last["doc_mapping_json"][0].as_py() if files.num_rows else None
    try:
        return None if mapping is None else FieldMap.from_json(mapping)
    except SchemaError:  # another writer's
        return None
