"""`TransactionLog`: the protocol level, for tools, tests and everything above.

A handle may be shared by threads, and pickles as its address and options. It always answers with the newest version
unless staleness is allowed, and always sees its own commits.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.errors import ConfigError, ObjectNotFoundError, RetentionError
from indextables.log import describe, history
from indextables.log.base import BaseSource
from indextables.log.cache import CacheStats
from indextables.log.checks import checked_adds, checked_path
from indextables.log.create import check_same_table, create_table, new_metadata
from indextables.log.metrics import LogMetrics, Metrics
from indextables.log.operations import (
    Append,
    Batch,
    ChangeMetadata,
    Operation,
    Overwrite,
    Scope,
    UpgradeProtocol,
)
from indextables.log.pools import SHARED_POOLS, Pools
from indextables.log.reader import LogReader
from indextables.log.replacing import RecordSkip, Replace, Replacement
from indextables.log.replay import VersionFile
from indextables.log.segment import version_files
from indextables.log.skips import FileList, in_cooldown, without_paths
from indextables.log.snapshot import Head, Snapshot
from indextables.log.time_travel import moment_ms, version_at
from indextables.log.transaction import CommitResult, Transaction
from indextables.protocol.actions import Action, Add, Metadata, Protocol, Skip
from indextables.protocol.features import protocol_for
from indextables.protocol.horizon import HORIZON_KEY
from indextables.protocol.last_checkpoint import LastCheckpoint, decode_last_checkpoint
from indextables.protocol.names import LAST_CHECKPOINT, LOG_DIRECTORY, version_key
from indextables.scan.files import partition_bounds, pruned_files, stream_files
from indextables.scan.scopes import scope_of_partitions, scope_of_predicate
from indextables.split.properties import changed_properties
from indextables.state.checkpointer import Checkpointer
from indextables.state.reader import StateReader
from indextables.store import ObjectStore, open_store

_HOUR_MS = 3_600_000


class TransactionLog:
    """The transaction log of one table."""

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        options: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
        store: ObjectStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
        pools: Pools = SHARED_POOLS,
        bases: BaseSource | None = None,
    ) -> None:
        self._config = Config.resolve(options=options or {}, session=session or {})
        self._arguments = (dict(options or {}), dict(session or {}))
        self._clock = clock
        self._is_portable = store is None and clock is SYSTEM_CLOCK
        self._store = store if store is not None else open_store(os.fspath(url), self._config)
        self._metrics = LogMetrics()
        states = StateReader(self._store, self._config, pools)
        self._bases = bases if bases is not None else states
        self._reader = LogReader(self._store, self._config, clock, pools, self._bases, self._metrics)
        # Who brings bases of its own makes them by itself.
        self._checkpointer = (
            Checkpointer(self._reader, clock, states, partition_bounds, pools, self._metrics) if bases is None else None
        )

    def __reduce__(self) -> tuple[object, ...]:
        # A path is absolute here: a worker may stand in another directory.
        return _reopen, (self.url, *self._arguments)

    def __repr__(self) -> str:
        return f"TransactionLog({self.url!r})"

    @property
    def url(self) -> str:
        """The table's address."""
        return self._store.location.url

    @property
    def config(self) -> Config:
        """The settings of this handle."""
        return self._config

    @property
    def options(self) -> dict[str, Any]:
        """The settings that it was opened with, among which may be secrets."""
        return {**self._arguments[1], **self._arguments[0]}

    @property
    def reader(self) -> LogReader:
        """The reading side, for the rooms above."""
        return self._reader

    @property
    def clock(self) -> Clock:
        """The time of this handle, for the rooms above."""
        return self._clock

    @property
    def is_portable(self) -> bool:
        """Whether a copy in another process would do the same: not with a store or a clock of the caller's own."""
        return self._is_portable

    @property
    def checkpointer(self) -> Checkpointer | None:
        """Who makes checkpoints and cleans up, for the rooms above."""
        return self._checkpointer

    @property
    def states(self) -> StateReader | None:
        """The states, for the rooms above; None where the bases are made by somebody else."""
        return self._bases if isinstance(self._bases, StateReader) else None

    # Creating

    def initialize(
        self,
        schema: pa.Schema | str,
        *,
        partition_columns: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        name: str | None = None,
        description: str | None = None,
        features: Sequence[str] = (),
    ) -> bool:
        """Create the table by putting version 0, and say whether this call created it.

        `schema` is an Arrow schema or Spark's schema JSON. Where the same table is there already, nothing happens;
        where another one is, it is an error. `features` are declared beside those of every new table.
        """
        wanted = new_metadata(schema, partition_columns, configuration or {}, name, description, self._clock)
        created = create_table(self._store, wanted, self._config, self._clock, self._bases, features)
        self._reader.forget()
        if not created:
            check_same_table(self._reader.head()[1], wanted, self.url)
        return created

    # Committing

    def add_files(
        self,
        adds: Iterable[Add],
        *,
        made_for: Head | None = None,
        application_id: str | None = None,
        batch_id: int | None = None,
    ) -> int:
        """Append files, and answer with the version that holds them. A streaming batch is committed once.

        `made_for` is what the table was when the files were written: the commit fails where the table was made anew or
        has another schema or partitioning since.
        """
        operation = Append(self._checked(adds), Batch.of(application_id, batch_id), made_for)
        return self.commit(operation).version

    def overwrite_files(
        self,
        adds: Iterable[Add],
        *,
        where: str | None = None,
        dynamic: bool = False,
        if_version: int | None = None,
        made_for: Head | None = None,
        application_id: str | None = None,
        batch_id: int | None = None,
    ) -> int:
        """Replace all that was committed before by other files. `if_version`: fail where the table has moved.

        With `where`, a predicate on partition columns, only the files that it is true of are replaced. It has to be
        true of every new file too. With `dynamic` only the partitions that the new files are of are replaced, and
        without new files nothing is done; a table without partition columns is replaced as a whole. `made_for` is as
        for `add_files`.
        """
        checked = self._checked(adds)
        scope = self._scope(checked, where, dynamic=dynamic)
        operation = Overwrite(checked, if_version, Batch.of(application_id, batch_id), scope, made_for)
        return self.commit(operation).version

    def replace_files(self, removed_paths: Iterable[str], adds: Iterable[Add]) -> int:
        """Replace files by others that hold the same rows, as a merge does. Fails where one of them is gone."""
        return self.replace_groups([(removed_paths, adds)]).version

    def replace_groups(self, groups: Iterable[tuple[Iterable[str], Iterable[Add]]]) -> CommitResult:
        """Replace several groups in one version; a group that lost a file is dropped and named in the result."""
        replacements = [
            Replacement(tuple(checked_path(path, self._store.location) for path in removed), tuple(self._checked(adds)))
            for removed, adds in groups
        ]
        if not replacements or any(not group.removed_paths for group in replacements):
            raise ConfigError("cannot replace files because no file to be replaced is named")
        return self.commit(Replace(replacements))

    def set_properties(self, properties: Mapping[str, str | None]) -> int:
        """Set table properties; None takes one away, however it is spelled. Fails if another writer sets one of them
        otherwise meanwhile, and if a property says how to index a column that is not there."""
        if HORIZON_KEY in properties:
            raise ConfigError(f"cannot set `{HORIZON_KEY}` because only a purge moves the horizon")
        Config.resolve(properties={key: value for key, value in properties.items() if value is not None})
        head = self._reader.head()[1]
        changed = changed_properties(properties, head.metadata.configuration, head.schema, head.partition_columns)
        return self.commit(ChangeMetadata(changed)).version

    def upgrade_protocol(self, min_reader: int = 4, min_writer: int = 4) -> Protocol:
        """Raise the protocol to at least these versions. It is never lowered."""
        self.commit(UpgradeProtocol(protocol_for(min_reader, min_writer)))
        return self.protocol()

    def record_skipped_file(
        self,
        path: str,
        *,
        reason: str,
        operation: str = "merge",
        partition_values: Mapping[str, str | None] | None = None,
        size: int | None = None,
        cooldown_hours: float = 24,
    ) -> int:
        """Note that an operation could not process a file. It stays live, and is left alone until the cooldown ends."""
        if not cooldown_hours >= 0:
            raise ConfigError(f"cannot use a cooldown of `{cooldown_hours}` hours: expected a number of at least 0")
        skip = RecordSkip(
            path=checked_path(path, self._store.location),
            reason=reason,
            operation=operation,
            partition_values=partition_values,
            size=size,
            cooldown_ms=int(cooldown_hours * _HOUR_MS),
        )
        return self.commit(skip).version

    # Reading

    def snapshot(
        self, *, version: int | None = None, timestamp: str | datetime.datetime | int | None = None
    ) -> Snapshot:
        """The table at a version or a moment (ISO text, a datetime, or milliseconds); the newest by default."""
        if version is not None and timestamp is not None:
            raise ConfigError("cannot read a table at a version and at a timestamp at once: give one of them")
        if timestamp is not None:
            version = version_at(self._reader, self._reader.whole_segment(), moment_ms(timestamp))
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise ConfigError(f"cannot read version `{version!r}`: expected a whole number")
        if version is not None and version < 0:
            raise ConfigError(
                f"cannot read version `{version}` because versions are counted from 0",
                hint="leave `version` out for the newest one; `history` lists all of them",
            )
        return self._reader.snapshot(version)

    def list_files(self, *, where: str | None = None, max_staleness_seconds: float = 0) -> pa.Table:
        """A row per live file, less those that cannot hold a row which the predicate `where` is true of.

        An answer of up to the given age will do; by default it is the newest.
        """
        if where is None:
            return self._reader.snapshot(max_staleness_seconds=max_staleness_seconds).described_files
        return pruned_files(self._reader, self._config, where, max_staleness_seconds)

    def scan_files(self, *, where: str | None = None) -> Iterator[pa.Table]:
        """The same manifest by manifest, for tables whose files should not all stand in memory at once."""
        return stream_files(self._reader, self._config, where)

    def versions(self) -> list[int]:
        """The versions whose files are there, oldest first."""
        return version_files(self._store, self._reader.segment())

    def read_version(self, version: int) -> list[Action]:
        """The actions of one version, in order."""
        return list(self._read(version).actions)

    def _read(self, version: int) -> VersionFile:
        try:
            return self._reader.read_version(version)
        except ObjectNotFoundError as error:
            there = self.versions()
            raise RetentionError(
                f"cannot read version {version} of `{self.url}` because its file is not there",
                version=version,
                path=version_key(version),
                hint=f"there are files of the versions {there[0]} to {there[-1]}" if there else None,
            ) from error

    def schema(self) -> pa.Schema:
        """The newest schema, as Arrow. Spark's JSON is `metadata().schema_string`."""
        return self._reader.definitions().schema

    def metadata(self) -> Metadata:
        """The metadata in force."""
        return self._reader.metadata()

    def protocol(self) -> Protocol:
        """The protocol in force. It can be read of any table, also of one that is too new."""
        return self._reader.protocol()

    def history(self, *, limit: int | None = None) -> pa.Table:
        """A row per version, the newest first."""
        if limit is not None and limit < 1:
            raise ConfigError(f"cannot show `{limit}` versions of the history: expected at least 1")
        return history.read_history(self._reader, limit)

    def describe(self, *, version: int | None = None) -> pa.Table:
        """A row per action of every version whose file is there, oldest first, or of one version."""
        files = self._reader.read_versions(self.versions()) if version is None else [self._read(version)]
        return describe.describe_versions(files)

    def skipped_files(self) -> list[Skip]:
        """The skip in force of every file that has one."""
        return list(self._reader.snapshot().skips.values())

    def files_in_cooldown(self) -> dict[str, int]:
        """The files to be left alone now, with the moment (in milliseconds) until when."""
        return in_cooldown(self.skipped_files(), self._clock.now_ms())

    def is_in_cooldown(self, path: str) -> bool:
        """Whether a file is to be left alone now."""
        return checked_path(path, self._store.location) in self.files_in_cooldown()

    def filter_files_in_cooldown(self, files: FileList) -> FileList:
        """The files (a table of files, adds or paths) less those that are to be left alone now."""
        return without_paths(files, self.files_in_cooldown())

    def checkpoint(self) -> LastCheckpoint:
        """Write a full checkpoint of the newest version, clean up, and answer with what the hint says of it."""
        if self._checkpointer is None:
            raise ConfigError("cannot make a checkpoint of a log whose bases are made by somebody else")
        self._checkpointer.wait()
        return self._checkpointer.compact(self.config_in_force()).hint

    def wait_for_checkpoint(self) -> None:
        """Until the checkpoint that is under way in the background has ended, if there is one."""
        if self._checkpointer is not None:
            self._checkpointer.wait()

    def last_checkpoint(self) -> LastCheckpoint | None:
        """What the hint `_last_checkpoint` says, or None where there is none. Never an authority."""
        known: LastCheckpoint | None = self._reader.cache.checkpoints.get("last")
        if known is not None:
            return known
        key = f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}"
        try:
            hint = decode_last_checkpoint(self._store.get(key), key)
        except ObjectNotFoundError:
            return None
        self._reader.cache.checkpoints.put("last", hint)
        return hint

    def metrics(self) -> Metrics:
        """What this handle has done: checkpoints made, tables loaded and from what, files cleaned up."""
        return self._metrics.read()

    def cache_stats(self) -> CacheStats:
        """Hit rates of the caches, from 0 to 1."""
        return self._reader.cache.stats()

    def invalidate_cache(self) -> None:
        """Forget everything that was read."""
        self._reader.forget()

    def _checked(self, adds: Iterable[Add]) -> list[Add]:
        return checked_adds(adds, self._known_metadata(), self._store.location)

    def _scope(self, adds: Sequence[Add], where: str | None, *, dynamic: bool) -> Scope | None:
        if where is not None and dynamic:
            raise ConfigError(
                "cannot overwrite by a predicate and by the partitions of the new files at once: give one of them"
            )
        if where is not None:
            return scope_of_predicate(where, adds)
        return scope_of_partitions(adds) if dynamic and self._known_metadata().partition_columns else None

    def _known_metadata(self) -> Metadata:
        known = self._reader.known_head() or self._reader.head()
        return known[1].metadata

    def commit(self, operation: Operation) -> CommitResult:
        """Commit an operation, for the rooms above."""
        try:
            config = self.config_in_force()
        except ConfigError:  # of properties that disagree: only a change of them may pass
            if not isinstance(operation, ChangeMetadata):
                raise
            config = self._config
        result = Transaction(self._reader, self._bases, config, self._clock, operation).run()
        if self._checkpointer is not None:
            self._checkpointer.after_commit(result, config)
        return result

    def config_in_force(self) -> Config:
        """The settings of this handle, the table's properties behind them."""
        properties = self._known_metadata().configuration
        return self._config.with_properties(properties) if properties else self._config


def _reopen(url: str, options: Mapping[str, Any], session: Mapping[str, Any]) -> TransactionLog:
    return TransactionLog(url, options=options, session=session)
