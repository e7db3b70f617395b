"""Describe a table's log, its newest state or checkpoint, and its skipped files.

The log is described with one row per action: either the actions in force or every action ever written. All of this
works on a table with a damaged state or a hole in its log: the result reports the damage, and the version files are
shown if no state can be read.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from indextables.arrow_values import to_table
from indextables.config import Config
from indextables.errors import CheckpointCorruptionError, CheckpointError, ConfigError, CorruptLogError, ProtocolError
from indextables.log.describe import DESCRIBE_SCHEMA, describe_checkpoint, describe_versions
from indextables.log.snapshot import Snapshot
from indextables.maintain.one_row import answer_schema, one_row
from indextables.protocol.actions import Skip
from indextables.protocol.avro.state_manifest import StateManifest
from indextables.protocol.checkpoint.json_checkpoint import JsonParts, decode_json_checkpoint
from indextables.protocol.compression import plain_text
from indextables.state.changes import NO_CHANGES
from indextables.state.checkpoint_formats import Format
from indextables.state.compaction import needs_compaction
from indextables.state.reader import StateReader
from indextables.store import ObjectStore
from indextables.transaction_log import TransactionLog

logger = logging.getLogger(__name__)

SKIPPED_FILES_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("skip_count", pa.int32(), nullable=False),
        pa.field("retry_after", pa.timestamp("ms", tz="UTC")),
    ]
)

_PARQUET_ENDING = ".checkpoint.parquet"


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A state or checkpoint with the snapshot that it holds; its files were read.

    `state` is the manifest of an Avro state, and None for the older formats.
    """

    format: str
    key: str
    snapshot: Snapshot
    state: StateManifest | None = None


@dataclasses.dataclass(frozen=True)
class Search:
    """The newest usable checkpoint, if any, and one sentence per problem.

    Problems are newer checkpoints that were passed over, and a hole in the log.
    """

    found: Checkpoint | None
    problems: tuple[str, ...]


def newest_checkpoint(log: TransactionLog) -> Search:
    """Find the newest state or checkpoint that verifies, manifests included.

    A checkpoint that names another transaction than the version file is passed over.
    """
    states = log.states
    if states is None:
        raise ConfigError(
            f"cannot look at the states of `{log.url}` because the caller supplies the states of this log"
        )
    segment = log.reader.segment()
    problems = [] if segment.gap is None else [f"version {segment.gap} is missing, and later versions are not read"]
    for version in sorted(segment.checkpoints, reverse=True):
        found = _read(log.reader.store, states, version, segment.checkpoints[version])
        if found is None:
            problems.append(f"the state of version {version} is damaged and passed over")
        elif not log.reader.belongs(found.snapshot, segment):
            problems.append(f"the state of version {version} belongs to another version and is passed over")
        else:
            return Search(found, tuple(problems))
    return Search(None, tuple(problems))


def _read(store: ObjectStore, states: StateReader, version: int, keys: Sequence[str]) -> Checkpoint | None:
    """Read the checkpoint of a version from these keys; None if it is unusable."""
    for kind, of_kind in states.formats_at(version, keys).items():
        if kind == "avro-state":
            found = _state(states, version, of_kind)
        else:
            snapshot = states.find_older(version, kind, of_kind)
            found = None if snapshot is None else _older(store, kind, snapshot, of_kind[0])
        if found is not None:
            return found
    return None


def _state(states: StateReader, version: int, keys: Sequence[str]) -> Checkpoint | None:
    """Read an Avro state and its files; damaged files count as a damaged state."""
    for key in keys:
        state = states.find_state(version, key)
        if state is None:
            continue
        snapshot = states.snapshot_of(state)
        try:
            _ = snapshot.files
        except CheckpointCorruptionError as error:
            logger.warning("skipping the state of version %d: %s", version, error.message)
        else:
            return Checkpoint("avro-state", key, snapshot, state)
    return None


