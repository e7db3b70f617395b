"""Merge splits: combine many small ones into few large ones with the same rows.

New splits are put first and committed later. Until the commit, or if it never happens, the table is unchanged. A group
that lost a split to another writer meanwhile is given up, and its new split is deleted.

Any process that can reach the store can combine a group. A split that cannot be read is left out, and the others are
combined without it. The commit records it as skipped: it stays in the table, and merges leave it alone until its
cooldown ends. Other errors are returned instead of raised, so that they end one group only.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from indextables.config import Config, settings
from indextables.errors import CommitConflictError, ConfigError, CorruptSplitError, IndexTablesError
from indextables.location import redact
from indextables.log.commit.conflict import with_configuration
from indextables.log.commit.operations import RecordSkip, Replace, Replacement
from indextables.log.skips import in_cooldown, without_paths
from indextables.log.snapshot import Head, Snapshot
from indextables.maintain.merge.merge_plan import MergeGroup, MergeLimits, plan_merge
from indextables.maintain.one_row import answer_schema, one_row
from indextables.maintain.workers import InlineWorkers, LocalWorkers, Workers, workers_for
from indextables.protocol.actions import Add
from indextables.protocol.doc_mapping import without_registry
from indextables.prune.partitions import PartitionChoice
from indextables.runtime.progress import report
from indextables.split.combine import BadSourcesError, combine_splits
from indextables.transaction_log import TransactionLog
from indextables.writer.split_rows import commit_splits, delete_splits

_MOST_REASON_CHARACTERS = 1_000


class BadSource(NamedTuple):
    """A split that could not be read, and the reason."""

    source: Add
    reason: str


class Combined(NamedTuple):
    """Result of a group: the new split, its sources, bad sources, and the error.

    `error` is set if an error prevented the new split.
    """

    adds: tuple[Add, ...] = ()
    sources: tuple[Add, ...] = ()
    bad_sources: tuple[BadSource, ...] = ()
    error: Exception | None = None


def lean_head(head: Head) -> Head:
    """Drop the files and the doc mappings, which take most of the space, from a head."""
    metadata = with_configuration(head.metadata, without_registry(head.metadata.configuration))
    return Head(head.version, head.timestamp_ms, head.txn_id, head.protocol, metadata)


def combine_group(log: TransactionLog, head: Head, group: MergeGroup, *, fewest_sources: int = 2) -> Combined:
    """Put one split with the rows of a group into the store.

    The split belongs to no table until it is committed.
    """
    sources, bad_sources = group.sources, []
    while len(sources) >= fewest_sources:
        try:
            add = _combine(log, head, group, sources)
        except BadSourcesError as error:
            causes = {path: redact(cause.message)[:_MOST_REASON_CHARACTERS] for path, cause in error.causes.items()}
            bad_sources += [BadSource(source, causes[source.path]) for source in sources if source.path in causes]
            sources = tuple(source for source in sources if source.path not in causes)
        except (IndexTablesError, OSError, pa.ArrowException) as error:
            return Combined(bad_sources=tuple(bad_sources), error=error)
        else:
            return Combined((add,), sources, tuple(bad_sources))
    return Combined(bad_sources=tuple(bad_sources))


def _combine(log: TransactionLog, head: Head, group: MergeGroup, sources: Sequence[Add]) -> Add:
    add = combine_splits(
        log.reader.store,
        sources,
        head.schema,
        log.config.with_properties(head.metadata.configuration),
        partition_columns=head.partition_columns,
        partition_values=group.partition_values,
        clock=log.clock,
    )
    counts = [source.num_records for source in sources if source.num_records is not None]
    if len(counts) == len(sources) and add.num_records != sum(counts):
        delete_splits(log.reader.store, [add])
        raise CorruptSplitError(
            f"cannot merge splits of {sum(counts)} rows because the new split has {add.num_records}"
        )
    return add


logger = logging.getLogger(__name__)

MERGED_SCHEMA = answer_schema(
    table_path=pa.string(),
    status=pa.string(),
    merged_files=pa.int64(),
    merge_groups=pa.int64(),
    original_size_bytes=pa.int64(),
    merged_size_bytes=pa.int64(),
    skipped_files=pa.int64(),
    message=pa.string(),
)

_COOLDOWN_HOURS = 24
_COOLDOWN_MS = _COOLDOWN_HOURS * 3_600_000
_MOST_REASONS = 3
_LEAST_BYTES_FOR_PROCESSES = 8 << 20


class Rewriting(NamedTuple):
    """An operation that replaces splits by new ones with the same rows.

    `name` appears in the history, `doing` in progress bars and `done` in messages. A group with fewer than
    `fewest_sources` splits is left alone.
    """

    name: str
    doing: str
    done: str
    fewest_sources: int


MERGING = Rewriting("MERGE", "merging splits", "merged", 2)


class Merged(NamedTuple):
    """Results of a merge, and messages about its failures.

    The version is the last one that the merge committed.
    """

    version: int | None = None
    merged_files: int = 0
    merge_groups: int = 0
    original_size_bytes: int = 0
    merged_size_bytes: int = 0
    skipped_files: int = 0
    messages: tuple[str, ...] = ()


def merge_splits(
    log: TransactionLog,
    *,
    where: str | None = None,
    target_size: int | str | None = None,
    max_dest_splits: int | None = None,
    max_source_splits_per_merge: int | None = None,
    dry_run: bool = False,
) -> pa.Table:
    """Merge many small splits into few large ones, and report it in one row.

    `where` is a predicate on partition columns. With `dry_run`, report the plan and change nothing; the size of the new
    splits is unknown then.
    """
    snapshot = log.reader.snapshot()
    limits = _limits(log.config_in_force(), target_size, max_dest_splits, max_source_splits_per_merge)
    files = snapshot.files if where is None else PartitionChoice(where, snapshot).files(snapshot)
    resting = in_cooldown(snapshot.skips.values(), log.clock.now_ms())
    candidates = without_paths(files, resting)
    num_resting = files.num_rows - candidates.num_rows
    notes = [f"{counted(num_resting, 'split')} left alone, as the cooldown has not ended"] if num_resting else []
    groups = plan_merge(candidates, limits)
    if not groups:
        return _answer(log, "NO_ACTION", Merged(), ["there is nothing to merge", *notes])
    if dry_run:
        return _answer(log, "DRY_RUN", _planned(groups), ["nothing was changed", *notes])
    merged = merge_groups(log, snapshot, groups)
    return _answer(log, status_of(merged), merged, [*merged.messages, *notes])


def merge_groups(
    log: TransactionLog,
    snapshot: Snapshot,
    groups: Sequence[MergeGroup],
    *,
    rewriting: Rewriting = MERGING,
    at_once: int | None = None,
    on_done: Callable[[int], None] = lambda done: None,
) -> Merged:
    """Merge groups that were planned on a snapshot, at most `at_once` at a time.

    Compacts the state if the settings ask for it. Calls `on_done` after each group with the number of finished groups.
    An error other than a damaged split ends only its group; it is raised if every group failed.
    """
    config = log.config_in_force()
    merge = _Merge(log, snapshot, rewriting, len(groups), config[settings.MERGE_BATCH_SIZE] or len(groups))
    work = functools.partial(combine_group, log, lean_head(snapshot), fewest_sources=rewriting.fewest_sources)
    results: Any = _workers(log, groups).run(work, groups, at_once=at_once)
    report(rewriting.doing, 0, len(groups))
    try:
        with contextlib.closing(results):
            for done, (place, combined) in enumerate(results, 1):
                merge.take(place, combined)
                report(rewriting.doing, done, len(groups))
                on_done(done)
    except BaseException:
        merge.undo()
        raise
    merged = merge.finish()
    if merged.merge_groups and config[settings.STATE_COMPACTION_AFTER_MERGE] and config[settings.CHECKPOINT_ENABLED]:
        _compact(log)
    return merged


class _Merge:
    """A merge in progress; commits its results in batches, in the order of the groups."""

    def __init__(
        self, log: TransactionLog, snapshot: Snapshot, rewriting: Rewriting, num_groups: int, batch_size: int
    ) -> None:
        self._log = log
        self._snapshot = snapshot
        self._rewriting = rewriting
        self._num_groups = num_groups
        self._batch_size = batch_size
        self._num_begun = 0
        self._waiting: dict[int, Combined] = {}
        self._merged = Merged()
        self._bad_sources: list[BadSource] = []
        self._errors: list[Exception] = []
        self._num_lost = 0

    def take(self, place: int, combined: Combined) -> None:
        """Take the result of a group, and commit all batches that are complete."""
        self._waiting[place] = combined
        while self._num_begun < self._num_groups:
            batch = range(self._num_begun, min(self._num_begun + self._batch_size, self._num_groups))
            if any(at not in self._waiting for at in batch):
                return
            self._num_begun = batch.stop
            self._commit([self._waiting.pop(at) for at in batch])

    def undo(self) -> None:
        """Delete the new splits whose commit has not begun."""
        delete_splits(self._log.reader.store, [add for one in self._waiting.values() for add in one.adds])

    def finish(self) -> Merged:
        """Return the results; raise the first error if every group failed."""
        if len(self._errors) == self._num_groups:
            raise self._errors[0]
        return self._merged._replace(skipped_files=len(self._bad_sources), messages=tuple(self._messages()))

    def _commit(self, batch: Sequence[Combined]) -> None:
        self._errors += [one.error for one in batch if one.error is not None]
        bad_sources = [bad for one in batch for bad in one.bad_sources]
        made = [one for one in batch if one.adds]
        if not made and not bad_sources:
            return
        groups = [Replacement(tuple(source.path for source in one.sources), one.adds) for one in made]
        name = self._rewriting.name
        skips = [_skip(bad, name.lower()) for bad in bad_sources]
        operation = Replace(groups, skips, made_for=self._snapshot, name=name)
        adds = [add for one in made for add in one.adds]
        store = self._log.reader.store
        try:
            result = commit_splits(store, adds, lambda: self._log.commit(operation))
        except CommitConflictError:
            if not self._have_all_lost(groups):
                raise
            self._num_lost += len(groups)
            return
        lost = [made[at] for at in result.dropped_groups]
        delete_splits(store, [add for one in lost for add in one.adds])
        self._num_lost += len(lost)
        self._bad_sources += bad_sources
        self._count(result.version, [one for at, one in enumerate(made) if at not in result.dropped_groups])

    def _have_all_lost(self, groups: Sequence[Replacement]) -> bool:
        """Return whether other writers removed a split of every group."""
        live = self._log.reader.snapshot().live_files.contains(path for group in groups for path in group.removed_paths)
        return not any(all(live[path] for path in group.removed_paths) for group in groups)

    def _count(self, version: int, kept: Sequence[Combined]) -> None:
        before = self._merged
        self._merged = Merged(
            version,
            before.merged_files + sum(len(one.sources) for one in kept),
            before.merge_groups + len(kept),
            before.original_size_bytes + sum(source.size for one in kept for source in one.sources),
            before.merged_size_bytes + sum(add.size for one in kept for add in one.adds),
        )

    def _messages(self) -> Iterator[str]:
        if self._bad_sources:
            reasons = _few([bad.reason for bad in self._bad_sources])
            yield f"{counted(len(self._bad_sources), 'split')} skipped for {_COOLDOWN_HOURS} hours: {reasons}"
        if self._errors:
            reasons = _few([redact(str(error)) for error in self._errors])
            yield f"{counted(len(self._errors), self._part)} not {self._rewriting.done}: {reasons}"
        if self._num_lost:
            lost = "given up because other writers removed splits to be"
            yield f"{counted(self._num_lost, self._part)} {lost} {self._rewriting.done}"

    @property
    def _part(self) -> str:
        return "split" if self._rewriting.fewest_sources == 1 else "group"


def _limits(
    config: Config, target_size: int | str | None, max_dest_splits: int | None, max_source_splits_per_merge: int | None
) -> MergeLimits:
    given = {
        settings.MERGE_TARGET_SIZE.key: target_size,
        settings.MERGE_MAX_SOURCE_SPLITS_PER_MERGE.key: max_source_splits_per_merge,
    }
    asked = Config.resolve(options={key: value for key, value in given.items() if value is not None})
    if max_dest_splits is not None and max_dest_splits < 1:
        raise ConfigError(f"cannot merge into `{max_dest_splits}` splits: expected at least 1")
    return MergeLimits(
        (config if target_size is None else asked)[settings.MERGE_TARGET_SIZE],
        config[settings.MERGE_SKIP_SPLIT_THRESHOLD],
        (config if max_source_splits_per_merge is None else asked)[settings.MERGE_MAX_SOURCE_SPLITS_PER_MERGE],
        max_dest_splits,
    )


def _workers(log: TransactionLog, groups: Sequence[MergeGroup]) -> Workers:
    """Choose the workers: small merges end here before processes would have started."""
    workers = workers_for(log)
    is_little = sum(group.num_bytes for group in groups) < _LEAST_BYTES_FOR_PROCESSES
    return InlineWorkers() if is_little and isinstance(workers, LocalWorkers) else workers


def _skip(bad: BadSource, operation: str) -> RecordSkip:
    source = bad.source
    return RecordSkip(source.path, bad.reason, operation, source.partition_values, source.size, _COOLDOWN_MS)


def _compact(log: TransactionLog) -> None:
    if log.checkpointer is None:
        return
    try:
        log.checkpoint()
    except IndexTablesError as error:
        logger.warning("the state of `%s` was not compacted after a merge: %s", log.url, error.message)


def _planned(groups: Sequence[MergeGroup]) -> Merged:
    return Merged(
        merged_files=sum(len(group.sources) for group in groups),
        merge_groups=len(groups),
        original_size_bytes=sum(group.num_bytes for group in groups),
    )


def status_of(merged: Merged) -> str:
    if not merged.messages:
        return "SUCCESS"
    return "NO_ACTION" if merged.version is None else "PARTIAL"


def _few(reasons: Sequence[str]) -> str:
    """Join the first reasons, and count the rest."""
    more = [f"and {len(reasons) - _MOST_REASONS} more"] if len(reasons) > _MOST_REASONS else []
    return "; ".join([*reasons[:_MOST_REASONS], *more])


def counted(count: int, noun: str) -> str:
    return f"1 {noun} was" if count == 1 else f"{count} {noun}s were"


def _answer(log: TransactionLog, status: str, merged: Merged, messages: Sequence[str]) -> pa.Table:
    counts = {name: getattr(merged, name) for name in MERGED_SCHEMA.names if name in Merged._fields}
    row = {"table_path": log.url, "status": status, **counts, "message": ". ".join(messages)}
    return one_row(MERGED_SCHEMA, row)
