"""Purge: delete what no retained version needs: data files first, then versions, states, checkpoints and manifests.

The horizon is committed before anything is deleted, in a commit that fails where the table has moved since it was
looked at. So whoever restores an old version meanwhile is seen, or sees the horizon. A purge that dies leaves files
that the next one deletes.
"""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import tenacity

from indextables.config import Config, settings
from indextables.errors import CommitConflictError, IndexTablesError, ObjectNotFoundError, StorageError
from indextables.log.commit import commit_backoff
from indextables.log.restoring import MoveHorizon
from indextables.log.store_clock import delete_probes, store_time_ms
from indextables.ops.ages import Age, Ages
from indextables.ops.answers import answer_schema, one_row
from indextables.ops.purge_plan import (
    Decision,
    OldFile,
    OldFiles,
    UnreadVersionError,
    catch_up,
    decide,
    list_old_files,
)
from indextables.ops.purge_work import delete_files
from indextables.ops.reporting import report
from indextables.protocol.names import LOG_DIRECTORY
from indextables.state.clean_up import CleanedUp
from indextables.transaction_log import TransactionLog

PURGED_SCHEMA = answer_schema(
    table_path=pa.string(),
    status=pa.string(),
    orphaned_files_found=pa.int64(),
    orphaned_files_deleted=pa.int64(),
    size_mb_deleted=pa.float64(),
    retention_hours=pa.int64(),
    tx_log_files_deleted=pa.int64(),
    manifests_deleted=pa.int64(),
    expired_states_found=pa.int64(),
    expired_states_deleted=pa.int64(),
    dry_run=pa.bool_(),
    duration_ms=pa.int64(),
    message=pa.string(),
)
_BYTES_PER_MB = 1e6
_DELETING = "deleting files"
_READS_OF_LOG = 4


def purge(
    log: TransactionLog, *, older_than: Age | None = None, log_retention: Age | None = None, dry_run: bool = False
) -> pa.Table:
    """Delete data files that no version of the last `older_than` needs, and of the log what is older than
    `log_retention`. One row: what was found and deleted; of a dry run, what would go."""
    started = log.clock.monotonic()
    config = log.config_in_force()
    purging = _Purge(log, config, Ages.of(config, older_than, log_retention), dry_run=dry_run)
    outcome = purging.run()
    row = {
        "table_path": log.url,
        "status": outcome.status,
        "orphaned_files_found": outcome.num_found,
        "orphaned_files_deleted": outcome.num_deleted,
        "size_mb_deleted": outcome.num_bytes / _BYTES_PER_MB,
        "retention_hours": purging.ages.data_hours,
        "tx_log_files_deleted": len(outcome.cleaned.versions),
        "manifests_deleted": len(outcome.cleaned.manifests),
        "expired_states_found": outcome.cleaned.num_expired,
        "expired_states_deleted": 0 if dry_run else len(outcome.cleaned.checkpoints),
        "dry_run": dry_run,
        "duration_ms": int((log.clock.monotonic() - started) * 1000),
        "message": outcome.message,
    }
    return one_row(PURGED_SCHEMA, row)


@dataclasses.dataclass
class _Outcome:
    """What was done. `num_bytes` and `cleaned` tell of a dry run what would go."""

    is_dry_run: bool
    num_found: int = 0
    num_deleted: int = 0
    num_failed: int = 0
    num_left: int = 0
    num_bytes: int = 0
    cleaned: CleanedUp = dataclasses.field(default_factory=CleanedUp)
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def status(self) -> str:
        if self.is_dry_run:
            return "DRY_RUN"
        if self.num_failed or self.cleaned.num_failed or self.problems:
            return "PARTIAL"
        return "SUCCESS" if self.num_deleted or self.cleaned.num_files else "NO_ACTION"

    @property
    def message(self) -> str:
        num_files = self.num_found - self.num_left if self.is_dry_run else self.num_deleted
        parts = [
            f"{'would delete' if self.is_dry_run else 'deleted'} {num_files} data files, "
            f"{len(self.cleaned.versions)} version files, {len(self.cleaned.checkpoints)} states and checkpoints, "
            f"{len(self.cleaned.manifests)} manifests"
        ]
        if self.num_left:
            parts.append(f"{self.num_left} more data files are left for the next purge, by `purge.maxFilesToDelete`")
        if self.cleaned.num_failed:
            parts.append(f"{self.cleaned.num_failed} files of the log could not be deleted")
        return "; ".join([*parts, *self.problems])


