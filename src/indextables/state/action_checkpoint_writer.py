"""Writer of checkpoints in the older formats.

One JSON file, JSON in parts, Parquet.

They are derived from the log like states: put if absent, adopted if another writer was first, each with a checksum. The
file that completes a checkpoint is put last, so an interrupted checkpoint does not exist yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from indextables.clock import Clock
from indextables.config import Config, settings
from indextables.errors import ObjectExistsError
from indextables.log.snapshot import Snapshot
from indextables.protocol.checkpoint.json_checkpoint import JsonFile, encode_json_checkpoint
from indextables.protocol.checkpoint.last_checkpoint import LastCheckpoint
from indextables.protocol.checkpoint.parquet_checkpoint import ParquetFile, encode_parquet_checkpoint
from indextables.protocol.checkpoint_content import CheckpointContent
from indextables.state.action_checkpoints import Parts, parts_at
from indextables.state.checkpoint_formats import JSON_IN_PARTS, Format
from indextables.state.reader import StateReader
from indextables.state.written import (
    MOST_BYTES,
    WrittenCheckpoint,
    check_same,
    check_version_is_there,
    prefer,
    put_hint,
    refuse_damaged,
    writing,
)
from indextables.store import ObjectStore


def write_older(
    store: ObjectStore, states: StateReader, snapshot: Snapshot, config: Config, clock: Clock
) -> WrittenCheckpoint:
    """Put a JSON or Parquet checkpoint and the hint; adopt an equal existing one."""
    kind: Format = "json" if config[settings.STATE_FORMAT] == "json" else "parquet"
    adopted = _adopt(store, states, snapshot, kind)
    if adopted is not None:
        return adopted
    if kind == "parquet" and states.older_keys(snapshot.version, kind):
        raise refuse_damaged(
            store, snapshot.version
        )  # incomplete or damaged: other parts would mix with the existing ones
    check_version_is_there(store, states, snapshot.version)
    checkpoint_id = clock.uuid()
    files = _files(snapshot, kind, config, clock, checkpoint_id)
    num_bytes = num_files = 0
    try:
        for file in files:
            with writing(store, snapshot.version):
                store.put_if_absent(file.key, file.data)
            num_bytes += len(file.data)
            num_files += 1
    except ObjectExistsError:
        adopted = _adopt(store, states, snapshot, kind)
        if adopted is None:
            raise refuse_damaged(store, snapshot.version) from None
        return adopted
    # A checkpoint has one file in addition to the files with actions: for JSON only if it has parts.
    in_parts = num_files > 2 or (kind == "json" and num_files > 1)
    parts = Parts(num_files - 1, checkpoint_id) if in_parts else None
    hint = _hint(snapshot, kind, clock.now_ms(), parts)
    with writing(store, snapshot.version):
        put_hint(store, hint)
    return WrittenCheckpoint(hint, is_new=True, num_bytes=num_bytes, plain_bytes=snapshot.files.nbytes)


def _files(
    snapshot: Snapshot, kind: Format, config: Config, clock: Clock, checkpoint_id: str
) -> Iterable[JsonFile | ParquetFile]:
    max_bytes = config[settings.CHECKPOINT_MAX_FILE_SIZE]
    if kind == "json":
        return encode_json_checkpoint(_content(snapshot), max_bytes=max_bytes, checkpoint_id=checkpoint_id)
    codec = config[settings.CHECKPOINT_COMPRESSION]
    return encode_parquet_checkpoint(
        _content(snapshot), codec=codec, max_bytes=max_bytes, created_time_ms=clock.now_ms()
    )


def _adopt(store: ObjectStore, states: StateReader, snapshot: Snapshot, kind: Format) -> WrittenCheckpoint | None:
    existing = states.older_at(snapshot.version, kind)
    if existing is None:
        return None
    check_same(snapshot.version, existing.txn_id, snapshot)
    parts = parts_at(store, snapshot.version, kind, states.older_keys(snapshot.version, kind))
    hint = _hint(existing, kind, existing.timestamp_ms, parts)
    prefer(store, states, states.hint(), hint)
    return WrittenCheckpoint(hint, is_new=False)


def _hint(snapshot: Snapshot, kind: Format, created_time_ms: int, parts: Parts | None) -> LastCheckpoint:
    return LastCheckpoint(
        version=snapshot.version,
        size=snapshot.num_files,
        size_in_bytes=min(snapshot.total_bytes, MOST_BYTES),
        num_files=snapshot.num_files,
        created_time=created_time_ms,
        parts=None if parts is None else parts.number,
        checkpoint_id=None if parts is None else parts.checkpoint_id,
        format=JSON_IN_PARTS if parts is not None and kind == "json" else kind,
    )


def _content(snapshot: Snapshot) -> CheckpointContent:
    return CheckpointContent(
        version=snapshot.version,
        timestamp_ms=snapshot.timestamp_ms,
        txn_id=snapshot.txn_id or None,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        files=snapshot.files,
        skips=dict(snapshot.skips),
        transactions=dict(snapshot.transactions),
    )
