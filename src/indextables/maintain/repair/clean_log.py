"""Make a clean log of a known table, and put it in place.

The same table yields the same bytes. So a later repair can finish an interrupted copy, and concurrent repairs do not
disturb each other. Version 0 is put after all other versions: without it readers see no table. Existing files are never
overwritten.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from indextables.errors import CorruptLogError, ObjectExistsError, ObjectNotFoundError, StorageError, TableExistsError
from indextables.log.commit.checks import checked
from indextables.log.commit.operations import Answer, Append, Batch, Plan, with_mappings
from indextables.log.snapshot import Head
from indextables.protocol.actions import Add, CommitInfo, Metadata, Protocol, Skip
from indextables.protocol.features import NEW_TABLE_PROTOCOL, highest
from indextables.protocol.names import (
    LAST_CHECKPOINT,
    LOG_DIRECTORY,
    parse_checkpoint_key,
    parse_version_key,
    version_key,
)
from indextables.protocol.paths import as_written
from indextables.protocol.version_file import decode_version, seal_lines
from indextables.runtime.pools import InlinePools
from indextables.runtime.scratch import scratch_directory
from indextables.store import ObjectStore
from indextables.transaction_log import TransactionLog

logger = logging.getLogger(__name__)

OPERATION = "REPAIR"
_OPTIONS = {"state.format": "avro", "checkpoint.interval": 1_000_000_000}
_INSIDE = f"{LOG_DIRECTORY}/"


class Contents(NamedTuple):
    """Contents of a clean log: definitions, files, skips, last batch of each stream."""

    metadata: Metadata
    protocol: Protocol
    adds: Sequence[Add]
    skips: Sequence[Skip]
    batches: Sequence[Batch]
    timestamp_ms: int
    parameters: Mapping[str, int]


def make_log(contents: Contents) -> dict[str, bytes]:
    """Return the files of a log by key from the table root.

    Version 0 holds the definitions, version 1 all files, one more version each stream's last batch; a checkpoint
    follows.
    """
    with scratch_directory() as place:
        log = TransactionLog(place, options=_OPTIONS, clock=_FixedClock(contents), pools=InlinePools())
        store = log.reader.store
        protocol = highest(NEW_TABLE_PROTOCOL, contents.protocol)
        first = seal_lines(checked((protocol, contents.metadata), 0, store.location).lines, compress=True)
        store.put_if_absent(version_key(0), first)
        log.commit(_Repair(contents.adds, contents.skips, contents.parameters))
        for batch in contents.batches:
            log.commit(Append([], batch, name=OPERATION))
        log.checkpoint()
        return {meta.key: store.get(meta.key) for meta in store.list(LOG_DIRECTORY)}


@dataclasses.dataclass(frozen=True)
class LogPlace:
    """Destination of a log: a store rooted at the table or at its log directory."""

    store: ObjectStore
    is_log_directory: bool = False

    @property
    def url(self) -> str:
        url = self.store.location.url
        return url if self.is_log_directory else f"{url.rstrip('/')}/{LOG_DIRECTORY}"

    def keys(self) -> set[str]:
        """Return the keys of all existing files, relative to the table root."""
        prefix = _INSIDE if self.is_log_directory else ""
        return {prefix + meta.key for meta in self.store.list("" if self.is_log_directory else LOG_DIRECTORY)}

    def name(self, key: str) -> str:
        """Return the store's name for a key relative to the table root."""
        return key.removeprefix(_INSIDE) if self.is_log_directory else key

    def is_cut_off(self) -> bool:
        """Return whether the log consists only of leftovers of an interrupted repair."""
        keys = self.keys()
        versions = {version for key in keys if (version := parse_version_key(key)) is not None}
        if min(versions, default=0) != 1 or any(parse_checkpoint_key(key) is not None for key in keys):
            return False
        try:
            actions = decode_version(self.store.get(self.name(version_key(1))), 1, self.store.location)
        except (CorruptLogError, ObjectNotFoundError):
            return False
        return any(isinstance(action, CommitInfo) and action.operation == OPERATION for action in actions)

    def refuse_filled(self) -> None:
        """Refuse a destination that holds more than leftovers of an interrupted repair."""
        there = self.keys()
        if not there:
            return
        if self.is_cut_off():
            logger.warning("finishing an interrupted repair in `%s`", self.url)
            return
        raise TableExistsError(
            f"cannot write a log to `{self.url}` because it is not empty: it holds `{self.name(min(there))}`",
            hint="choose another place",
        )

    def put(self, files: Mapping[str, bytes]) -> None:
        """Put the files of a log; an existing file must have the same bytes."""
        try:
            self._put(files)
        except StorageError as error:
            raise type(error)(f"cannot write a log to `{self.url}`: {error.message}", hint=error.hint) from error

    def _put(self, files: Mapping[str, bytes]) -> None:
        for key in sorted(files, key=_order):
            step, name = _order(key)[0], self.name(key)
            if step == _HINT:
                self.store.put(name, files[key])
                continue
            try:
                self.store.put_if_absent(name, files[key])
            except ObjectExistsError as error:
                # Once version 0 exists the log is a table, and others may have written checkpoints of it.
                if step <= _FIRST and self.store.get(name) != files[key]:
                    raise TableExistsError(
                        f"cannot write a log to `{self.url}` because `{name}` exists with other contents",
                        hint="another repair is under way or was interrupted: remove its files, or choose another "
                        "place",
                    ) from error


@dataclasses.dataclass(frozen=True)
class _Repair:
    """Add all files of the table in one version."""

    adds: Sequence[Add]
    skips: Sequence[Skip]
    parameters: Mapping[str, int]
    name: str = OPERATION
    needs_files: bool = False

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Answer:
        adds = [msgspec.structs.replace(add, tags=as_written(add.path, add.tags)[1]) for add in self.adds]
        return Plan([*with_mappings(adds, now), *self.skips], self.parameters)


class _FixedClock:
    """A fixed time, and ids derived from the contents."""

    def __init__(self, contents: Contents) -> None:
        self._seed = hashlib.sha256(msgspec.json.encode(contents, order="sorted")).digest()
        self._now_ms = contents.timestamp_ms
        self._num_ids = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        """Return at once: there is no other writer to wait for."""

    def uniform(self) -> float:
        return 0.5

    def uuid(self) -> str:
        self._num_ids += 1
        return id_of(self._seed + self._num_ids.to_bytes(8, "big"))


def id_of(data: bytes) -> str:
    """Return an id in the form of a UUID, the same for the same bytes."""
    digits = hashlib.sha256(data).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


_VERSIONS, _MANIFESTS, _FIRST, _CHECKPOINTS, _HINT = range(5)


def _order(key: str) -> tuple[int, str]:
    """Sort version 0 after everything that it needs, and the hint last.

    Version 0 makes the log a table; checkpoints and the hint only make reads fast.
    """
    if key == version_key(0):
        return _FIRST, key
    if parse_version_key(key) is not None:
        return _VERSIONS, key
    if key.endswith(f"/{LAST_CHECKPOINT}"):
        return _HINT, key
    return _CHECKPOINTS if parse_checkpoint_key(key) is not None else _MANIFESTS, key
