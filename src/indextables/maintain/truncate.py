"""Truncate time travel: drop all versions but the newest.

A compacted checkpoint of the newest version is written first. No data file is deleted: a purge deletes the files that
only old versions needed.
"""

from __future__ import annotations

import pyarrow as pa
import tenacity

from indextables.config import Config, settings
from indextables.errors import CheckpointValidationError, CheckpointWriteError, ConfigError
from indextables.log.commit.put import backoff
from indextables.maintain.one_row import answer_schema, one_row
from indextables.state.cleanup.clean_up import CleanedUp, Cleaner
from indextables.state.cleanup.retention import Plan, Retention, before_version
from indextables.transaction_log import TransactionLog

TRUNCATED_SCHEMA = answer_schema(
    table_path=pa.string(),
    status=pa.string(),
    checkpoint_version=pa.int64(),
    versions_deleted=pa.int64(),
    checkpoints_deleted=pa.int64(),
    files_preserved=pa.int64(),
    message=pa.string(),
)


def truncate_time_travel(log: TransactionLog, *, dry_run: bool = False) -> pa.Table:
    """Delete all versions, states and checkpoints before the newest version.

    A checkpoint of the newest version is written and read back first. Returns one row with the numbers of files
    deleted, or to be deleted.
    """
    if log.checkpointer is None:
        raise ConfigError("cannot truncate a log because the caller supplies its states")
    cleaner = log.checkpointer.cleaner
    return _would_truncate(log, cleaner) if dry_run else _truncate(log, cleaner)


def _would_truncate(log: TransactionLog, cleaner: Cleaner) -> pa.Table:
    snapshot = log.snapshot()
    plan = before_version(cleaner.look(), snapshot.version)
    return _answer(log, snapshot.version, plan, "DRY_RUN", "would delete")


def _truncate(log: TransactionLog, cleaner: Cleaner) -> pa.Table:
    config = log.config_in_force()
    before = cleaner.look()
    version, cleaned = _several_times(log, cleaner, config)
    left = before_version(cleaner.look(), version)
    # The checkpoint may have triggered a clean-up: this command counts its deletions too.
    known = before_version(before, version)
    gone = Plan(
        [*{*known.versions, *cleaned.versions}.difference(left.versions)],
        dict.fromkeys({*known.checkpoints, *cleaned.checkpoints}.difference(left.checkpoints), ()),
    )
    if cleaned.num_failed:
        return _answer(log, version, gone, "PARTIAL", f"{cleaned.num_failed} files could not be deleted; deleted")
    return _answer(log, version, gone, "SUCCESS" if gone.versions or gone.checkpoints else "NO_ACTION", "deleted")


def _several_times(log: TransactionLog, cleaner: Cleaner, config: Config) -> tuple[int, CleanedUp]:
    """Write the checkpoint and truncate, with retries.

    A concurrent truncation at a later version may delete this version or its checkpoint. Then a newer checkpoint has to
    be written.
    """
    retention = Retention.of(config)

    def attempt() -> tuple[int, CleanedUp]:
        version = log.checkpoint().version
        return version, cleaner.truncate(version, retention)

    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(config[settings.STATE_RETRY_MAX_ATTEMPTS]),
        wait=backoff(config[settings.STATE_RETRY_BASE_DELAY_MS], config[settings.STATE_RETRY_MAX_DELAY_MS], log.clock),
        retry=tenacity.retry_if_exception_type((CheckpointValidationError, CheckpointWriteError)),
        sleep=log.clock.sleep,
        reraise=True,
    )
    return retrying(attempt)


def _answer(log: TransactionLog, version: int, gone: Plan, status: str, deed: str) -> pa.Table:
    row = {
        "table_path": log.url,
        "status": status,
        "checkpoint_version": version,
        "versions_deleted": len(gone.versions),
        "checkpoints_deleted": len(gone.checkpoints),
        "files_preserved": log.snapshot().num_files,
        "message": f"{deed} {len(gone.versions)} versions and {len(gone.checkpoints)} states and checkpoints before "
        f"version {version}",
    }
    return one_row(TRUNCATED_SCHEMA, row)
