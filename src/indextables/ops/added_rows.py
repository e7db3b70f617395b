"""The rows that are added to a table, one stretch after the other: what a stream follows.

A `Position` stands between files: those of the whole table at one version, or those that a version adds. Versions
never change, so the files between two positions are always the same, whoever asks and when. Files that take the place
of others with the same rows (a merge) are passed over. Where a version that is needed is gone, it is an error: rows are
never left out in silence.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

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
    """A place in the rows that a table is given: `passed` files of a version lie behind it, and every version before.

    With `whole` these are files of the whole table as it stands at the version, in the order of their writing.
    """

    version: int
    passed: int = 0
    whole: bool = False


class Limit(NamedTuple):
    """How much a stretch may hold: so many files, so many bytes, but always one file; None for no bound."""

    max_files: int | None = None
    max_bytes: int | None = None


class AddedRows:
    """Follows the rows that are added to a table.

    `on_removed_rows` says what becomes of a version that removes rows, as an overwrite does: `fail` is an error, once
    everything before it was given; `ignore` gives the rows that it adds; `skip` gives nothing of it.
    """

    def __init__(self, log: TransactionLog, *, on_removed_rows: str = FAIL) -> None:
        self._log = log
        self._on_removed_rows = on_removed_rows
        self._whole: tuple[int, pa.Table] | None = None

    @property
    def table_id(self) -> str:
        """What tells this table from another one at the same place."""
        return self._log.metadata().id

    def newest(self) -> int:
        """The newest version."""
        return self._log.reader.segment().newest

    def at_version(self, version: int, newest: int) -> Position:
        """Before what a version adds; it may be the one after the newest."""
        if version > newest + 1:
            raise ConfigError(
                f"cannot start at version {version} of `{self._log.url}` because the table is at version {newest}",
                hint=f"start at a version of up to {newest + 1}, or at `latest`",
            )
        if version <= newest:
            self._stretch(version)
        return Position(version)

    def at_moment(self, timestamp: str, newest: int) -> Position:
        """Before what was committed at a moment or later."""
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
        """As far from a position as a limit allows, at most to the end of a version."""
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
        """The files between two positions, as a table of files."""
        parts = [FILES_SCHEMA.empty_table()]
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
        """Some files, as if they were the table."""
        newest = self._log.reader.head()[1]
        known = {field.name: getattr(newest, field.name) for field in dataclasses.fields(Head)}
        return Snapshot(**known, live_files=LiveFiles(TableSource(files)), skips={}, transactions={})

    def _is_refused(self, stretch: _Stretch) -> bool:
        return stretch.removes_rows and self._on_removed_rows == FAIL

    def _stretches(self, start: Position, last: int) -> Iterator[_Stretch]:
        """What there is from a position on, whole versions, up to a version."""
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
        """Version files, each of which the one behind it stands on: a file that took the place of one that was cleaned
        up is noticed."""
        known = self._log.reader.known_head() or self._log.reader.head()
        if versions.start < horizon_of(known[1].metadata.configuration):
            raise self._gone(versions.start)  # files that it adds may have been purged
        newest = self._log.reader.segment(max_staleness_seconds=float("inf")).newest
        has_follower = versions.stop <= newest
        files = self._log.reader.read_versions(range(versions.start, versions.stop + has_follower))
        for file, follower in itertools.pairwise(files):
            if follower.info is None:
                continue
            try:
                check_chain(file.version, file.mark, follower)
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
        """What a version adds that stands in a state alone, as other writers leave it. Only where it adds files and
        takes none away do the states on both sides of it tell for certain."""
        try:
            before, after = (self._log.snapshot(version=at).files for at in (version - 1, version))
        except IndexTablesError:
            raise self._gone(version) from error
        added = pc.invert(pc.is_in(after["path"], value_set=before["path"].combine_chunks()))
        if after.num_rows - pc.sum(added, min_count=0).as_py() != before.num_rows:
            raise self._gone(version) from error
        return _Stretch(version, after.filter(added).sort_by(_ORDER))

    def _whole_files(self, version: int) -> pa.Table:
        """The files of the whole table, in an order that does not depend on where they were read."""
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
            hint="rows may be missing between it and what is there now: start anew with another `checkpointLocation`, "
            "and keep versions longer, by `logRetention.duration`, than a stream may stand still",
        )

    def _removes_rows(self, version: int) -> IndexTablesError:
        return IndexTablesError(
            f"cannot follow `{self._log.url}` through version {version} because it removes rows, as an overwrite does",
            hint="the option `onRemovedRows` goes on: `ignore` gives the rows that such a version adds, `skip` nothing "
            "of it; neither takes back rows that were given before",
        )


class _Stretch:
    """The files with new rows of a version, and whether it removes rows."""

    def __init__(self, version: int, added: pa.Table | list[AddedFile], removes_rows: bool = False) -> None:
        self.version = version
        self.removes_rows = removes_rows
        self._added = added

    @property
    def num_files(self) -> int:
        return len(self._added)

    def sizes(self, start: int) -> pa.Array[Any]:
        """The sizes of the files from one on."""
        if isinstance(self._added, pa.Table):
            sizes = self._added["size"].combine_chunks()
            return sizes.slice(min(start, len(sizes)))
        return pa.array([file.add.size for file in self._added[start:]], pa.int64())

    def files(self, start: int, stop: int) -> pa.Table:
        """Some of the files."""
        if isinstance(self._added, pa.Table):
            start = min(start, self._added.num_rows)
            return self._added.slice(start, max(0, stop - start))
        return files_table(self._added[start:stop])


class _Left:
    """What a limit leaves. One file is always allowed."""

    def __init__(self, limit: Limit) -> None:
        self._num_files = limit.max_files
        self._num_bytes = limit.max_bytes
        self._is_first = True

    def take(self, sizes: pa.Array[Any]) -> int:
        """How many of these files are allowed, from the first on."""
        count = len(sizes) if self._num_files is None else min(len(sizes), self._num_files)
        if self._num_bytes is not None:
            sums = pc.cumulative_sum(sizes.slice(0, count))
            fitting = pc.sum(pc.less_equal(sums, self._num_bytes), min_count=0).as_py()
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
            f"cannot start at {format_timestamp_ms(moment_ms)} because that is yet to come",
            hint="`startingVersion` `latest` gives what is added from now on",
        )
    return moment_ms
