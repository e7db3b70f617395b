"""The Avro schema of a state manifest: the fields that every writer of this format knows, then ours, all optional."""

from __future__ import annotations

from typing import Any


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


_BOUNDS = {
    "type": "record",
    "name": "PartitionBoundsItem",
    "fields": [_optional("min", "string"), _optional("max", "string")],
}
_MANIFEST_INFO = {
    "type": "record",
    "name": "ManifestInfoItem",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "numEntries", "type": "long"},
        {"name": "minAddedAtVersion", "type": "long"},
        {"name": "maxAddedAtVersion", "type": "long"},
        _optional("partitionBounds", {"type": "map", "values": _BOUNDS}),
        {"name": "tombstoneCount", "type": "long", "default": 0},
        {"name": "liveEntryCount", "type": "long", "default": -1},
    ],
}
_LAST_BATCH = {
    "type": "record",
    "name": "LastBatchItem",
    "fields": [{"name": "batchId", "type": "long"}, {"name": "version", "type": "long"}],
}

STATE_MANIFEST_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "StateManifest",
    "namespace": "io.indextables.state",
    "fields": [
        {"name": "formatVersion", "type": "int"},
        {"name": "stateVersion", "type": "long"},
        {"name": "createdAt", "type": "long"},
        {"name": "numFiles", "type": "long"},
        {"name": "totalBytes", "type": "long"},
        {"name": "protocolVersion", "type": "int", "default": 4},
        {"name": "manifests", "type": {"type": "array", "items": _MANIFEST_INFO}},
        {"name": "tombstones", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "schemaRegistry", "type": {"type": "map", "values": "string"}, "default": {}},
        _optional("metadata", "string"),
        _optional("protocol", "string"),
        {"name": "skips", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "transactions", "type": {"type": "map", "values": _LAST_BATCH}, "default": {}},
        _optional("versionTimestamp", "long"),
        _optional("versionTxnId", "string"),
    ],
}
