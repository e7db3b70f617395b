"""Reader of states and checkpoints.

The newest valid one of any format, as a snapshot.

A damaged or missing state is reported and skipped; the one before it, or the versions from the start, replace it. An
unreachable object is an error, not damage.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from indextables.config import Config, settings
from indextables.errors import CheckpointCorruptionError, CheckpointError, CorruptLogError, ObjectNotFoundError
from indextables.log.files import LiveFiles
from indextables.log.replay import newest_definitions
from indextables.log.segment import Checkpoints
from indextables.log.snapshot import Snapshot
from indextables.protocol.actions import Metadata, Protocol
from indextables.protocol.avro.state_manifest import StateManifest, with_relative_paths
from indextables.protocol.checkpoint.json_checkpoint import json_checkpoint_key
from indextables.protocol.checkpoint.last_checkpoint import LastCheckpoint, decode_last_checkpoint
from indextables.protocol.checkpoint.parquet_checkpoint import parquet_checkpoint_key
from indextables.protocol.doc_mapping import REGISTRY_PREFIX
from indextables.protocol.features import LEGACY_PROTOCOL, highest
from indextables.protocol.names import (
    LAST_CHECKPOINT,
    LOG_DIRECTORY,
    parse_checkpoint_key,
    parse_version_key,
    state_keys,
    version_key,
)
from indextables.protocol.version_file import decode_version
from indextables.runtime.pools import Pools
from indextables.state import sandbox
from indextables.state.action_checkpoints import read_older
from indextables.state.checkpoint_formats import OLDER, Format, formats_of
from indextables.state.manifests import ManifestReader, StateFiles
from indextables.store import ObjectStore

logger = logging.getLogger(__name__)

_FEW_STATES = 4


class StateReader:
    """Reader of snapshots of one table from its states."""

    def __init__(self, store: ObjectStore, config: Config, pools: Pools) -> None:
        self._store = store
        self._timeout_seconds = config[settings.CHECKPOINT_READ_TIMEOUT_SECONDS]
        self.manifests = ManifestReader(store, config, pools)
        self._reported: set[int] = set()

    def load(self, candidates: Checkpoints) -> Snapshot | None:
        """Return the snapshot of the newest valid candidate, or None."""
        for version in sorted(candidates, reverse=True):
            if (snapshot := self._load_one(version, candidates[version])) is not None:
                return snapshot
        return None

    def _load_one(self, version: int, keys: Sequence[str]) -> Snapshot | None:
        for kind, of_kind in self.formats_at(version, keys).items():
            if (snapshot := self._read(version, kind, of_kind)) is not None:
                return dataclasses.replace(snapshot, source=kind)
        return None

    def formats_at(self, version: int, keys: Sequence[str]) -> dict[Format, Sequence[str]]:
        """Return the checkpoints of a version in reading order.

        The hint is read only if there are several.
        """
        found = formats_of(version, keys)
        return formats_of(version, keys, self.hint()) if len(found) > 1 else found

    def hinted_version(self) -> int | None:
        """Return the version of the newest checkpoint from the hint."""
        hint = self.hint()
        return None if hint is None else hint.version

    def hint(self) -> LastCheckpoint | None:
        """Return the content of `_last_checkpoint`; None if it is missing or damaged."""
        key = f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}"
        try:
            return decode_last_checkpoint(self._store.get(key), key)
        except ObjectNotFoundError:
            return None
        except CheckpointCorruptionError as error:
            logger.warning("ignoring a damaged hint: %s", error.message)
            return None

    def _read(self, version: int, kind: Format, keys: Sequence[str]) -> Snapshot | None:
        if kind != "avro-state":
            return self.find_older(version, kind, keys)
        state = next((state for key in keys if (state := self.find_state(version, key)) is not None), None)
        return None if state is None else self.snapshot_of(state)

    def find_older(self, version: int, kind: Format, keys: Sequence[str]) -> Snapshot | None:
        """Return a JSON or Parquet checkpoint.

        None, with a report, if it is gone or damaged.
        """
        try:
            return read_older(self._store, version, kind, keys)
        except ObjectNotFoundError:
            return None
        except CheckpointError as error:
            self._report(version, error)
            return None

    def _report(self, version: int, error: CheckpointError) -> None:
        """Report once that a state is skipped."""
        if version not in self._reported:
            self._reported.add(version)
            logger.warning("skipping the state of version %d: %s", version, error.message)

    def txn_id_at(self, version: int) -> str | None:
        """Return the transaction of the state of a version.

        The result is empty if the state names no transaction, and None if no state of this version is valid.
        """
        state = self.state_at(version)
        if state is not None:
            return state.version_txn_id or ""
        for kind in OLDER:
            if (snapshot := self.older_at(version, kind)) is not None:
                return snapshot.txn_id or ""
        return None

    def older_at(self, version: int, kind: Format) -> Snapshot | None:
        """Return the JSON or Parquet checkpoint of a version, if there is a valid one."""
        keys = self.older_keys(version, kind)
        return self.find_older(version, kind, keys) if keys else None

    def older_keys(self, version: int, kind: Format) -> Sequence[str]:
        """Return the keys of a JSON or Parquet checkpoint of a version, if there is one."""
        if kind == "json":
            return [json_checkpoint_key(version)]
        place = parquet_checkpoint_key(version)
        directory = os.path.dirname(place)
        listed = (meta.key for meta in self._store.list(directory, after=f"{directory}/{version:020d}"))
        of_version = itertools.takewhile(lambda key: parse_checkpoint_key(key) == version, listed)
        return formats_of(version, of_version).get(kind, ())

    def find_state(self, version: int, key: str) -> StateManifest | None:
        """Return the state under a key; None, with a report, if it is gone or damaged."""
        try:
            data = self._store.get(key)
            state = sandbox.read_state_manifest(data, key, timeout_seconds=self._timeout_seconds)
            if state.state_version != version:
                raise CheckpointCorruptionError(
                    f"cannot read `{key}` because it is the state of version {state.state_version}",
                    version=version,
                    path=key,
                )
        except ObjectNotFoundError:
            return None
        except CheckpointError as error:
            self._report(version, error)
            return None
        return with_relative_paths(state, self._store.location)

    def state_at(self, version: int) -> StateManifest | None:
        """Return the Avro state of a version, if there is a valid one."""
        for key in state_keys(version):
            if (state := self.find_state(version, key)) is not None:
                return state
        return None

    def snapshot_of(self, state: StateManifest) -> Snapshot:
        """Return the table of a state; its files are read on demand."""
        metadata, protocol = state.metadata, state.protocol
        if metadata is None or protocol is None:
            known = self._last_definitions(state)
            metadata = metadata or known.metadata
            protocol = protocol or highest(known.protocol or LEGACY_PROTOCOL, _protocol_of(state))
        if metadata is None:
            raise CorruptLogError(
                f"cannot read the state of version {state.state_version} of `{self._store.location.url}` because it "
                "has no metadata, and neither version 0 nor another version or state up to it has some",
                version=state.state_version,
            )
        return Snapshot(
            version=state.state_version,
            timestamp_ms=state.created_at if state.version_timestamp is None else state.version_timestamp,
            txn_id=state.version_txn_id,
            protocol=protocol,
            metadata=_with_registry(metadata, state),
            live_files=LiveFiles(StateFiles(state, self.manifests)),
            skips=state.skips,
            transactions=state.transactions,
        )

    def _last_definitions(self, state: StateManifest) -> _Definitions:
        """Return the last metadata and protocol at or below a state of another writer.

        Such a state may have neither: they are in a version file, or in an earlier state. These writers copy the
        metadata from state to state, so only a few states are read.
        """
        found = _Definitions(state.metadata, state.protocol)
        listed = {meta.key for meta in self._store.list(LOG_DIRECTORY)}
        versions = {at for key in listed if (at := parse_version_key(key)) is not None}
        older = sorted(at for key in listed if (at := _state_version(key)) is not None and at < state.state_version)
        asked = set(older[-_FEW_STATES:])
        for at in sorted((at for at in versions | asked if at <= state.state_version), reverse=True):
            if at in versions:
                found = found.or_else(*self._definitions_of_version(at))
            if at in asked and found.is_partial and (before := self.state_at(at)) is not None:
                found = found.or_else(before.metadata, before.protocol)
            if not found.is_partial:
                break
        return found

    def _definitions_of_version(self, version: int) -> tuple[Metadata | None, Protocol | None]:
        try:
            return newest_definitions(
                decode_version(self._store.get(version_key(version)), version, self._store.location)
            )
        except ObjectNotFoundError:
            return None, None


class _Definitions(NamedTuple):
    """Metadata and protocol, if known."""

    metadata: Metadata | None
    protocol: Protocol | None

    @property
    def is_partial(self) -> bool:
        return self.metadata is None or self.protocol is None

    def or_else(self, metadata: Metadata | None, protocol: Protocol | None) -> _Definitions:
        return _Definitions(self.metadata or metadata, self.protocol or protocol)


def _state_version(key: str) -> int | None:
    version = parse_checkpoint_key(key)
    return version if version is not None and key in state_keys(version) else None


def _protocol_of(state: StateManifest) -> Protocol:
    """Return the protocol from a state's single number, for readers and writers."""
    version = state.protocol_version
    return Protocol(min_reader_version=version, min_writer_version=version)


def _with_registry(metadata: Metadata, state: StateManifest) -> Metadata:
    """Return the metadata with the doc mappings of the state."""
    entries = {REGISTRY_PREFIX + reference: mapping for reference, mapping in state.schema_registry.items()}
    return msgspec.structs.replace(metadata, configuration={**entries, **metadata.configuration})
