"""Reindex: splits that are indexed in another way than the table says become splits with the same rows that are.

The log tells which they are. Each becomes one new split, by the same work, the same commits and the same rules for
conflicts and bad splits as in a merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import ConfigError
from indextables.log.skips import in_cooldown, without_paths
from indextables.log.snapshot import Snapshot
from indextables.ops.answers import answer_schema, one_row
from indextables.ops.indexed_fields import fields_of_mappings, fields_of_settings
from indextables.ops.merge import Merged, Rewriting, counted, merge_groups, status_of
from indextables.ops.merge_plan import plan_each
from indextables.ops.questions import check_column
from indextables.scan.files import prune_table
from indextables.split.fields import FieldMap
from indextables.transaction_log import TransactionLog

REINDEXED_SCHEMA = answer_schema(
    table_path=pa.string(),
    status=pa.string(),
    reindexed_files=pa.int64(),
    original_size_bytes=pa.int64(),
    reindexed_size_bytes=pa.int64(),
    skipped_files=pa.int64(),
    message=pa.string(),
)

_REINDEXING = Rewriting("REINDEX", "reindexing splits", "reindexed", 1)


def reindex(
    log: TransactionLog,
    *,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    dry_run: bool = False,
) -> pa.Table:
    """Index splits again that are not indexed as the table says. One row.

    `where` leaves out splits that cannot hold a row which it is true of, `columns` those in which these columns are
    indexed as they should be. `splits` are paths of splits that are indexed again in any case. With `dry_run` it says
    what it would do and changes nothing; how large the new splits would be is not known then.
    """
    snapshot = log.reader.snapshot()
    files = _chosen(log, snapshot, where, columns, splits)
    resting = in_cooldown(snapshot.skips.values(), log.clock.now_ms())
    candidates = without_paths(files, resting)
    num_resting = files.num_rows - candidates.num_rows
    notes = [f"{counted(num_resting, 'split')} left alone, as the cooldown has not ended"] if num_resting else []
    if not candidates.num_rows:
        return _answer(log, "NO_ACTION", Merged(), ["there is nothing to reindex", *notes])
    groups = plan_each(candidates)
    if dry_run:
        size = sum(group.num_bytes for group in groups)
        planned = Merged(merged_files=len(groups), original_size_bytes=size)
        return _answer(log, "DRY_RUN", planned, ["nothing was changed", *notes])
    done = merge_groups(log, snapshot, groups, rewriting=_REINDEXING)
    return _answer(log, status_of(done), done, [*done.messages, *notes])


def _chosen(
    log: TransactionLog,
    snapshot: Snapshot,
    where: str | None,
    columns: Sequence[str] | None,
    splits: Sequence[str] | None,
) -> pa.Table:
    fields = fields_of_settings(snapshot, log.config)
    if isinstance(columns, str) or isinstance(splits, str):
        raise ConfigError("cannot reindex by a text: give a list of names", hint='as in `columns=["message"]`')
    names = None if columns is None else [check_column(snapshot.schema, name) for name in columns]
    files = snapshot.files if where is None else prune_table(snapshot.files, where, snapshot, log.config)
    if splits is None:
        return files.filter(_indexed_otherwise(snapshot, files, fields, names))
    unknown = [path for path, is_live in snapshot.live_files.contains(splits).items() if not is_live]
    if unknown:
        raise ConfigError(
            f"cannot reindex the split `{unknown[0]}` because it is not part of the table",
            hint="`files` lists the splits of a table by path",
        )
    return files.filter(pc.is_in(files["path"], value_set=pa.array(splits, pa.string())))


def _indexed_otherwise(snapshot: Snapshot, files: pa.Table, fields: FieldMap, columns: Sequence[str] | None) -> Any:
    """Which files the log does not say of that they are indexed by these fields."""
    mask = pa.repeat(pa.scalar(value=False), files.num_rows)
    for (reference, carried), known in fields_of_mappings(snapshot, files).items():
        if known is None or not _agree(known, fields, columns):
            same = [_equals(files["doc_mapping_ref"], reference), _equals(files["doc_mapping_json"], carried)]
            mask = pc.or_(mask, pc.and_(*same))
    return mask


def _agree(known: FieldMap, fields: FieldMap, columns: Sequence[str] | None) -> bool:
    return known == fields if columns is None else all(known.find(name) == fields.find(name) for name in columns)


def _equals(column: pa.ChunkedArray[Any], text: str | None) -> Any:
    return pc.is_null(column) if text is None else pc.fill_null(pc.equal(column, text), fill_value=False)


def _answer(log: TransactionLog, status: str, done: Merged, messages: Sequence[str]) -> pa.Table:
    row = {
        "table_path": log.url,
        "status": status,
        "reindexed_files": done.merged_files,
        "original_size_bytes": done.original_size_bytes,
        "reindexed_size_bytes": done.merged_size_bytes,
        "skipped_files": done.skipped_files,
        "message": ". ".join(messages),
    }
    return one_row(REINDEXED_SCHEMA, row)
