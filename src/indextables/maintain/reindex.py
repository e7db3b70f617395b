"""Reindex: rewrite splits whose indexing differs from the table's settings.

The log records how each split is indexed. Each such split becomes one new split, with the work, commits and rules for
conflicts and bad splits of a merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.errors import ConfigError
from indextables.log.skips import in_cooldown, without_paths
from indextables.log.snapshot import Snapshot
from indextables.maintain.merge.merge_plan import plan_each
from indextables.maintain.merge.merge_splits import Merged, Rewriting, counted, merge_groups, status_of
from indextables.maintain.one_row import answer_schema, one_row
from indextables.prune.files import prune_table
from indextables.scan.indexed_fields import fields_of_mappings, fields_of_settings
from indextables.scan.split_scan import check_column
from indextables.split.index.fields import FieldMap
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
    """Reindex the splits that are not indexed as the table says, and return one row.

    `where` skips splits that cannot hold a matching row. `columns` skips splits in which these columns are indexed as
    they should be. `splits` are paths of splits that are always reindexed. With `dry_run`, report the plan and change
    nothing; the size of the new splits is unknown then.
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
    return files.filter(pc.is_in(files["path"], value_set=to_array(splits, pa.string())))


def _indexed_otherwise(snapshot: Snapshot, files: pa.Table, fields: FieldMap, columns: Sequence[str] | None) -> Any:
    """Return a mask of the files that the log does not record as indexed by `fields`."""
    mask = pa.repeat(to_scalar(value=False), files.num_rows)
    for (reference, carried), known in fields_of_mappings(snapshot, files).items():
        if known is None or not _agree(known, fields, columns):
            same = [_equals(files["doc_mapping_ref"], reference), _equals(files["doc_mapping_json"], carried)]
            mask = pc.or_(mask, pc.and_(*same))
    return mask


def _agree(known: FieldMap, fields: FieldMap, columns: Sequence[str] | None) -> bool:
    return known == fields if columns is None else all(known.find(name) == fields.find(name) for name in columns)


def _equals(column: pa.ChunkedArray[Any], text: str | None) -> Any:
    return (
        pc.is_null(column) if text is None else pc.fill_null(pc.equal(column, to_scalar(text)), to_scalar(value=False))
    )


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
