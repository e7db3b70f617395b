"""Commit loop: read the newest version, plan, put, and retry after a lost race."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import tenacity

from indextables._version import __version__
from indextables.clock import Clock, format_timestamp_ms
from indextables.config import Config, settings
from indextables.config.setting import Setting
from indextables.errors import CommitConflictError
from indextables.log.base import BaseSource
from indextables.log.commit.checks import CheckedActions, checked
from indextables.log.commit.conflict import Conflict
from indextables.log.commit.operations import Batch, Done, Operation, Plan
from indextables.log.commit.put import Attempt, Committer, Outcome
from indextables.log.divergence import refuse_state_commits
from indextables.log.reader import LogReader
from indextables.log.replay import VersionFile, advance, newest_definitions
from indextables.log.segment import Segment, refuse_gap
from indextables.log.snapshot import Head
from indextables.log.versions import FoundVersion
from indextables.protocol.actions import Action, Add, CommitInfo, Remove, Skip
from indextables.protocol.features import check_writable
from indextables.protocol.version_file import encode_lines, seal_lines

logger = logging.getLogger(__name__)

ENGINE = f"indextables/{__version__}"

_LEAST_ATTEMPTS = 3


class CommitResult(NamedTuple):
    """Version with the operation.

    If `committed` is False, an earlier commit contains it, and there are no `actions`.
    """

    version: int
    txn_id: str | None
    dropped_groups: tuple[int, ...] = ()
    committed: bool = True
    actions: tuple[Action, ...] = ()


@dataclasses.dataclass
class Transaction:
    """One operation on its way into the log."""

    reader: LogReader
    bases: BaseSource
    config: Config
    clock: Clock
    operation: Operation

    def __post_init__(self) -> None:
        self._txn_id = self.clock.uuid()
        self._start: Head | None = None
        self._attempts = 0
        self._last_observed = -1
        self._look_seconds: float | None = None
        self._followed: tuple[Segment, Head] | None = None
        self._began = self.clock.monotonic()
        self._limit_seconds = self.config[settings.TRANSACTION_RETRY_TIMEOUT_SECONDS]
        self._longest_pause = self.config[settings.TRANSACTION_RETRY_MAX_DELAY_MS] / 1000
        self._pauses = self.config[settings.TRANSACTION_RETRY_BASE_DELAY_MS] > 0

    def run(self) -> CommitResult:
        """Commit, or raise.

        After a conflict or an error, the log contains nothing of the operation, unless the error says that the outcome
        is unknown.
        """
        self._await_turn()
        retrying = tenacity.Retrying(
            stop=self._has_tried_enough,
            wait=self._pause_after_loss,
            retry=tenacity.retry_if_exception_type(_LostRaceError),
            sleep=self.clock.sleep,
            reraise=True,
        )
        try:
            return retrying(self._attempt)
        except _LostRaceError as lost:
            raise CommitConflictError(
                f"cannot commit to `{self.reader.url}` because other writers committed first in all "
                f"{self._attempts} attempts, last at version {lost.version}",
                version=lost.version,
                path=self.reader.url,
                hint=f"run it again, or raise `{self._limit().key}`",
            ) from lost

    def _await_turn(self) -> None:
        """Wait for the turn of this writer, if others contend for the log.

        A long pause is interrupted by looks at the log: if fewer versions appear than turns pass, others are gone.
        """
        known, turns = self.reader.known_head(), self.reader.turns
        if known is None or not self._pauses:
            return
        since = turns.known_since(known[1].version)
        newest = known[1].version
        while (seconds := min(turns.until_turn(since), self._seconds_left() / 2)) > 0:
            pause = min(seconds, self._longest_pause)
            self.clock.sleep(pause)
            if pause == seconds or not turns.turn_seconds:
                return
            self._begin_on(known[1])
            seen = self.reader.head()[1].version
            self._observe(seen)
            if seen - newest < pause / turns.turn_seconds / 2:
                return
            newest = seen

    def _pause_after_loss(self, state: tenacity.RetryCallState) -> float:
        if not self._pauses:
            return 0.0
        seconds = self.reader.turns.after_loss(state.attempt_number)
        if seconds > 0:
            self._followed = None
        return max(min(seconds, self._longest_pause, self._seconds_left()), 0.0)

    def _seconds_left(self) -> float:
        return self._began + self._limit_seconds - self.clock.monotonic()

    def _limit(self) -> Setting[int]:
        """Return the reached limit: attempts if the user has set them, else time."""
        most = settings.TRANSACTION_RETRY_MAX_ATTEMPTS
        has_most = self.config.is_set(most) and self._attempts >= self.config[most]
        return most if has_most else settings.TRANSACTION_RETRY_TIMEOUT_SECONDS

    def _has_tried_enough(self, state: tenacity.RetryCallState) -> bool:
        """Limit the attempts by time; a process that slept may still try a few times."""
        if self._limit() is settings.TRANSACTION_RETRY_MAX_ATTEMPTS:
            return True
        return state.attempt_number >= _LEAST_ATTEMPTS and self._seconds_left() <= 0

    def _begin_on(self, head: Head) -> Head:
        """Return the head on which the operation began: the first one that it saw."""
        if self._start is None:
            self._start = head
        return self._start

    def _observe(self, version: int, *, own: bool = False) -> None:
        """Record the newest version, and where the last commits began."""
        turns = self.reader.turns
        for file in self.reader.cached_versions(range(max(version - 1, 0), version + 1)):
            info = file.info
            is_new = file.version > self._last_observed and file.txn_id != self._txn_id
            if is_new and info is not None and info.read_version is not None:
                turns.began(file.version, info.read_version)
        self._last_observed = max(self._last_observed, version)
        turns.seen(version, own=own)

    def _attempt(self) -> CommitResult:
        self._attempts += 1
        trusted = self._followed or self._trusted()
        segment, now = trusted or self._newest()
        self._look_seconds = None if trusted else self.clock.monotonic() - self.reader.listed_at
        refuse_gap(segment, self.reader.url)
        start = self._begin_on(now)
        self._observe(now.version)
        now_ms = self.reader.store_clock.now_ms(segment)
        answer = self.operation.plan(start, now, now_ms)
        if isinstance(answer, Conflict):
            raise CommitConflictError(
                f"cannot commit version {now.version + 1} to `{self.reader.url}` because {answer.reason}",
                version=now.version + 1,
                path=self.reader.url,
                hint="open the table again and run the operation on its current content",
            )
        if isinstance(answer, Done):
            return CommitResult(answer.version, None, committed=False)
        check_writable(now.protocol, self.reader.url)
        if not getattr(self.operation, "takes_over", False):
            refuse_state_commits(segment, now, self.reader.url)
        planned = checked(answer.actions, now.version + 1, self.reader.store.location)
        return self._put(segment, now, answer, planned, max(now_ms, now.timestamp_ms))

    def _trusted(self) -> tuple[Segment, Head] | None:
        """Return the cached head at the first attempt: an old one loses the race.

        It is not trusted if others have probably committed since; nor if it has no version file, because another writer
        may have taken the table over.
        """
        known = self.reader.known_head()
        if self._attempts > 1 or known is None or self.operation.needs_files or known[0].newest_file is None:
            return None
        if self._pauses and self.reader.turns.is_stale(known[1].version):
            self._begin_on(known[1])
            return None
        return known

    def _newest(self) -> tuple[Segment, Head]:
        if self.operation.needs_files:
            return self.reader.newest_snapshot()
        return self.reader.head_to_extend() if self.reader.turns.is_crowded else self.reader.head()

    def _put(self, segment: Segment, now: Head, plan: Plan, planned: CheckedActions, timestamp_ms: int) -> CommitResult:
        info = self._commit_info(now, plan, planned.actions, timestamp_ms)
        file = VersionFile(now.version + 1, (info, *planned.actions), timestamp_ms)
        lines = encode_lines([info]) + planned.lines
        payload = seal_lines(lines, compress=self.config[settings.TRANSACTION_COMPRESSION_ENABLED])
        self._followed = None
        search = self.reader.find_meanwhile if self.reader.turns.is_crowded else None
        committer = Committer(self.reader.store, self.config, self.clock, self.bases, search)
        host_ms = self.clock.now_ms()
        outcome, grown = committer.put(Attempt(file.version, payload, self._txn_id), segment)
        self.reader.turns.took(self._look_seconds, committer.put_seconds)
        if outcome is Outcome.MOVED:
            self.reader.forget()
        if outcome is not Outcome.WON:
            if outcome is Outcome.LOST and committer.winner is not None:
                self._learn(segment, now, committer.winner)
            self.reader.metrics.lost_race()
            raise _LostRaceError(file.version)
        self.reader.metrics.committed()
        self.reader.store_clock.committed(host_ms, None if grown is None else grown.newest_file)
        self.reader.committed(grown, advance(now, [file]), file)
        self._observe(file.version, own=True)
        _log_skips(file)
        return CommitResult(file.version, self._txn_id, plan.dropped_groups, actions=tuple(file.actions))

    def _learn(self, segment: Segment, now: Head, winner: FoundVersion) -> None:
        """Go on from the version that won; look first if the head was cached."""
        was_cached = self._attempts == 1 and self._look_seconds is None
        if was_cached or self.operation.needs_files:
            self.reader.keep(winner.file)
        else:
            self._followed = self.reader.follow(segment, now, winner)

    def _commit_info(self, now: Head, plan: Plan, actions: Sequence[Action], timestamp_ms: int) -> CommitInfo:
        assert self._start is not None  # noqa: S101 - set by the first attempt
        batch: Batch | None = getattr(self.operation, "batch", None)
        return CommitInfo(
            txn_id=self._txn_id,
            operation=self.operation.name,
            timestamp=timestamp_ms,
            engine=ENGINE,
            read_version=self._start.version,
            parent_txn_id=now.identity or None,
            num_actions=len(actions),
            definitions_version=_definitions_version(now, actions),
            parameters=dict(plan.parameters),
            metrics=_metrics(actions),
            application_id=batch.application_id if batch else None,
            batch_id=batch.batch_id if batch else None,
        )


def _definitions_version(now: Head, actions: Sequence[Action]) -> int:
    return now.version + 1 if any(newest_definitions(actions)) else now.definitions_version


def _log_skips(file: VersionFile) -> None:
    for action in file.actions:
        if isinstance(action, Skip):
            until = "no time" if action.retry_after is None else format_timestamp_ms(action.retry_after)
            logger.info(
                "`%s` was skipped by %s at version %d (skip count: %d, retry after: %s)",
                action.path,
                action.operation,
                file.version,
                action.skip_count,
                until,
            )


def _metrics(actions: Sequence[Action]) -> dict[str, Any]:
    counts = Counter(type(action) for action in actions)
    adds = [action for action in actions if isinstance(action, Add)]
    metrics = {
        "filesAdded": counts[Add],
        "filesRemoved": counts[Remove],
        "recordsAdded": sum(add.num_records or 0 for add in adds),
        "bytesAdded": sum(add.size for add in adds),
    }
    return {name: value for name, value in metrics.items() if value}


class _LostRaceError(Exception):
    """Another writer has taken the version: plan again on top of it."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version
