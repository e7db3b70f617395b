"""Follow the rows that are added to a table, as a stream does.

A `Position` lies between files: files of the whole table at one version, or files that a version adds. Versions never
change, so the files between two positions are always the same. Files that replace others with the same rows (a merge)
are skipped. A missing version is an error: rows are never left out silently.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar, to_table
from indextables.clock import SYSTEM_CLOCK, format_timestamp_ms, parse_timestamp_ms
from indextables.errors import ConfigError, IndexTablesError, ObjectNotFoundError, RetentionError
from indextables.log.files import LiveFiles, TableSource
from indextables.log.replay import BrokenChainError, VersionFile, check_chain
from indextables.log.snapshot import Head, Snapshot
from indextables.log.time_travel import version_at
from indextables.protocol.actions import Add, Remove
from indextables.protocol.file_table import FILES_SCHEMA, AddedFile, files_table
from indextables.protocol.horizon import horizon_of
from indextables.transaction_log import TransactionLog

FAIL, IGNORE, SKIP = "fail", "ignore", "skip"
ON_REMOVED_ROWS = (FAIL, IGNORE, SKIP)

_VERSIONS_AT_ONCE = 32
_ORDER = [("modification_time", "ascending"), ("path", "ascending")]


class Position(NamedTuple):
    """A position in the rows added to a table.

    All versions before `version` and `passed` files of it lie behind the position. With `whole`, these are files of the
    whole table at the version, in the order of writing.
    """

    version: int
    passed: int = 0
    whole: bool = False


class Limit(NamedTuple):
    """Limit of a batch: files and bytes, but always one file; None for no limit."""

    max_files: int | None = None
    max_bytes: int | None = None


class AddedRows:
    """Follows the rows that are added to a table.

    `on_removed_rows` is the policy for versions that remove rows, such as overwrites. `fail` raises an error after all
    earlier rows were returned; `ignore` returns the rows that the version adds; `skip` returns none of them.
    """

    def __init__(self, log: TransactionLog, *, on_removed_rows: str = FAIL) -> None:
        self._log = log
        self._on_removed_rows = on_removed_rows
        self._whole: tuple[int, pa.Table] | None = None

    @property
    def table_id(self) -> str:
        """Id that distinguishes this table from another one at the same address."""
        return self._log.metadata().id

    def newest(self) -> int:
        """Return the newest version."""
        return self._log.reader.segment().newest

    def at_version(self, version: int, newest: int) -> Position:
        """Return the position before a version's rows; it may be the next version."""
        if version > newest + 1:
            raise ConfigError(
                f"cannot start at version {version} of `{self._log.url}` because the table is at version {newest}",
                hint=f"start at a version of up to {newest + 1}, or at `latest`",
            )
        if version <= newest:
            self._stretch(version)
        return Position(version)

    def at_moment(self, timestamp: str, newest: int) -> Position:
        """Return the position before the first commit at or after a time."""
        moment_ms = _moment_ms(timestamp)
        segment = self._log.reader.whole_segment()
        try:
            version = version_at(self._log.reader, segment, moment_ms - 1) + 1
        except RetentionError:
            if segment.oldest > 0:
                raise
            version = 0
        return self.at_version(min(version, newest + 1), newest)

    def advance(self, start: Position, newest: int, limit: Limit) -> Position:
        """Return the next position within the limit, at most at the end of a version."""
        left = _Left(limit)
        position = start
        for stretch in self._stretches(start, newest):
            if self._is_refused(stretch):
                if position == start:
                    raise self._removes_rows(stretch.version)
                return position
            passed = position.passed + left.take(stretch.sizes(position.passed))
            if passed < stretch.num_files:
                return position._replace(passed=passed)
            position = Position(stretch.version + 1)
        return position

    def files(self, start: Position, end: Position) -> pa.Table:
        """Return the files between two positions as a file table."""
        parts = [to_table([], FILES_SCHEMA)]
        last = end.version if end.passed else end.version - 1
        for stretch in self._stretches(start, last):
            if self._is_refused(stretch):
                raise self._removes_rows(stretch.version)
            is_last = (stretch.version, start.whole) == (end.version, end.whole)
            parts.append(stretch.files(start.passed, end.passed if is_last else stretch.num_files))
            if is_last:
                break
            start = Position(stretch.version + 1)
        return pa.concat_tables(parts)

    def snapshot_of(self, files: pa.Table) -> Snapshot:
        """Return a snapshot that consists of these files."""
        newest = self._log.reader.head()[1]
        known = {field.name: getattr(newest, field.name) for field in dataclasses.fields(Head)}
        return Snapshot(**known, live_files=LiveFiles(TableSource(files)), skips={}, transactions={})

    def _is_refused(self, stretch: _Stretch) -> bool:
        return stretch.removes_rows and self._on_removed_rows == FAIL

    def _stretches(self, start: Position, last: int) -> Iterator[_Stretch]:
        """Yield the added files of each version from a position up to a version."""
        if start.whole:
            yield _Stretch(start.version, self._whole_files(start.version))
        first = start.version + 1 if start.whole else start.version
        for at in range(first, last + 1, _VERSIONS_AT_ONCE):
            versions = range(at, min(at + _VERSIONS_AT_ONCE, last + 1))
            try:
                read = [self._of_file(file) for file in self._read(versions)]
            except ObjectNotFoundError:
                yield from map(self._stretch, versions)
            else:
                yield from read

    def _stretch(self, version: int) -> _Stretch:
        try:
            return self._of_file(self._read(range(version, version + 1))[0])
        except ObjectNotFoundError as error:
            return self._of_states(version, error)

    def _read(self, versions: range) -> list[VersionFile]:
        """Read version files, and check that each one continues the file before it.

        This detects a file that replaced a cleaned-up one.
        """
        known = self._log.reader.known_head() or self._log.reader.head()
        if versions.start < horizon_of(known[1].metadata.configuration):
            raise self._gone(versions.start)  # its files may have been purged
        newest = self._log.reader.segment(max_staleness_seconds=float("inf")).newest
        has_follower = versions.stop <= newest
        files = self._log.reader.read_versions(range(versions.start, versions.stop + has_follower))
        for file, follower in itertools.pairwise(files):
            if follower.info is None:
                continue
            try:
                check_chain(file.version, file.identity, follower)
            except BrokenChainError as error:
                raise self._gone(file.version) from error
        return files[: len(versions)]

    def _of_file(self, file: VersionFile) -> _Stretch:
        removes_rows = any(isinstance(action, Remove) and action.data_change for action in file.actions)
        adds = [
            AddedFile(action, file.version, file.timestamp_ms)
            for action in file.actions
            if isinstance(action, Add) and action.data_change
        ]
        if removes_rows and self._on_removed_rows == SKIP:
            adds = []
        return _Stretch(file.version, adds, removes_rows)

    def _of_states(self, version: int, error: ObjectNotFoundError) -> _Stretch:
        """Return the added files of a version that exists only as a state.

        Other writers leave such versions. The states before and after it are conclusive only if the version adds files
        and removes none.
        """
        try:
            before, after = (self._log.snapshot(version=at).files for at in (version - 1, version))
        except IndexTablesError:
            raise self._gone(version) from error
        added = pc.invert(pc.is_in(after["path"], value_set=before["path"].combine_chunks()))
        if after.num_rows - pc.sum(added, min_count=0).as_py() != before.num_rows:
            raise self._gone(version) from error
        return _Stretch(version, after.filter(added).sort_by(_ORDER))

    def _whole_files(self, version: int) -> pa.Table:
        """Return the files of the whole table, in an order that all readers share."""
        known = self._whole
        if known is None or known[0] != version:
            try:
                known = self._whole = (version, self._log.snapshot(version=version).files.sort_by(_ORDER))
            except RetentionError as error:
                raise self._gone(version) from error
        return known[1]

    def _gone(self, version: int) -> RetentionError:
        return RetentionError(
            f"cannot follow `{self._log.url}` from version {version} because that version was cleaned up or purged",
            version=version,
            path=self._log.url,
            hint="rows may be missing between it and the oldest retained version: start again with another "
            "`checkpointLocation`, and keep versions longer, by `logRetention.duration`, than a stream may pause",
        )

    def _removes_rows(self, version: int) -> IndexTablesError:
        return IndexTablesError(
            f"cannot follow `{self._log.url}` through version {version} because it removes rows, as an overwrite does",
            hint="set the option `onRemovedRows` to continue: `ignore` returns the rows that such a version adds, "
            "`skip` none of them; neither takes back rows that were returned before",
        )


