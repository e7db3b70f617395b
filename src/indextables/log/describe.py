"""Description of the log: one row per action, one column per field of any action."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from indextables.arrow_values import to_scalar, to_table
from indextables.log.replay import VersionFile
from indextables.log.snapshot import Snapshot
from indextables.protocol.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.protocol.names import version_key

_TYPE_NAMES = {
    Protocol: "protocol",
    Metadata: "metadata",
    Add: "add",
    Remove: "remove",
    Skip: "skip",
    CommitInfo: "commit_info",
}
_JSON_FIELDS = frozenset({"format", "parameters", "metrics"})
_MAP = pa.map_(pa.string(), pa.string())
_STRINGS = pa.list_(pa.string())

_FILE_FIELDS = {field.name: field.type for field in FILES_SCHEMA if not field.name.startswith("added_at")}

_FIELD_TYPES: dict[str, pa.DataType] = {
    **{name: _FILE_FIELDS[name] for name in ("path", "partition_values", "size", "data_change")},
    **_FILE_FIELDS,
    "deletion_timestamp": pa.int64(),
    "extended_file_metadata": pa.bool_(),
    "skip_timestamp": pa.int64(),
    "reason": pa.string(),
    "operation": pa.string(),
    "retry_after": pa.int64(),
    "skip_count": pa.int32(),
    "min_reader_version": pa.int32(),
    "min_writer_version": pa.int32(),
    "reader_features": _STRINGS,
    "writer_features": _STRINGS,
    "id": pa.string(),
    "name": pa.string(),
    "description": pa.string(),
    "format": pa.string(),
    "schema_string": pa.string(),
    "partition_columns": _STRINGS,
    "configuration": _MAP,
    "created_time": pa.int64(),
    "txn_id": pa.string(),
    "parent_txn_id": pa.string(),
    "timestamp": pa.int64(),
    "engine": pa.string(),
    "read_version": pa.int64(),
    "num_actions": pa.int64(),
    "definitions_version": pa.int64(),
    "parameters": pa.string(),
    "metrics": pa.string(),
    "application_id": pa.string(),
    "batch_id": pa.int64(),
}

DESCRIBE_SCHEMA = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("log_file_path", pa.string(), nullable=False),
        pa.field("action_type", pa.string(), nullable=False),
        *(pa.field(name, kind) for name, kind in _FIELD_TYPES.items()),
        pa.field("is_checkpoint", pa.bool_(), nullable=False),
    ]
)


def describe_versions(files: Iterable[VersionFile]) -> pa.Table:
    """Return the actions of some versions, in order."""
    places = ((file, _place(file.version, version_key(file.version), is_checkpoint=False)) for file in files)
    return _table(row for file, place in places for row in _rows(file.actions, place))


def describe_checkpoint(snapshot: Snapshot, key: str) -> pa.Table:
    """Return the protocol, metadata, files and skips of the checkpoint under a key."""
    place = _place(snapshot.version, key, is_checkpoint=True)
    return pa.concat_tables(
        [
            _table(_rows([snapshot.protocol, snapshot.metadata], place)),
            _file_table(snapshot.files, {**place, "action_type": _TYPE_NAMES[Add]}),
            _table(_rows(snapshot.skips.values(), place)),
        ]
    )


def _place(version: int, key: str, *, is_checkpoint: bool) -> dict[str, Any]:
    return {"version": version, "log_file_path": key, "is_checkpoint": is_checkpoint}


def _table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    return to_table(list(rows), schema=DESCRIBE_SCHEMA)


def _file_table(files: pa.Table, same: Mapping[str, Any]) -> pa.Table:
    """Return one row per file, built by columns; `same` has the constant values."""
    columns = [
        files[field.name]
        if field.name in files.column_names
        else pa.repeat(to_scalar(same.get(field.name), field.type), files.num_rows)
        for field in DESCRIBE_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=DESCRIBE_SCHEMA)


def _rows(actions: Iterable[Action], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for action in actions:
        yield {**place, "action_type": _TYPE_NAMES[type(action)], **_values(action)}


def _values(action: Action) -> dict[str, Any]:
    return {name: _value(name, getattr(action, name)) for name in action.__struct_fields__}


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _JSON_FIELDS:
        return msgspec.json.encode(value).decode()
    return list(value.items()) if isinstance(value, dict) else value
