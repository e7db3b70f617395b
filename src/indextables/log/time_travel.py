"""From a moment to the version that stood then: the last one committed at or before it."""

from __future__ import annotations

import bisect
import datetime
from collections.abc import Sequence
from typing import Any

from indextables.clock import format_timestamp_ms, parse_timestamp_ms
from indextables.errors import ConfigError, RetentionError
from indextables.log.reader import LogReader
from indextables.log.segment import Segment


def moment_ms(timestamp: str | datetime.datetime | int) -> int:
    """A moment (ISO text, a datetime, or milliseconds) in milliseconds since 1970."""
    if isinstance(timestamp, int):
        return timestamp
    if isinstance(timestamp, datetime.datetime):
        timestamp = timestamp.isoformat()
    try:
        return parse_timestamp_ms(timestamp)
    except ValueError as error:
        raise ConfigError(
            f"cannot read `{timestamp}` as a timestamp: {error}", hint="write it as in `2026-01-31T12:00:00Z`"
        ) from error


def version_at(reader: LogReader, segment: Segment, moment_ms: int) -> int:
    """The newest version that was committed at or before a moment: by its file, or by its state where that is all."""
    versions = range(segment.oldest, segment.newest + 1)
    oldest: tuple[int, int] | None = None
    if versions:
        times = _Times(reader, versions) if _are_dated(reader, versions) else _running_times(reader, versions)
        if at := bisect.bisect_right(times, moment_ms):
            return versions[at - 1]
        oldest = (segment.oldest, times[0])
    for version in sorted((at for at in segment.checkpoints if at < segment.oldest), reverse=True):
        committed_ms = reader.time_of_state(segment, version)
        if committed_ms is not None:
            if committed_ms <= moment_ms:
                return version
            oldest = (version, committed_ms)
    if oldest is None:
        raise RetentionError(f"cannot read `{reader.url}` by time because no version of it says when it was committed")
    raise RetentionError(
        f"cannot read `{reader.url}` as of {format_timestamp_ms(moment_ms)} because its oldest version, "
        f"{oldest[0]}, is of {format_timestamp_ms(oldest[1])}"
    )


def _are_dated(reader: LogReader, versions: range) -> bool:
    """Whether the log was written by writers that date their commits. Version 0 is dated by its metadata."""
    ends = {max(versions[0], 1), versions[-1]} - {0}
    return all(reader.read_version(version).info is not None for version in ends if version in versions)


class _Times(Sequence[int]):
    """The times of versions that never go back, read where the search looks."""

    def __init__(self, reader: LogReader, versions: range) -> None:
        self._reader = reader
        self._versions = versions

    def __len__(self) -> int:
        return len(self._versions)

    def __getitem__(self, at: Any) -> Any:
        return self._reader.read_version(self._versions[at]).timestamp_ms


def _running_times(reader: LogReader, versions: range) -> Sequence[int]:
    """The times of all versions, made monotonic: other writers leave no time of their own."""
    times: list[int] = []
    for file in reader.read_versions(versions):
        times.append(max(file.timestamp_ms, times[-1] if times else file.timestamp_ms))
    return times
