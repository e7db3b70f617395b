"""The newest state or checkpoint of a table that can be used, and why newer ones were passed over."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from indextables.errors import CheckpointCorruptionError, ConfigError
from indextables.log.snapshot import Snapshot
from indextables.protocol.compression import plain_text
from indextables.protocol.json_checkpoint import JsonParts, decode_json_checkpoint
from indextables.protocol.state_manifest import StateManifest
from indextables.state.formats import Format
from indextables.state.reader import StateReader
from indextables.store import ObjectStore
from indextables.transaction_log import TransactionLog

logger = logging.getLogger(__name__)

_PARQUET_ENDING = ".checkpoint.parquet"


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A state or checkpoint: the key that it is known by, and the table that it holds, whose files were read.

    `state` is the record of an Avro state, and None for the older formats.
    """

    format: str
    key: str
    snapshot: Snapshot
    state: StateManifest | None = None


@dataclasses.dataclass(frozen=True)
class Search:
    """What was found, if anything, and a sentence for each thing that is wrong: newer ones that were passed over, and a
    hole in the log."""

    found: Checkpoint | None
    problems: tuple[str, ...]


def newest_checkpoint(log: TransactionLog) -> Search:
    """The newest state or checkpoint that verifies, its manifests included, and stands for the version it names."""
    states = log.states
    if states is None:
        raise ConfigError(f"cannot look at the states of `{log.url}` because they are made by somebody else")
    segment = log.reader.segment()
    problems = [] if segment.gap is None else [f"version {segment.gap} is missing, and what follows it is not read"]
    for version in sorted(segment.checkpoints, reverse=True):
        found = _read(log.reader.store, states, version, segment.checkpoints[version])
        if found is None:
            problems.append(f"the state of version {version} is damaged and passed over")
        elif not log.reader.belongs(found.snapshot, segment):
            problems.append(f"the state of version {version} stands for another version and is passed over")
        else:
            return Search(found, tuple(problems))
    return Search(None, tuple(problems))


def _read(store: ObjectStore, states: StateReader, version: int, keys: Sequence[str]) -> Checkpoint | None:
    """The checkpoint of a version among these keys, or None where none of it can be used."""
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
    """The Avro state, once its files are read: their damage is its own."""
    for key in keys:
        state = states.find_state(version, key)
        if state is None:
            continue
        snapshot = states.snapshot_of(state)
        try:
            _ = snapshot.files
        except CheckpointCorruptionError as error:
            logger.warning("passing over the state of version %d: %s", version, error.message)
        else:
            return Checkpoint("avro-state", key, snapshot, state)
    return None


def _older(store: ObjectStore, kind: Format, snapshot: Snapshot, key: str) -> Checkpoint:
    """A checkpoint of JSON or Parquet, with the name of its format."""
    if kind == "parquet":
        return Checkpoint(kind, key.partition(_PARQUET_ENDING)[0] + _PARQUET_ENDING, snapshot)
    return Checkpoint("json-multipart" if _is_in_parts(store, key) else kind, key, snapshot)


def _is_in_parts(store: ObjectStore, key: str) -> bool:
    data = store.get(key)
    # A whole checkpoint may be large: only what names parts is worth decoding again.
    return b'"parts"' in plain_text(data) and isinstance(decode_json_checkpoint(data, key, store.location), JsonParts)