class _Stretch:
    """The added files of a version, and whether it removes rows."""

    def __init__(self, version: int, added: pa.Table | list[AddedFile], removes_rows: bool = False) -> None:
        self.version = version
        self.removes_rows = removes_rows
        self._added = added

    @property
    def num_files(self) -> int:
        return len(self._added)

    def sizes(self, start: int) -> pa.Array[Any]:
        """Return the sizes of the files from `start` on."""
        if isinstance(self._added, pa.Table):
            sizes = self._added["size"].combine_chunks()
            return sizes.slice(min(start, len(sizes)))
        return to_array([file.add.size for file in self._added[start:]], pa.int64())

    def files(self, start: int, stop: int) -> pa.Table:
        """Return the files from `start` to `stop`."""
        if isinstance(self._added, pa.Table):
            start = min(start, self._added.num_rows)
            return self._added.slice(start, max(0, stop - start))
        return files_table(self._added[start:stop])


class _Left:
    """The remainder of a limit; one file is always allowed."""

    def __init__(self, limit: Limit) -> None:
        self._num_files = limit.max_files
        self._num_bytes = limit.max_bytes
        self._is_first = True

    def take(self, sizes: pa.Array[Any]) -> int:
        """Return how many of these files the limit allows."""
        count = len(sizes) if self._num_files is None else min(len(sizes), self._num_files)
        if self._num_bytes is not None:
            sums = pc.cumulative_sum(sizes.slice(0, count))
            fitting = pc.sum(pc.less_equal(sums, to_scalar(self._num_bytes)), min_count=0).as_py()
            count = max(fitting, min(count, 1 if self._is_first else 0))
            self._num_bytes = max(0, self._num_bytes - (sums[count - 1].as_py() if count else 0))
        if self._num_files is not None:
            self._num_files -= count
        self._is_first = self._is_first and not count
        return count


def _moment_ms(timestamp: str) -> int:
    try:
        moment_ms = parse_timestamp_ms(timestamp)
    except ValueError as error:
        raise ConfigError(
            f"cannot read `{timestamp}` as a timestamp: {error}", hint="write it as in `2026-01-31T12:00:00Z`"
        ) from error
    if moment_ms > SYSTEM_CLOCK.now_ms():
        raise ConfigError(
            f"cannot start at {format_timestamp_ms(moment_ms)} because that time is in the future",
            hint="`startingVersion` `latest` returns rows that are added later",
        )
    return moment_ms
