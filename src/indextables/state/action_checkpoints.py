"""Reader of checkpoints in the older formats.

One JSON file, JSON in parts, Parquet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from indextables.errors import CheckpointCorruptionError, ObjectNotFoundError
from indextables.log.files import LiveFiles, TableSource
from indextables.log.snapshot import Snapshot
from indextables.protocol.checkpoint.json_checkpoint import JsonParts, decode_json_checkpoint, join_json_parts
from indextables.protocol.checkpoint.parquet_checkpoint import (
    ParquetSidecar,
    decode_parquet_checkpoint,
    decode_parquet_sidecar,
    parquet_sidecar_key,
)
from indextables.protocol.checkpoint_content import CheckpointContent
from indextables.protocol.features import LEGACY_PROTOCOL
from indextables.state.checkpoint_formats import Format
from indextables.store import ObjectStore


def read_older(store: ObjectStore, version: int, kind: Format, keys: Sequence[str]) -> Snapshot:
    """Return the JSON or Parquet checkpoint of a version from these keys."""
    if kind == "json":
        return _snapshot(_read_json(store, keys[0]))
    files = {key: store.get(key) for key in keys}
    return _snapshot(decode_parquet_checkpoint(files, store.location, _sidecar(store, parquet_sidecar_key(version))))


class Parts(NamedTuple):
    """Number of parts of a checkpoint, and their common id, if they have one."""

    number: int
    checkpoint_id: str | None


def parts_at(store: ObjectStore, version: int, kind: Format, keys: Sequence[str]) -> Parts | None:
    """Return the parts of an existing checkpoint; None if it is one file."""
    if kind == "json":
        content = decode_json_checkpoint(store.get(keys[0]), keys[0], store.location)
        return Parts(len(content.parts), content.checkpoint_id) if isinstance(content, JsonParts) else None
    return Parts(len(keys), None) if len(keys) > 1 else None


def _sidecar(store: ObjectStore, key: str) -> ParquetSidecar | None:
    try:
        return decode_parquet_sidecar(store.get(key), key)
    except ObjectNotFoundError:
        return None


def _read_json(store: ObjectStore, key: str) -> CheckpointContent:
    content = decode_json_checkpoint(store.get(key), key, store.location)
    if not isinstance(content, JsonParts):
        return content
    try:
        return join_json_parts(content, [store.get(part.key) for part in content.parts], store.location)
    except ObjectNotFoundError as error:
        raise CheckpointCorruptionError(f"cannot read `{key}` because a part of it is missing", path=key) from error


def _snapshot(content: CheckpointContent) -> Snapshot:
    if content.metadata is None:
        raise CheckpointCorruptionError(f"cannot read the checkpoint of version {content.version}: it has no metadata")
    return Snapshot(
        version=content.version,
        timestamp_ms=content.timestamp_ms or 0,
        txn_id=content.txn_id,
        protocol=content.protocol or LEGACY_PROTOCOL,
        metadata=content.metadata,
        live_files=LiveFiles(TableSource(content.files)),
        skips=content.skips,
        transactions=content.transactions,
    )
