"""The one loop of all commits: take what the operation needs, plan, put, and on a lost race look and plan again."""

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
from indextables.errors import CommitConflictError
from indextables.log.base import BaseSource
from indextables.log.checks import checked
from indextables.log.commit import Attempt, Committer, Outcome, commit_backoff
from indextables.log.conflict import Conflict
from indextables.log.divergence import refuse_state_commits
from indextables.log.operations import Batch, Done, Operation, Plan
from indextables.log.reader import LogReader
from indextables.log.replay import VersionFile, advance
from indextables.log.segment import Segment, refuse_gap
from indextables.log.snapshot import Head
from indextables.protocol.actions import Action, Add, CommitInfo, Remove, Skip
from indextables.protocol.features import check_writable
from indextables.protocol.version_file import encode_version

logger = logging.getLogger(__name__)

ENGINE = f"indextables/{__version__}"


class CommitResult(NamedTuple):
    """A version that holds the operation. `committed` is False where an earlier commit holds it already, and then
    there are no `actions`."""

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

    def run(self) -> CommitResult:
        """Commit, or raise. On a conflict or an error nothing of the operation is in the log, unless the error says
        that this is not known."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.config[settings.TRANSACTION_RETRY_MAX_ATTEMPTS]),
            wait=commit_backoff(self.config, self.clock),
            retry=tenacity.retry_if_exception_type(_LostRaceError),
            sleep=self.clock.sleep,
            reraise=True,
        )
        try:
            return retrying(self._attempt)
        except _LostRaceError as lost:
            raise CommitConflictError(
                f"cannot commit to `{self.reader.url}` because others were first in all {self._attempts} attempts, at "
                f"version {lost.version} in the last",
                version=lost.version,
                path=self.reader.url,
                hint="run it again, or raise `transaction.retry.maxAttempts`",
            ) from lost

    def _attempt(self) -> CommitResult:
        self._attempts += 1
        segment, now = self._newest()
        refuse_gap(segment, self.reader.url)
        self._start = self._start or now
        now_ms = self.reader.store_clock.now_ms(segment)
        answer = self.operation.plan(self._start, now, now_ms)
        if isinstance(answer, Conflict):
            raise CommitConflictError(
                f"cannot commit version {now.version + 1} to `{self.reader.url}` because {answer.reason}",
                version=now.version + 1,
                path=self.reader.url,
                hint="open the table again and run the operation on what it holds now",
            )
        if isinstance(answer, Done):
            return CommitResult(answer.version, None, committed=False)
        check_writable(now.protocol, self.reader.url)
        if not getattr(self.operation, "takes_over", False):
            refuse_state_commits(segment, now, self.reader.url)
        actions = checked(answer.actions, now.version + 1, self.reader.store.location)
        timestamp_ms = max(now_ms, now.timestamp_ms)
        info = self._commit_info(now, answer, actions, timestamp_ms)
        return self._put(segment, now, answer, VersionFile(now.version + 1, (info, *actions), timestamp_ms))

    def _newest(self) -> tuple[Segment, Head]:
        """What stands now. The first attempt trusts what is known: if that is old, the put loses and says so."""
        if self.operation.needs_files:
            return self.reader.newest_snapshot()
        if self._attempts == 1 and (known := self.reader.known_head()) is not None:
            return known
        return self.reader.head()

    def _put(self, segment: Segment, now: Head, plan: Plan, file: VersionFile) -> CommitResult:
        payload = encode_version(file.actions, compress=self.config[settings.TRANSACTION_COMPRESSION_ENABLED])
        committer = Committer(self.reader.store, self.config, self.clock, self.bases)
        host_ms = self.clock.now_ms()
        outcome, grown = committer.put(Attempt(file.version, payload, self._txn_id), segment)
        if outcome is Outcome.MOVED:
            self.reader.forget()
        if outcome is not Outcome.WON:
            self.reader.metrics.lost_race()
            raise _LostRaceError(file.version)
        self.reader.metrics.committed()
        self.reader.store_clock.committed(host_ms, None if grown is None else grown.newest_file)
        self.reader.committed(grown, advance(now, [file]), file)
        _tell_skips(file)
        return CommitResult(file.version, self._txn_id, plan.dropped_groups, actions=tuple(file.actions))

    def _commit_info(self, now: Head, plan: Plan, actions: Sequence[Action], timestamp_ms: int) -> CommitInfo:
        assert self._start is not None  # noqa: S101 - set by the attempt that asks
        batch: Batch | None = getattr(self.operation, "batch", None)
        return CommitInfo(
            txn_id=self._txn_id,
            operation=self.operation.name,
            timestamp=timestamp_ms,
            engine=ENGINE,
            read_version=self._start.version,
            parent_txn_id=now.mark or None,
            num_actions=len(actions),
            parameters=dict(plan.parameters),
            metrics=_metrics(actions),
            application_id=batch.application_id if batch else None,
            batch_id=batch.batch_id if batch else None,
        )


def _tell_skips(file: VersionFile) -> None:
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
    """Another writer holds the version: plan again on what it wrote."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version
