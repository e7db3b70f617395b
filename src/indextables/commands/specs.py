"""The table of commands: syntax, schema of the answer, and implementation of each.

SQL, the command line and the methods of `Table` share these implementations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from indextables.errors import ConfigError
from indextables.log.history import HISTORY_SCHEMA
from indextables.maintain.caches import FLUSHED_SCHEMA, INVALIDATED_SCHEMA, flush_searchers, invalidate_logs
from indextables.maintain.checkpoint import CHECKPOINT_SCHEMA, make_checkpoint
from indextables.maintain.describe import LOG_SCHEMA, STATE_SCHEMA, describe_log, describe_state
from indextables.maintain.drop_partitions import DROPPED_SCHEMA, drop_partitions
from indextables.maintain.merge.merge_jobs import MERGE_JOBS_SCHEMA, list_merge_jobs
from indextables.maintain.merge.merge_splits import MERGED_SCHEMA, merge_splits
from indextables.maintain.prewarm import PREWARMED_SCHEMA, prewarm
from indextables.maintain.purge.purge import PURGED_SCHEMA, purge
from indextables.maintain.reindex import REINDEXED_SCHEMA, reindex
from indextables.maintain.repair.repair import REPAIR_SCHEMA, repair
from indextables.maintain.restore import RESTORED_SCHEMA, restore
from indextables.maintain.truncate import TRUNCATED_SCHEMA, truncate_time_travel
from indextables.transaction_log import TransactionLog

Options = Mapping[str, Any]
_Work = Callable[..., pa.Table]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """One command: `name` is its method of `Table`, `deed` follows the word *cannot*.

    `work` takes the log of the table and the arguments. The work of a command that needs no table takes the address, or
    None, and the options instead.
    """

    name: str
    usage: str
    example: str
    help: str
    deed: str
    schema: pa.Schema
    work: _Work
    needs_table: bool = True

    def run(self, url: str | None, arguments: Mapping[str, Any], options: Options) -> pa.Table:
        """Run the command on the table at an address, and return a table of `schema`."""
        if not self.needs_table:
            return self.work(url, options, **arguments)
        if url is None:
            raise ConfigError(f"cannot {self.deed} because no table is named", hint=f"as in `{self.example}`")
        return self.work(TransactionLog(url, options=options), **arguments)


def _history(log: TransactionLog, *, limit: int | None = None) -> pa.Table:
    return log.history(limit=limit)


def _merge_jobs(url: str | None, options: Options) -> pa.Table:
    return list_merge_jobs()


def _repair(url: str | None, options: Options, *, target_url: str | None = None) -> pa.Table:
    if url is None:
        raise ConfigError("cannot repair a transaction log because no table is named")
    return repair(url, target_url, options)


def _invalidate_cache(url: str | None, options: Options) -> pa.Table:
    return invalidate_logs(url)


def _flush_search_cache(url: str | None, options: Options) -> pa.Table:
    return flush_searchers(options)


_ALL = (
    Spec(
        name="checkpoint",
        usage="CHECKPOINT INDEXTABLES t",
        example="CHECKPOINT INDEXTABLES '/data/logs'",
        help="Compact the newest version into a checkpoint, so that the table opens fast.",
        deed="write a checkpoint",
        schema=CHECKPOINT_SCHEMA,
        work=make_checkpoint,
    ),
    Spec(
        name="compact",
        usage="COMPACT INDEXTABLES t",
        example="COMPACT INDEXTABLES '/data/logs'",
        help="The same as CHECKPOINT.",
        deed="write a checkpoint",
        schema=CHECKPOINT_SCHEMA,
        work=make_checkpoint,
    ),
    Spec(
        name="truncate_time_travel",
        usage="TRUNCATE INDEXTABLES TIME TRAVEL t [DRY RUN]",
        example="TRUNCATE INDEXTABLES TIME TRAVEL '/data/logs' DRY RUN",
        help="Give up all versions but the newest.",
        deed="truncate time travel",
        schema=TRUNCATED_SCHEMA,
        work=truncate_time_travel,
    ),
    Spec(
        name="purge",
        usage="PURGE INDEXTABLES t [OLDER THAN n DAYS|HOURS] [TRANSACTION LOG RETENTION n DAYS|HOURS] [DRY RUN]",
        example="PURGE INDEXTABLES '/data/logs' OLDER THAN 7 DAYS DRY RUN",
        help="Delete files that no retained version needs.",
        deed="purge files",
        schema=PURGED_SCHEMA,
        work=purge,
    ),
    Spec(
        name="state",
        usage="DESCRIBE INDEXTABLES STATE t",
        example="DESCRIBE INDEXTABLES STATE '/data/logs'",
        help="The newest state or checkpoint, and whether it should be compacted.",
        deed="describe the state",
        schema=STATE_SCHEMA,
        work=describe_state,
    ),
    Spec(
        name="describe_log",
        usage="DESCRIBE INDEXTABLES TRANSACTION LOG t [INCLUDE ALL]",
        example="DESCRIBE INDEXTABLES TRANSACTION LOG '/data/logs' INCLUDE ALL",
        help="The actions of the log: the active ones, or all of them.",
        deed="describe the transaction log",
        schema=LOG_SCHEMA,
        work=describe_log,
    ),
    Spec(
        name="history",
        usage="DESCRIBE INDEXTABLES HISTORY t [LIMIT n]",
        example="DESCRIBE INDEXTABLES HISTORY '/data/logs' LIMIT 10",
        help="Who changed the table, when and how, the newest version first.",
        deed="describe the history",
        schema=HISTORY_SCHEMA,
        work=_history,
    ),
    Spec(
        name="merge_jobs",
        usage="DESCRIBE INDEXTABLES MERGE JOBS",
        example="DESCRIBE INDEXTABLES MERGE JOBS",
        help="The merges that writes of this process have started, the newest first.",
        deed="describe the merge jobs",
        schema=MERGE_JOBS_SCHEMA,
        work=_merge_jobs,
        needs_table=False,
    ),
    Spec(
        name="repair",
        usage="REPAIR INDEXFILES TRANSACTION LOG 'table or log' [AT LOCATION 'log']",
        example="REPAIR INDEXFILES TRANSACTION LOG '/data/logs' AT LOCATION '/data/mended'",
        help="Check a log against its splits, and write a clean one.",
        deed="repair a transaction log",
        schema=REPAIR_SCHEMA,
        work=_repair,
        needs_table=False,
    ),
    Spec(
        name="merge_splits",
        usage="MERGE SPLITS t [WHERE p] [TARGET SIZE s] [MAX DEST SPLITS n] [MAX SOURCE SPLITS PER MERGE n] [DRY RUN]",
        example="MERGE SPLITS '/data/logs' WHERE day = '2026-01-31' TARGET SIZE 1G",
        help="Merge many small splits into few large ones.",
        deed="merge splits",
        schema=MERGED_SCHEMA,
        work=merge_splits,
    ),
    Spec(
        name="reindex",
        usage="REINDEX INDEXTABLES t [WHERE p] [SPLIT 'path'] [DRY RUN]",
        example="REINDEX INDEXTABLES '/data/logs' WHERE day = '2026-01-31'",
        help="Index splits again if their indexes differ from the table's settings.",
        deed="reindex splits",
        schema=REINDEXED_SCHEMA,
        work=reindex,
    ),
    Spec(
        name="drop_partitions",
        usage="DROP INDEXTABLES PARTITIONS FROM t WHERE p",
        example="DROP INDEXTABLES PARTITIONS FROM '/data/logs' WHERE day < '2026-01-01'",
        help="Remove the partitions that match a predicate.",
        deed="drop partitions",
        schema=DROPPED_SCHEMA,
        work=drop_partitions,
    ),
    Spec(
        name="restore",
        usage="RESTORE INDEXTABLES t TO VERSION n | TO TIMESTAMP 'ts'",
        example="RESTORE INDEXTABLES '/data/logs' TO VERSION 3",
        help="Make an earlier version the newest.",
        deed="restore a version",
        schema=RESTORED_SCHEMA,
        work=restore,
    ),
    Spec(
        name="invalidate_cache",
        usage="INVALIDATE INDEXTABLES TRANSACTION LOG CACHE [FOR t]",
        example="INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR '/data/logs'",
        help="Clear this process's cache of a table's log, or of all logs.",
        deed="invalidate caches",
        schema=INVALIDATED_SCHEMA,
        work=_invalidate_cache,
        needs_table=False,
    ),
    Spec(
        name="flush_search_cache",
        usage="FLUSH INDEXTABLES SEARCHER CACHE",
        example="FLUSH INDEXTABLES SEARCHER CACHE",
        help="Close the splits that this process has open, and remove extracted indexes from local disk.",
        deed="flush the searcher cache",
        schema=FLUSHED_SCHEMA,
        work=_flush_search_cache,
        needs_table=False,
    ),
    Spec(
        name="prewarm",
        usage="PREWARM INDEXTABLES CACHE t [WHERE p]",
        example="PREWARM INDEXTABLES CACHE '/data/logs' WHERE day = '2026-01-31'",
        help="Fetch indexes into the local cache of this machine, before they are asked.",
        deed="prewarm the cache",
        schema=PREWARMED_SCHEMA,
        work=prewarm,
    ),
)
COMMANDS: dict[str, Spec] = {spec.name: spec for spec in _ALL}
