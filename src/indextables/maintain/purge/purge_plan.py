"""Decide which data files a purge may delete, and from which version on all stay.

The *horizon* is the newest version that is at least as old as the retention. Its live files stay, and so does every
file that a later version adds: so each version from the horizon on can be read. Any other file is deleted if the file
itself is old enough. A younger uncommitted file may belong to a writer that has yet to commit it.

Files are listed before the log is read, so every commit before the end of the listing is seen. If the log cannot be
read from the horizon to the newest version, nothing is deleted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import tenacity

from indextables.errors import (
    CheckpointError,
    CommitConflictError,
    CorruptLogError,
    ObjectNotFoundError,
    RetentionError,
)
from indextables.log.base import DamagedBaseError
from indextables.log.reader import LogReader
from indextables.log.segment import Segment, find_version, refuse_gap
from indextables.log.snapshot import Snapshot
from indextables.log.store_clock import PROBE_PREFIX
from indextables.maintain.purge.retention_ages import HOUR_MS, Ages
from indextables.protocol.actions import Add
from indextables.protocol.features import check_writable
from indextables.protocol.horizon import horizon_of
from indextables.protocol.names import LOG_DIRECTORY, table_below, version_key
from indextables.state.cleanup.retention import Listing
from indextables.store import ObjectMeta, ObjectStore

SPLIT_SUFFIX = ".split"
_READS_OF_FILES = 5
_VERSIONS_AT_ONCE = 1000
_UNREADABLE = (RetentionError, CheckpointError, CorruptLogError)


class OldFile(NamedTuple):
    """A data file that was put before the retention period began."""

    modified_ms: int
    key: str
    size: int


class OldFiles:
    """The old data files, except the needed ones.

    An escaped name and its unescaped form count as the same file, so that a difference in spelling never costs a file.
    """

    def __init__(self) -> None:
        self._files: dict[str, OldFile] = {}
        self._escaped: dict[str, list[str]] = {}

    def __len__(self) -> int:
        return len(self._files)

    def add(self, file: OldFile) -> None:
        self._files[file.key] = file
        if "%" in file.key:
            self._escaped.setdefault(unquote(file.key), []).append(file.key)

    def keep(self, paths: Iterable[str]) -> None:
        """Keep these files: take them off the list."""
        for path in paths:
            self._keep(path)
            if "%" in path:
                self._keep(unquote(path))

    def keep_below(self, prefixes: Iterable[str]) -> None:
        """Keep all files whose names start with one of these prefixes."""
        starts = tuple(prefixes)
        self._files = {key: file for key, file in self._files.items() if not key.startswith(starts)}

    def _keep(self, path: str) -> None:
        self._files.pop(path, None)
        for key in self._escaped.get(path, ()):
            self._files.pop(key, None)

    def oldest_first(self) -> list[OldFile]:
        return sorted(self._files.values())


class Listed(NamedTuple):
    """Results of listing the whole table: old data files and expired probes."""

    files: OldFiles
    probes: list[str]


def list_old_files(store: ObjectStore, now_ms: int, retention_ms: int) -> Listed:
    """List all objects page by page, and return the old data files.

    A data file ends in `.split` and is outside of the log. A directory with a log of its own is another table.
    """
    listed = Listed(OldFiles(), [])
    tables_below: set[str] = set()
    for page in store.pages():
        for meta in page:
            if meta.key.startswith(f"{LOG_DIRECTORY}/"):
                if meta.key.startswith(PROBE_PREFIX) and meta.modified_ms < now_ms - HOUR_MS:
                    listed.probes.append(meta.key)
            elif (table := table_below(meta.key)) is not None:
                tables_below.add(table)
            elif meta.key.endswith(SPLIT_SUFFIX) and meta.modified_ms <= now_ms - retention_ms:
                listed.files.add(OldFile(meta.modified_ms, meta.key, meta.size))
    listed.files.keep_below(tables_below)
    return listed


@dataclasses.dataclass(frozen=True)
class Decision:
    """The version from which on all files stay, as of the newest version read.

    `recorded` is the horizon in the table. `unsure_since_ms` is set if files may have been removed at an unknown time
    before it. `log_files` is the listing of the log behind the decision.
    """

    newest: Snapshot
    horizon: int
    recorded: int
    unsure_since_ms: int | None
    log_files: Sequence[ObjectMeta] = ()

    @property
    def moves_horizon(self) -> bool:
        return self.horizon > self.recorded

    def allows_deleting(self, now_ms: int, ages: Ages) -> bool:
        """Return whether all unnamed files were removed long ago, or never committed."""
        return self.unsure_since_ms is None or self.unsure_since_ms <= now_ms - ages.unknown_ms


def decide(reader: LogReader, files: OldFiles, cutoff_ms: int) -> Decision:
    """Find the horizon, and keep every file that a version from there on needs."""
    known = _KnownVersions.of(reader)
    recorded = horizon_of(known.newest.metadata.configuration)
    times = {version: time_ms for version, time_ms in known.times_ms().items() if version >= recorded}
    old = [version for version, time_ms in times.items() if time_ms <= cutoff_ms]
    young = list(times)[len(old) :]
    readable = (version for version in (*reversed(old), *young) if _keep_readable(reader, files, known, version))
    horizon = next(readable, None)
    if horizon is None:
        raise _refusal(reader, "there is no version with all files known")
    unsure = [times[version] for version in _keep_above(reader, files, known, horizon)]
    if horizon > 0 and times[horizon] > cutoff_ms:
        unsure.append(times[horizon])
    return Decision(known.newest, horizon, recorded, max(unsure, default=None), known.log_files)


def catch_up(reader: LogReader, files: OldFiles, decision: Decision) -> Decision:
    """Keep the files of versions that were committed since the decision."""
    known = _KnownVersions.of(reader)
    if known.newest.metadata.id != decision.newest.metadata.id or known.newest.version < decision.newest.version:
        raise CommitConflictError(f"cannot purge `{reader.url}` because the table was recreated meanwhile")
    _keep_above(reader, files, known, decision.newest.version)
    return dataclasses.replace(decision, newest=known.newest, log_files=known.log_files)


@dataclasses.dataclass(frozen=True)
class _KnownVersions:
    """Known versions with their times by the store's clock.

    `files` are versions with a version file, `checkpoints` are versions with a state or checkpoint.
    """

    newest: Snapshot
    files: Mapping[int, int]
    checkpoints: Mapping[int, int]
    segment: Segment
    log_files: Sequence[ObjectMeta]

    @classmethod
    def of(cls, reader: LogReader) -> _KnownVersions:
        segment, log_files = reader.listed_segment()
        refuse_gap(segment, reader.url)
        with _refusing(reader):
            newest = reader.lazy_snapshot(segment.newest, listed=segment)[1]
        check_writable(newest.protocol, reader.url)
        listing = Listing.of(log_files)
        times = _times_of_files(reader.store, segment, listing)
        return cls(newest, times, _times_of_checkpoints(segment, listing), segment, log_files)

    def times_ms(self) -> dict[int, int]:
        """Return the time of each version, in order.

        A file may have been put again, so a time is never earlier than the one before it.
        """
        versions = sorted({*self.files, *self.checkpoints})
        times = (self.files.get(version, self.checkpoints.get(version, 0)) for version in versions)
        return dict(zip(versions, itertools.accumulate(times, max), strict=True))


def _times_of_files(store: ObjectStore, segment: Segment, listing: Listing) -> dict[int, int]:
    found = {version: meta.modified_ms for version, meta in listing.versions.items() if version <= segment.newest}
    run = range(segment.oldest, segment.newest + 1) if segment.newest_file is not None else range(0)
    for version in run:
        if version not in found:
            meta = find_version(store, version)
            if meta is None:
                raise ObjectNotFoundError(f"cannot read `{version_key(version)}` because it was just cleaned up")
            found[version] = meta.modified_ms
    return found


def _times_of_checkpoints(segment: Segment, listing: Listing) -> dict[int, int]:
    """Return the times of all checkpoints; one missing in the listing counts as new."""
    return {
        version: max(listing.objects[key].modified_ms if key in listing.objects else listing.now_ms for key in keys)
        for version, keys in segment.checkpoints.items()
        if version <= segment.newest
    }


def _keep_readable(reader: LogReader, files: OldFiles, known: _KnownVersions, version: int) -> bool:
    """Keep the live files of a version; return whether it can be read."""
    try:
        _keep_live(reader, files, known, version)
    except _UNREADABLE:
        return False
    return True


def _keep_above(reader: LogReader, files: OldFiles, known: _KnownVersions, version: int) -> list[int]:
    """Keep every file that a version above `version` needs.

    Returns the versions whose predecessors are missing. Files that the missing versions removed may have been removed
    at any time until then.
    """
    after_gaps: list[int] = []
    last = version
    with _refusing(reader):
        _keep_added(reader, files, sorted(at for at in known.files if at > version))
        for at in sorted(at for at in {*known.files, *known.checkpoints} if at > version):
            follows = at == last + 1
            if not (follows and at in known.files):
                if at not in known.checkpoints:
                    continue
                _keep_live(reader, files, known, at)
                after_gaps += [] if follows else [at]
            last = at
        if last != known.newest.version:
            raise CorruptLogError(f"no versions lead from version {last} to version {known.newest.version}")
    return after_gaps


def _keep_added(reader: LogReader, files: OldFiles, versions: Sequence[int]) -> None:
    for start in range(0, len(versions), _VERSIONS_AT_ONCE):
        for file in reader.read_versions(versions[start : start + _VERSIONS_AT_ONCE]):
            files.keep(action.path for action in file.actions if isinstance(action, Add))


def _keep_live(reader: LogReader, files: OldFiles, known: _KnownVersions, version: int) -> None:
    """Keep the live files of a version, part by part.

    If a part is damaged, another state is read.
    """
    listed: list[Segment] = [known.segment]

    def distrust(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, DamagedBaseError):
            reader.distrust(error)

    def read() -> None:
        segment = listed.pop() if listed else None
        for table in reader.lazy_snapshot(version, listed=segment)[1].live_files.tables(columns=["path"]):
            files.keep(table["path"].to_pylist())

    tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_READS_OF_FILES),
        retry=tenacity.retry_if_exception_type((DamagedBaseError, ObjectNotFoundError)),
        after=distrust,
        reraise=True,
    )(read)


class UnreadVersionError(CorruptLogError):
    """A listed version cannot be read: damaged, or cleaned up since the listing."""


@contextlib.contextmanager
def _refusing(reader: LogReader) -> Iterator[None]:
    try:
        yield
    except RetentionError as error:
        raise _refusal(reader, error.message, UnreadVersionError) from error
    except _UNREADABLE as error:
        raise _refusal(reader, error.message) from error


def _refusal(reader: LogReader, why: str, kind: type[CorruptLogError] = CorruptLogError) -> CorruptLogError:
    return kind(
        f"cannot purge `{reader.url}` because its log cannot be read whole: {why}",
        hint="nothing was deleted; repair the log with `REPAIR INDEXFILES TRANSACTION LOG` first",
    )
