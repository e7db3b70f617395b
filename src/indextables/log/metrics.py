"""Counters of an open log: commits, lost races, checkpoints, loads, clean-ups."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

import msgspec

REPLAY = "replay"


class LoadMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Number and duration of loads from one kind of source."""

    count: int
    total_ms: float
    last_ms: float


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the log was opened.

    `commit_retries` counts lost races, after which a commit was planned again or abandoned. `compression_ratio` is the
    size of the content of checkpoints divided by the size of their files; `loads` is by source: `replay`, `avro-state`,
    `json`, `parquet`.
    """

    commits: int
    commit_retries: int
    checkpoints_created: int
    checkpoints_failed: int
    checkpoint_total_ms: float
    checkpoint_last_ms: float
    checkpoint_bytes: int
    compression_ratio: float | None
    loads: Mapping[str, LoadMetrics]
    versions_cleaned: int
    checkpoints_cleaned: int
    manifests_cleaned: int


class LogMetrics:
    """Counters of one log; threads may share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._checkpoint_ms: list[float] = [0.0, 0.0]
        self._loads: dict[str, LoadMetrics] = {}

    def committed(self) -> None:
        """Count a commit."""
        with self._lock:
            self._counts.update(commits=1)

    def lost_race(self) -> None:
        """Count a lost race."""
        with self._lock:
            self._counts.update(retries=1)

    def loaded(self, source: str, seconds: float) -> None:
        """Count a load from a source."""
        milliseconds = seconds * 1000
        with self._lock:
            before = self._loads.get(source, LoadMetrics(count=0, total_ms=0.0, last_ms=0.0))
            self._loads[source] = LoadMetrics(
                count=before.count + 1, total_ms=before.total_ms + milliseconds, last_ms=milliseconds
            )

    def checkpointed(self, seconds: float, num_bytes: int, plain_bytes: int) -> None:
        """Count a checkpoint with its file size and the size of its content."""
        with self._lock:
            self._counts.update(created=1, bytes=num_bytes, plain_bytes=plain_bytes)
            self._checkpoint_ms = [self._checkpoint_ms[0] + seconds * 1000, seconds * 1000]

    def checkpoint_failed(self) -> None:
        with self._lock:
            self._counts.update(failed=1)

    def cleaned_up(self, *, versions: int, checkpoints: int, manifests: int) -> None:
        """Count deleted files."""
        with self._lock:
            self._counts.update(versions=versions, checkpoints=checkpoints, manifests=manifests)

    def read(self) -> Metrics:
        """Return the current counts."""
        with self._lock:
            counts = self._counts
            return Metrics(
                commits=counts["commits"],
                commit_retries=counts["retries"],
                checkpoints_created=counts["created"],
                checkpoints_failed=counts["failed"],
                checkpoint_total_ms=self._checkpoint_ms[0],
                checkpoint_last_ms=self._checkpoint_ms[1],
                checkpoint_bytes=counts["bytes"],
                compression_ratio=counts["plain_bytes"] / counts["bytes"] if counts["bytes"] else None,
                loads=dict(self._loads),
                versions_cleaned=counts["versions"],
                checkpoints_cleaned=counts["checkpoints"],
                manifests_cleaned=counts["manifests"],
            )