def _older(store: ObjectStore, kind: Format, snapshot: Snapshot, key: str) -> Checkpoint:
    """Wrap a JSON or Parquet checkpoint with the name of its format."""
    if kind == "parquet":
        return Checkpoint(kind, key.partition(_PARQUET_ENDING)[0] + _PARQUET_ENDING, snapshot)
    return Checkpoint("json-multipart" if _is_in_parts(store, key) else kind, key, snapshot)


def _is_in_parts(store: ObjectStore, key: str) -> bool:
    data = store.get(key)
    # A whole checkpoint may be large: decode it again only if it mentions parts.
    return b'"parts"' in plain_text(data) and isinstance(decode_json_checkpoint(data, key, store.location), JsonParts)


LOG_SCHEMA = DESCRIBE_SCHEMA


def describe_log(log: TransactionLog, *, include_all: bool = False) -> pa.Table:
    """Describe the newest usable checkpoint and later versions, oldest first.

    With `include_all`, or without a usable checkpoint, describe every version file.
    """
    found = None if include_all else _newest_checkpoint(log)
    if found is None:
        return log.describe()
    later = [version for version in log.versions() if version > found.snapshot.version]
    return pa.concat_tables(
        [
            describe_checkpoint(found.snapshot, found.key),
            describe_versions(log.reader.read_versions(later)),
        ]
    )


def _newest_checkpoint(log: TransactionLog) -> Checkpoint | None:
    try:
        return newest_checkpoint(log).found
    except (CorruptLogError, ProtocolError) as error:
        logger.warning("describing the version files of `%s` alone: %s", log.url, error.message)
        return None


STATE_SCHEMA = answer_schema(
    table_path=pa.string(),
    format=pa.string(),
    version=pa.int64(),
    num_files=pa.int64(),
    num_manifests=pa.int64(),
    num_tombstones=pa.int64(),
    tombstone_ratio=pa.float64(),
    total_bytes=pa.int64(),
    needs_compaction=pa.bool_(),
    num_skipped=pa.int64(),
    skipped_files=pa.list_(pa.struct(list(SKIPPED_FILES_SCHEMA))),
    status=pa.string(),
)
NO_STATE = "none"
OK = "OK"


def describe_state(log: TransactionLog) -> pa.Table:
    """Describe the newest usable state in one row.

    The skips are the ones in force at the newest version. All other columns describe the newest usable state, or the
    newest version if there is none.
    """
    search = newest_checkpoint(log)
    problems = list(search.problems)
    try:
        current = log.snapshot()
    except CheckpointError as error:
        if search.found is None:
            raise
        problems.append(error.message)
        current = search.found.snapshot
    described = current if search.found is None else search.found.snapshot
    state = None if search.found is None else search.found.state
    skips = skip_rows(current.skips.values())
    row = {
        "table_path": log.url,
        "format": NO_STATE if search.found is None else search.found.format,
        "version": described.version,
        "num_files": described.num_files,
        "total_bytes": described.total_bytes,
        **_layout(state, log.config.with_properties(current.metadata.configuration)),
        "num_skipped": len(skips),
        "skipped_files": skips,
        "status": "; ".join(problems) or OK,
    }
    return one_row(STATE_SCHEMA, row)


def _layout(state: StateManifest | None, config: Config) -> dict[str, Any]:
    """Describe the layout of the files; only Avro states have manifests."""
    if state is None:
        return {"num_manifests": 0, "num_tombstones": 0, "tombstone_ratio": 0.0, "needs_compaction": False}
    num_entries = sum(info.num_entries for info in state.manifests)
    return {
        "num_manifests": len(state.manifests),
        "num_tombstones": len(state.tombstones),
        "tombstone_ratio": len(state.tombstones) / num_entries if num_entries else 0.0,
        "needs_compaction": needs_compaction(state, NO_CHANGES, config),
    }


def list_skipped_files(skips: Iterable[Skip]) -> pa.Table:
    """Return the skips as a table."""
    return to_table(skip_rows(skips), schema=SKIPPED_FILES_SCHEMA)


def skip_rows(skips: Iterable[Skip]) -> list[dict[str, Any]]:
    """Return the columns that the table shows of each skip."""
    return [{name: getattr(skip, name) for name in SKIPPED_FILES_SCHEMA.names} for skip in skips]
