"""Purge: delete data files, then log files, that no retained version needs.

Log files are versions, states, checkpoints and manifests. The horizon is committed before any file is deleted, and the
commit fails if the table has changed since it was read. So a concurrent restore of an old version either sees the
horizon or is seen. The next purge deletes the files that a dying purge leaves.

Files are deleted in batches that are spread over workers and retried. Failures are counted.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import tenacity

from indextables.config import Config, settings
from indextables.errors import CommitConflictError, IndexTablesError, ObjectNotFoundError, StorageError
from indextables.log.commit.operations import MoveHorizon
from indextables.log.commit.put import commit_backoff
from indextables.log.store_clock import delete_probes, store_time_ms
from indextables.maintain.one_row import answer_schema, one_row
from indextables.maintain.purge.purge_plan import (
    Decision,
    OldFile,
    OldFiles,
    UnreadVersionError,
    catch_up,
    decide,
    list_old_files,
)
from indextables.maintain.purge.retention_ages import Age, Ages
from indextables.maintain.workers import workers_for
from indextables.protocol.names import LOG_DIRECTORY
from indextables.runtime.progress import report
from indextables.state.cleanup.clean_up import CleanedUp
from indextables.store import ObjectMeta, ObjectStore
from indextables.transaction_log import TransactionLog

KEYS_PER_BATCH = 1000
_MOST_FAILURES = 10


class Failed(NamedTuple):
    """The files of a batch that were not deleted, and the reason."""

    keys: Sequence[str] = ()
    message: str = ""


def delete_files(log: TransactionLog, keys: Sequence[str], config: Config) -> Iterator[tuple[Sequence[str], Failed]]:
    """Delete files; yield each batch and its failures as they arrive."""
    batches = [keys[start : start + KEYS_PER_BATCH] for start in range(0, len(keys), KEYS_PER_BATCH)]
    work = functools.partial(_delete_batch, log, config)
    for place, failed in workers_for(log).run(work, batches, at_once=config[settings.PURGE_PARALLELISM]):
        yield batches[place], failed


def _delete_batch(log: TransactionLog, config: Config, keys: Sequence[str]) -> Failed:
    """Delete a batch; after repeated failures delete its files one by one.

    So one bad file does not keep the others.
    """
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(1 + config[settings.PURGE_DELETE_RETRIES]),
        wait=commit_backoff(config, log.clock),
        retry=tenacity.retry_if_exception_type(StorageError),
        sleep=log.clock.sleep,
        reraise=True,
    )
    try:
        retrying(log.reader.store.delete_many, keys)
    except StorageError:
        return _delete_one_by_one(log.reader.store, keys)
    return Failed()


def _delete_one_by_one(store: ObjectStore, keys: Sequence[str]) -> Failed:
    """Delete files one by one; give up after too many failures.

    By then the store, or its files, must be out of reach.
    """
    failed: list[str] = []
    message = ""
    for place, key in enumerate(keys):
        try:
            store.delete(key)
        except StorageError as error:
            message = message or error.message
            failed.append(key)
        if len(failed) >= _MOST_FAILURES:
            return Failed([*failed, *keys[place + 1 :]], message)
    return Failed(failed, message)


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
    """Delete data files that no version of the last `older_than` needs.

    Also deletes log files older than `log_retention`. Returns one row with the numbers of files found and deleted; a
    dry run reports the files it would delete.
    """
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
    """Results of a purge; `num_bytes` and `cleaned` of a dry run are its plan."""

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
        self._has_committed = False
        self._outcome = _Outcome(dry_run)

    def run(self) -> _Outcome:
        self._log.wait_for_checkpoint()
        now_ms = self._now_ms()
        listed = list_old_files(self._store, now_ms, self.ages.data_ms)
        decision = self._decide(listed.files, now_ms)
        found = listed.files.oldest_first() if decision.allows_deleting(now_ms, self.ages) else []
        self._delete_data(found)
        if listed.probes and not self._dry_run:
            delete_probes(self._store, listed.probes)
        # After a commit or a deletion, which may take long, the log is listed again: a checkpoint may be new.
        self._clean_up(now_ms, () if found or self._has_committed else decision.log_files)
        return self._outcome

    def _now_ms(self) -> int:
        """Return the time of the store's clock.

        A dry run puts no probe: it takes the later of the host's time and the time of the youngest log file.
        """
        if not self._dry_run:
            return store_time_ms(self._store, self._log.clock)
        return max((self._log.clock.now_ms(), *(meta.modified_ms for meta in self._store.list(LOG_DIRECTORY))))

    def _decide(self, files: OldFiles, now_ms: int) -> Decision:
        """Decide, commit the horizon, and catch up with concurrent commits."""

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
                f"cannot purge `{self._log.url}` because other writers committed first in every attempt",
                hint="nothing was deleted; run it again, or raise `transaction.retry.maxAttempts`",
            ) from error

    def _has_tried_enough(self, state: tenacity.RetryCallState) -> bool:
        """Limit the attempts; an unreadable version gets fewer.

        A damaged log stays damaged, while a log under clean-up soon starts at a later version.
        """
        most = self._config[settings.TRANSACTION_RETRY_MAX_ATTEMPTS]
        unread = state.outcome is not None and isinstance(state.outcome.exception(), UnreadVersionError)
        return state.attempt_number >= (min(most, _READS_OF_LOG) if unread else most)

    def _commit(self, decision: Decision) -> None:
        if not decision.moves_horizon:
            return
        self._has_committed = True
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

    def _clean_up(self, now_ms: int, log_files: Sequence[ObjectMeta]) -> None:
        """Delete versions, states, checkpoints and manifests.

        The data files are deleted before, so a failure here is only reported.
        """
        checkpointer = self._log.checkpointer
        if checkpointer is None:
            return
        checkpointer.wait()
        dry_run = self._dry_run or self._config[settings.CLEANUP_DRY_RUN]
        try:
            cleaned = checkpointer.cleaner.purge(self.ages.log, now_ms=now_ms, dry_run=dry_run, listed=log_files)
        except StorageError as error:
            self._outcome.problems.append(f"the log was not cleaned up: {error.message}")
            return
        if dry_run == self._dry_run:
            self._outcome.cleaned = cleaned


class _MovedError(IndexTablesError):
    """The table has changed since it was read; read it again."""
