"""Files that a predicate leaves of a table, kept for the next question with it.

A snapshot never changes, and so do the files that a predicate leaves of it. People ask for many words with the same
predicate, and reading and deciding it again takes longer than a search of warm splits.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence

import pyarrow as pa

from indextables.arrow_values import to_table
from indextables.config import Config
from indextables.errors import QueryError
from indextables.log.snapshot import Snapshot
from indextables.predicate import bind, parse_predicate
from indextables.predicate.bound import BoundPredicate, bound_columns
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.prune.files import hinted_mask, manifests_for, prune_table
from indextables.prune.may_match import count_in_partitions
from indextables.prune.partitions import files_exactly, is_partition
from indextables.runtime import tally
from indextables.runtime.caching import BoundedCache, lazy_property
from indextables.scan.together import key_of
from indextables.split.search.open_splits import OpenSplits

SPLIT_FIELDS = ["path", "size", "num_records", "footer_start_offset", "footer_end_offset"]

_MOST_BYTES = 16 << 20

logger = logging.getLogger(__name__)


class LeftFiles:
    """Files that may match, and the predicate that is left to check on rows."""

    def __init__(self, files: pa.Table, where: BoundPredicate | None, *, is_pruned: bool) -> None:
        self.files = files
        self.where = where
        self._is_pruned = is_pruned

    @lazy_property
    def key(self) -> Hashable:
        """Key of the files: equal files have equal keys as long as one of them lives."""
        return key_of(self.files, SPLIT_FIELDS) if self._is_pruned else id(self.files)

    @property
    def num_bytes(self) -> int:
        return int(self.files.get_total_buffer_size())


def left_files(
    snapshot: Snapshot, config: Config, opened: OpenSplits, where: str | None, hints: Sequence[str]
) -> LeftFiles:
    """Return the files that a predicate leaves; those of the last snapshot are kept."""
    if where is None or hints or tally.is_counting():
        return _find(snapshot, config, where, hints)
    kept = _kept_for(snapshot, config, opened)
    found = kept.get(where)
    if found is None:
        found = _find(snapshot, config, where, hints)
        kept.put(where, found)
    return found


def bind_where(where: str, schema: pa.Schema) -> BoundPredicate:
    """Bind a predicate to a table's columns, or raise a `QueryError`."""
    return bind(parse_predicate(where), schema)


def _kept_for(snapshot: Snapshot, config: Config, opened: OpenSplits) -> BoundedCache[str, LeftFiles]:
    known: tuple[Snapshot, Config, BoundedCache[str, LeftFiles]] | None = opened.left_files.get(id(snapshot))
    if known is None or known[0] is not snapshot or known[1] is not config:
        known = (snapshot, config, BoundedCache(_MOST_BYTES, weigh=lambda found: found.num_bytes))
        opened.left_files.put(id(snapshot), known)
    return known[2]


def _find(snapshot: Snapshot, config: Config, where: str | None, hints: Sequence[str]) -> LeftFiles:
    bound = None if where is None else bind_where(where, snapshot.schema)
    chosen = _files_for(snapshot, where, hints)
    files, left = _filtered(chosen, snapshot, config, where, bound)
    if tally.is_counting():
        _note_pruning(snapshot, chosen, bound, files)
    files = files.filter(hinted_mask(files, hints, snapshot, config)) if hints else files
    return LeftFiles(files, left, is_pruned=where is not None or bool(hints))


def _files_for(snapshot: Snapshot, where: str | None, hints: Sequence[str]) -> pa.Table:
    """Return the files of a table.

    Of a large one return only those in manifests that may hold a match.
    """
    if where is None and not hints:
        return snapshot.files
    parts = snapshot.live_files.chosen(manifests_for(where, hints, snapshot))
    return pa.concat_tables(parts) if parts else to_table([], FILES_SCHEMA)


def _filtered(
    files: pa.Table, snapshot: Snapshot, config: Config, where: str | None, bound: BoundPredicate | None
) -> tuple[pa.Table, BoundPredicate | None]:
    """Return the files that may match, and the predicate left to check on rows."""
    if where is None or bound is None:
        return files, None
    if all(is_partition(column, snapshot.partition_columns) for column in bound_columns(bound)):
        try:
            return files.filter(files_exactly(files, bound, snapshot.partition_columns)), None
        except QueryError as error:
            logger.info("rows decide `%s` and not the log: %s", where, error)
    return prune_table(files, where, snapshot, config), bound


def _note_pruning(snapshot: Snapshot, chosen: pa.Table, bound: BoundPredicate | None, files: pa.Table) -> None:
    """Count the splits that manifests, partitions and statistics rule out."""
    live = snapshot.num_files
    in_partitions = live if bound is None else count_in_partitions(chosen, bound, snapshot.partition_columns)
    tally.note(splits=live, by_partitions=live - in_partitions, by_statistics=in_partitions - files.num_rows)
