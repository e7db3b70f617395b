"""Merge splits and purge files after a write, as the settings ask.

This never fails a write: errors are logged and shown by `list_merge_jobs`. It runs in the background if the settings
allow it. Commits of merges and purges trigger no further work.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections import Counter

from indextables.config import Config, settings
from indextables.errors import IndexTablesError
from indextables.log.skips import in_cooldown, without_paths
from indextables.log.snapshot import Snapshot
from indextables.maintain.merge.merge_jobs import FAILED, NO_ACTION, PARTIAL, SUCCESS, merge_job
from indextables.maintain.merge.merge_plan import MergeGroup, MergeLimits, plan_merge
from indextables.maintain.merge.merge_splits import Merged, merge_groups
from indextables.maintain.purge.purge import purge
from indextables.maintain.workers import InlineWorkers, LocalWorkers, Workers, workers_for, working_with
from indextables.runtime.background import BACKGROUND
from indextables.runtime.cancellation import Cancellation, cancelled_by
from indextables.runtime.pools import InlinePools
from indextables.store import ObjectStore
from indextables.store.cancellable import CancellableStore
from indextables.transaction_log import TransactionLog

logger = logging.getLogger(__name__)


def is_looked_after(config: Config) -> bool:
    """Return whether the settings ask for work after writes."""
    return config[settings.MERGE_ON_WRITE_ENABLED] or config[settings.PURGE_ON_WRITE_ENABLED]


def after_write(log: TransactionLog, *, background: bool = True) -> bool:
    """Merge and purge as the settings ask; call it after each commit of rows.

    The work runs in the background if the settings allow it. `background` is False in processes that end with the
    write. Return whether there was work: then another handle may have moved the table on.
    """
    try:
        config = log.config_in_force()
        if not is_looked_after(config):
            return False
        num_writes = _writes.count(log.url)
        every = config[settings.PURGE_ON_WRITE_TRIGGER_AFTER_WRITES]
        if not config[settings.MERGE_ON_WRITE_ENABLED] and not 0 < every <= num_writes:
            return False
        if background and config[settings.MERGE_ON_WRITE_ASYNC_ENABLED]:
            wait_seconds = config[settings.MERGE_ON_WRITE_SHUTDOWN_TIMEOUT_MS] / 1000
            BACKGROUND.begin(log.url, functools.partial(_in_background, log, config), wait_seconds=wait_seconds)
        else:
            BACKGROUND.run_here(log.url, lambda _: _look_after(log, log, config))
    except IndexTablesError as error:
        logger.warning("nothing is done after a write to `%s`: %s", log.url, error.message)
    except Exception:
        logger.exception("nothing is done after a write to `%s`, because of an unexpected error", log.url)
    return True


def _in_background(log: TransactionLog, config: Config, cancellation: Cancellation) -> None:
    store = CancellableStore(log.reader.store, cancellation)
    at_work = _LogAtWork(log, store)
    with cancelled_by(cancellation), working_with(_background_workers(at_work)):
        _look_after(log, at_work, config)


class _LogAtWork(TransactionLog):
    """A handle of the same table with a cancellable store.

    A copy in another process uses the ordinary store.
    """

    def __init__(self, log: TransactionLog, store: ObjectStore) -> None:
        super().__init__(log.url, options=log.options, store=store, clock=log.clock, pools=InlinePools())
        self._is_portable = log.is_portable


def _background_workers(log: TransactionLog) -> Workers:
    """Return Spark's workers, or this thread if there are none.

    The writer continues and needs the cores, and processes could not be ended with the interpreter.
    """
    offered = workers_for(log)
    return InlineWorkers() if isinstance(offered, LocalWorkers) else offered


def _look_after(log: TransactionLog, at_work: TransactionLog, config: Config) -> None:
    """Merge, then purge.

    The handle that knows the table makes the plans; another handle does the work.
    """
    has_merged = False
    try:
        if config[settings.MERGE_ON_WRITE_ENABLED]:
            has_merged = _merge(log, at_work, config)
    except IndexTablesError as error:
        logger.warning("splits of `%s` are not merged, the next write tries again: %s", log.url, error.message)
    except Exception:
        logger.exception("splits of `%s` are not merged, because of an unexpected error", log.url)
    try:
        if config[settings.PURGE_ON_WRITE_ENABLED] and _is_purge_due(log.url, config, has_merged=has_merged):
            _purge(at_work, config)
    except IndexTablesError as error:
        logger.warning("files of `%s` are not purged: %s", log.url, error.message)
    except Exception:
        logger.exception("files of `%s` are not purged, because of an unexpected error", log.url)


def _merge(log: TransactionLog, at_work: TransactionLog, config: Config) -> bool:
    """Merge if there is enough to merge; return whether the number of splits fell."""
    with merge_job(log) as job:
        snapshot = log.reader.newest_snapshot()[1]
        groups = _groups(log, snapshot, config)
        if len(groups) < config[settings.MERGE_ON_WRITE_MIN_BATCHES_TO_TRIGGER]:
            return False
        job.begin(len(groups))
        at_once = config[settings.MERGE_ON_WRITE_MAX_CONCURRENT_BATCHES]
        merged = merge_groups(at_work, snapshot, groups, at_once=at_once, on_done=job.complete)
        job.end(_status(merged), "; ".join(merged.messages) or None)
    if merged.messages:
        logger.warning("some splits of `%s` are not merged: %s", log.url, "; ".join(merged.messages))
    return merged.merged_files > 0


def _groups(log: TransactionLog, snapshot: Snapshot, config: Config) -> list[MergeGroup]:
    limits = MergeLimits(
        target_bytes=config[settings.MERGE_ON_WRITE_TARGET_SIZE],
        skip_share=config[settings.MERGE_SKIP_SPLIT_THRESHOLD],
        max_sources=config[settings.MERGE_MAX_SOURCE_SPLITS_PER_MERGE],
        is_balanced=True,
    )
    left_alone = in_cooldown(snapshot.skips.values(), log.clock.now_ms())
    return plan_merge(without_paths(snapshot.files, left_alone), limits)


def _status(merged: Merged) -> str:
    if merged.merged_files:
        return PARTIAL if merged.messages else SUCCESS
    return FAILED if merged.skipped_files else NO_ACTION


def _is_purge_due(table: str, config: Config, *, has_merged: bool) -> bool:
    every = config[settings.PURGE_ON_WRITE_TRIGGER_AFTER_WRITES]
    after_merge = has_merged and config[settings.PURGE_ON_WRITE_TRIGGER_AFTER_MERGE]
    return _writes.take(table, every) or after_merge


def _purge(log: TransactionLog, config: Config) -> None:
    """Purge; a failure is listed as a job."""
    with merge_job(log):
        purge(
            log,
            older_than=f"{config[settings.PURGE_ON_WRITE_SPLIT_RETENTION_HOURS]} hours",
            log_retention=f"{config[settings.PURGE_ON_WRITE_TX_LOG_RETENTION_HOURS]} hours",
        )


class _Writes:
    """Number of writes to each table by this process since its last counted purge."""

    def __init__(self) -> None:
        self.forget()

    def count(self, table: str) -> int:
        """Count one more write."""
        with self._lock:
            self._numbers[table] += 1
            return self._numbers[table]

    def take(self, table: str, every: int) -> bool:
        """Return whether `every` writes were counted, and reset the count; 0 means never."""
        with self._lock:
            if not every or self._numbers[table] < every:
                return False
            self._numbers[table] = 0
            return True

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._numbers: Counter[str] = Counter()


_writes = _Writes()
os.register_at_fork(after_in_child=_writes.forget)