class _Purge:
    """One purge of one table."""

    def __init__(self, log: TransactionLog, config: Config, ages: Ages, *, dry_run: bool) -> None:
        self.ages = ages
        self._log = log
        self._store = log.reader.store
        self._config = config
        self._dry_run = dry_run
        self._decision: Decision | None = None
        self._outcome = _Outcome(dry_run)

    def run(self) -> _Outcome:
        now_ms = self._now_ms()
        listed = list_old_files(self._store, now_ms, self.ages.data_ms)
        decision = self._decide(listed.files, now_ms)
        found = listed.files.oldest_first() if decision.allows_deleting(now_ms, self.ages) else []
        self._delete_data(found)
        if listed.probes and not self._dry_run:
            delete_probes(self._store, listed.probes)
        self._clean_up(now_ms)
        return self._outcome

    def _now_ms(self) -> int:
        """The time by the store's clock. A dry run puts no probe: it takes the later of the host's time and that of the
        youngest file of the log."""
        if not self._dry_run:
            return store_time_ms(self._store, self._log.clock)
        return max((self._log.clock.now_ms(), *(meta.modified_ms for meta in self._store.list(LOG_DIRECTORY))))

    def _decide(self, files: OldFiles, now_ms: int) -> Decision:
        """Decide, commit the horizon, and look once more at what was committed meanwhile."""

        def attempt() -> Decision:
            reader, known = self._log.reader, self._decision
            cutoff_ms = now_ms - self.ages.data_ms
            decision = decide(reader, files, cutoff_ms) if known is None else catch_up(reader, files, known)
            self._decision = decision
            if files and decision.allows_deleting(now_ms, self.ages) and not self._dry_run:
                self._commit(decision)
                return catch_up(reader, files, decision)
            return decision

        retrying = tenacity.Retrying(
            stop=self._has_tried_enough,
            wait=commit_backoff(self._config, self._log.clock),
            retry=tenacity.retry_if_exception_type((_MovedError, ObjectNotFoundError, UnreadVersionError)),
            sleep=self._log.clock.sleep,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except _MovedError as error:
            raise CommitConflictError(
                f"cannot purge `{self._log.url}` because others were always first to commit",
                hint="nothing was deleted; run it again, or raise `transaction.retry.maxAttempts`",
            ) from error

    def _has_tried_enough(self, state: tenacity.RetryCallState) -> bool:
        """A damaged log stays damaged, while one that is cleaned up meanwhile is soon read from a later version."""
        most = self._config[settings.TRANSACTION_RETRY_MAX_ATTEMPTS]
        unread = state.outcome is not None and isinstance(state.outcome.exception(), UnreadVersionError)
        return state.attempt_number >= (min(most, _READS_OF_LOG) if unread else most)

    def _commit(self, decision: Decision) -> None:
        if not decision.moves_horizon:
            return
        try:
            self._log.commit(MoveHorizon(decision.horizon, if_version=decision.newest.version))
        except CommitConflictError as error:
            raise _MovedError(error.message) from error

    def _delete_data(self, found: list[OldFile]) -> None:
        outcome = self._outcome
        chosen = found[: self._config[settings.PURGE_MAX_FILES_TO_DELETE]]
        outcome.num_found, outcome.num_left = len(found), len(found) - len(chosen)
        if self._dry_run:
            outcome.num_bytes = sum(file.size for file in chosen)
            return
        sizes = {file.key: file.size for file in chosen}
        done, why = 0, ""
        for keys, failed in delete_files(self._log, list(sizes), self._config):
            done += len(keys)
            outcome.num_bytes += sum(map(sizes.__getitem__, set(keys) - set(failed.keys)))
            outcome.num_failed += len(failed.keys)
            why = why or failed.message
            report(_DELETING, done, len(chosen))
        outcome.num_deleted = done - outcome.num_failed
        if outcome.num_failed:
            outcome.problems.append(f"{outcome.num_failed} data files could not be deleted: {why}")

    def _clean_up(self, now_ms: int) -> None:
        """Versions, states, checkpoints and manifests; data files are gone then, whatever happens here."""
        checkpointer = self._log.checkpointer
        if checkpointer is None:
            return
        checkpointer.wait()
        dry_run = self._dry_run or self._config[settings.CLEANUP_DRY_RUN]
        try:
            cleaned = checkpointer.cleaner.purge(self.ages.log, now_ms=now_ms, dry_run=dry_run)
        except StorageError as error:
            self._outcome.problems.append(f"the log was not cleaned up: {error.message}")
            return
        if dry_run == self._dry_run:
            self._outcome.cleaned = cleaned


class _MovedError(IndexTablesError):
    """The table has moved since it was looked at: look again."""
