"""`TransactionLog`: the protocol level, for tools, tests and the rooms above.

Threads may share a handle; it pickles as its address and options. It always returns the newest version unless staleness
is allowed, and always sees its own commits.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.errors import ConfigError, ObjectNotFoundError, RetentionError
from indextables.log.base import BaseSource
from indextables.log.cache import CacheStats
from indextables.log.metrics import LogMetrics, Metrics
from indextables.log.reader import LogReader
from indextables.log.replay import VersionFile
from indextables.log.segment import version_files
from indextables.log.skips import FileList
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.actions import Action, Add, Metadata, Protocol, Skip
from indextables.protocol.checkpoint.last_checkpoint import LastCheckpoint
from indextables.protocol.features import protocol_for
from indextables.protocol.horizon import HORIZON_KEY
from indextables.protocol.names import LAST_CHECKPOINT, LOG_DIRECTORY, version_key
from indextables.runtime.caching import lazy_property
from indextables.runtime.pools import SHARED_POOLS, Pools
from indextables.state.reader import StateReader
from indextables.store import ObjectStore, open_store

if TYPE_CHECKING:
    from indextables.log.commit.operations import Operation, Scope
    from indextables.log.commit.transaction import CommitResult
    from indextables.protocol.avro.state_manifest import StateManifest
    from indextables.state.checkpointer import Checkpointer

_HOUR_MS = 3_600_000


class TransactionLog:
    """Transaction log of one table."""

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
        self._store = store if store is not None else open_store(_address(url), self._config)
        self._metrics = LogMetrics()
        self._pools = pools
        self._bases = StateReader(self._store, self._config, pools) if bases is None else bases
        self._reader = LogReader(self._store, self._config, clock, pools, self._bases, self._metrics)
        self._writes_checkpoints = bases is None  # a caller with its own bases also writes them

    @lazy_property
    def _checkpointer(self) -> Checkpointer | None:
        from indextables.prune.files import partition_bounds
        from indextables.state.checkpointer import Checkpointer

        states = self.states
        if states is None or not self._writes_checkpoints:
            return None
        return Checkpointer(
            self._reader, self._clock, states, partition_bounds, self._pools, self._metrics, self._write_sheets
        )

    def _write_sheets(self, state: StateManifest, config: Config) -> None:
        from indextables.filters.sheet_writer import is_wanted, write_sheets

        if self.states is not None and is_wanted(self._store, config):
            write_sheets(self._store, config, self._pools, self.states.manifests, state)

    def __reduce__(self) -> tuple[object, ...]:
        # A path is absolute here: a worker may have another working directory.
        return _reopen, (self.url, *self._arguments)

    def __repr__(self) -> str:
        return f"TransactionLog({self.url!r})"

    @property
    def url(self) -> str:
        """Address of the table."""
        return self._store.location.url

    @property
    def config(self) -> Config:
        """Settings of this handle."""
        return self._config

    @property
    def options(self) -> dict[str, Any]:
        """Options of this handle, which may include secrets."""
        return {**self._arguments[1], **self._arguments[0]}

    @property
    def reader(self) -> LogReader:
        """Reader, for the rooms above."""
        return self._reader

    @property
    def clock(self) -> Clock:
        """Clock of this handle, for the rooms above."""
        return self._clock

    @property
    def is_portable(self) -> bool:
        """True if a copy in another process works alike.

        It does not with the caller's own store or clock.
        """
        return self._is_portable

    @property
    def checkpointer(self) -> Checkpointer | None:
        """Writer of checkpoints and cleaner, for the rooms above."""
        return self._checkpointer

    @property
    def states(self) -> StateReader | None:
        """States, for the rooms above; None if the caller provides the bases."""
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
        """Create the table by putting version 0; return True if this call created it.

        `schema` is an Arrow schema or Spark's schema JSON. If the same table exists, nothing happens; another table is
        an error. `features` are declared in addition to those of every new table.
        """
        from indextables.log.commit.create import check_same_table, create_table, new_metadata

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
        same_properties: bool = False,
        application_id: str | None = None,
        batch_id: int | None = None,
    ) -> int:
        """Append files, and return their version; commit a streaming batch once.

        `made_for` is the table when the files were written: the commit fails if the table was recreated or has another
        schema or partitioning since; with `same_properties`, also if it has other properties.
        """
        from indextables.log.commit.operations import Append, Batch

        operation = Append(self._checked(adds), Batch.of(application_id, batch_id), made_for, same_properties)
        return self.commit(operation).version

    def overwrite_files(
        self,
        adds: Iterable[Add],
        *,
        where: str | None = None,
        dynamic: bool = False,
        if_version: int | None = None,
        made_for: Head | None = None,
        same_properties: bool = False,
        application_id: str | None = None,
        batch_id: int | None = None,
    ) -> int:
        """Replace all earlier files by other files.

        With `if_version`, fail if the table has another version. With `where`, a predicate on partition columns,
        replace only files for which it is true; it must be true for every new file too. With `dynamic`, replace only
        the partitions of the new files, and do nothing without new files; a table without partition columns is replaced
        as a whole. `made_for` and `same_properties` are as for `add_files`.
        """
        from indextables.log.commit.operations import Batch, Overwrite

        checked = self._checked(adds)
        scope = self._scope(checked, where, dynamic=dynamic)
        batch = Batch.of(application_id, batch_id)
        return self.commit(Overwrite(checked, if_version, batch, scope, made_for, same_properties)).version

    def replace_files(self, removed_paths: Iterable[str], adds: Iterable[Add]) -> int:
        """Replace files by others with the same rows, like a merge; fail if one is gone."""
        return self.replace_groups([(removed_paths, adds)]).version

    def replace_groups(self, groups: Iterable[tuple[Iterable[str], Iterable[Add]]]) -> CommitResult:
        """Replace several groups in one version.

        Drop and report groups with a missing file.
        """
        from indextables.log.commit.checks import checked_path
        from indextables.log.commit.operations import Replace, Replacement

        replacements = [
            Replacement(tuple(checked_path(path, self._store.location) for path in removed), tuple(self._checked(adds)))
            for removed, adds in groups
        ]
        if not replacements or any(not group.removed_paths for group in replacements):
            raise ConfigError("cannot replace files because no file to replace is given")
        return self.commit(Replace(replacements))

    def set_properties(self, properties: Mapping[str, str | None]) -> int:
        """Set table properties; None removes one, in any spelling.

        Fail if another writer sets one of them to another value concurrently, or if a property configures the index of
        an unknown column.
        """
        from indextables.log.commit.operations import ChangeMetadata
        from indextables.split.index.properties import changed_properties

        if HORIZON_KEY in properties:
            raise ConfigError(f"cannot set `{HORIZON_KEY}` because only a purge moves the horizon")
        Config.resolve(properties={key: value for key, value in properties.items() if value is not None})
        head = self._reader.head()[1]
        changed = changed_properties(properties, head.metadata.configuration, head.schema, head.partition_columns)
        return self.commit(ChangeMetadata(changed)).version

    def upgrade_protocol(self, min_reader: int = 4, min_writer: int = 4) -> Protocol:
        """Upgrade the protocol to at least these versions; never lower it."""
        from indextables.log.commit.operations import UpgradeProtocol

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
        """Record that an operation could not process a file.

        The file stays live, and is skipped until the cooldown ends.
        """
        from indextables.log.commit.checks import checked_path
        from indextables.log.commit.operations import RecordSkip

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
        """Return the table at a version or a time, by default the newest.

        A time is ISO text, a datetime, or milliseconds.
        """
        from indextables.log.time_travel import moment_ms, version_at

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
        """Return one row per live file, without files that cannot match `where`.

        With `max_staleness_seconds`, a cached result of this age is allowed.
        """
        from indextables.prune.files import pruned_files

        if where is None:
            return self._reader.snapshot(max_staleness_seconds=max_staleness_seconds).described_files
        return pruned_files(self._reader, self._config, where, max_staleness_seconds)

    def scan_files(self, *, where: str | None = None) -> Iterator[pa.Table]:
        """Yield the live files in parts, for tables whose files do not fit into memory."""
        from indextables.prune.files import stream_files

        return stream_files(self._reader, self._config, where)

    def versions(self) -> list[int]:
        """Return the versions with an existing file, oldest first."""
        return version_files(self._store, self._reader.segment())

    def read_version(self, version: int) -> list[Action]:
        """Return the actions of one version, in order."""
        return list(self._read(version).actions)

    def _read(self, version: int) -> VersionFile:
        try:
            return self._reader.read_version(version)
        except ObjectNotFoundError as error:
            there = self.versions()
            raise RetentionError(
                f"cannot read version {version} of `{self.url}` because its file does not exist",
                version=version,
                path=version_key(version),
                hint=f"there are files of the versions {there[0]} to {there[-1]}" if there else None,
            ) from error

    def schema(self) -> pa.Schema:
        """Return the newest schema, as Arrow; Spark's JSON is `metadata().schema_string`."""
        return self._reader.definitions().schema

    def metadata(self) -> Metadata:
        """Return the metadata in force."""
        return self._reader.metadata()

    def protocol(self) -> Protocol:
        """Return the protocol in force, of any table, even of one that is too new."""
        return self._reader.protocol()

    def history(self, *, limit: int | None = None) -> pa.Table:
        """Return one row per version, the newest first."""
        from indextables.log import history

        if limit is not None and limit < 1:
            raise ConfigError(f"cannot show `{limit}` versions of the history: expected at least 1")
        return history.read_history(self._reader, limit)

    def describe(self, *, version: int | None = None) -> pa.Table:
        """Return one row per action of one version, or of all existing versions in order."""
        from indextables.log import describe

        files = self._reader.read_versions(self.versions()) if version is None else [self._read(version)]
        return describe.describe_versions(files)

    def skipped_files(self) -> list[Skip]:
        """Return the skip in force of every file that has one."""
        return list(self._reader.snapshot().skips.values())

    def files_in_cooldown(self) -> dict[str, int]:
        """Return the files in cooldown, with its end in milliseconds."""
        from indextables.log.skips import in_cooldown

        return in_cooldown(self.skipped_files(), self._clock.now_ms())

    def is_in_cooldown(self, path: str) -> bool:
        """Return True if a file is in cooldown."""
        from indextables.log.commit.checks import checked_path

        return checked_path(path, self._store.location) in self.files_in_cooldown()

    def filter_files_in_cooldown(self, files: FileList) -> FileList:
        """Return the files (a table of files, adds or paths) without those in cooldown."""
        from indextables.log.skips import without_paths

        return without_paths(files, self.files_in_cooldown())

    def checkpoint(self) -> LastCheckpoint:
        """Write a full checkpoint of the newest version, clean up, and return the hint."""
        if self._checkpointer is None:
            raise ConfigError("cannot write a checkpoint because the caller of this log provides the bases")
        self._checkpointer.wait()
        return self._checkpointer.compact(self.config_in_force()).hint

    def wait_for_checkpoint(self) -> None:
        """Wait for the running background checkpoint, if there is one."""
        if self._checkpointer is not None:
            self._checkpointer.wait()

    def last_checkpoint(self) -> LastCheckpoint | None:
        """Return the hint `_last_checkpoint`, or None; it is never an authority."""
        from indextables.protocol.checkpoint.last_checkpoint import decode_last_checkpoint

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
        """Return the counters of this handle: commits, checkpoints, loads, clean-ups."""
        return self._metrics.read()

    def cache_stats(self) -> CacheStats:
        """Return the hit rates of the caches, from 0 to 1."""
        return self._reader.cache.stats()

    def invalidate_cache(self) -> None:
        """Drop all cached data."""
        self._reader.forget()

    def _checked(self, adds: Iterable[Add]) -> list[Add]:
        from indextables.log.commit.checks import checked_adds

        return checked_adds(adds, self._known_metadata(), self._store.location)

    def _scope(self, adds: Sequence[Add], where: str | None, *, dynamic: bool) -> Scope | None:
        from indextables.prune.scopes import scope_of_partitions, scope_of_predicate

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
        from indextables.log.commit.operations import ChangeMetadata
        from indextables.log.commit.transaction import Transaction

        try:
            config = self.config_in_force()
        except ConfigError:  # the properties contradict each other: only a change of properties may be committed
            if not isinstance(operation, ChangeMetadata):
                raise
            config = self._config
        result = Transaction(self._reader, self._bases, config, self._clock, operation).run()
        if self._checkpointer is not None:
            self._checkpointer.after_commit(result, config)
        return result

    def config_in_force(self) -> Config:
        """Return the settings of this handle, with the table's properties as defaults."""
        properties = self._known_metadata().configuration
        return self._config.with_properties(properties) if properties else self._config


def _address(url: str | os.PathLike[str]) -> str:
    """Return the address as text; raise `ConfigError` for a value that is no address."""
    text = os.fspath(url) if isinstance(url, str | os.PathLike) else url
    if not isinstance(text, str):
        raise ConfigError(
            f"cannot open `{url!r:.60}` as a table: expected a path, or an address such as `s3://bucket/logs`"
        )
    return text


def _reopen(url: str, options: Mapping[str, Any], session: Mapping[str, Any]) -> TransactionLog:
    return TransactionLog(url, options=options, session=session)
