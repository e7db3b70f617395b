"""Pruning: find the files and manifests that may hold a matching row.

A mask is false only if no row can match. A bound predicate has no negation above its leaves, so the result of a tree
follows from the results of its leaves. Partition columns are decided by their exact values, other columns by bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.predicate.bound import (
    BoundAnd,
    BoundColumn,
    BoundComparison,
    BoundConstant,
    BoundIn,
    BoundLeaf,
    BoundLike,
    BoundNull,
    BoundOr,
    BoundPredicate,
    bound_columns,
)
from indextables.prune.bounds import ColumnBounds
from indextables.prune.intervals import Interval, intersect, interval_of, intervals_of
from indextables.prune.masks import fold, surely, uniform
from indextables.prune.partitions import PartitionValues, is_partition
from indextables.prune.statistics import DEFAULT_MAX_LENGTH, Bounds, FileStatistics

_MAX_EXCEPTIONS = 16


def may_match(
    files: pa.Table,
    bound: BoundPredicate,
    partition_columns: Sequence[str],
    *,
    max_length: int = DEFAULT_MAX_LENGTH,
) -> pa.Array[Any]:
    """Return a mask, without nulls, of the files that may hold a matching row.

    `max_length` is the table's `stats.truncation.maxLength`.
    """
    names = [column.name for column in bound_columns(bound) if not is_partition(column, partition_columns)]
    return _Pruner(_Files(files, names, partition_columns, max_length)).may_match(bound)


def count_in_partitions(files: pa.Table, bound: BoundPredicate, partition_columns: Sequence[str]) -> int:
    """Count the files that may match by the values of their partition columns alone."""
    mask = _Pruner(_PartitionsOfFiles(files, partition_columns)).may_match(bound)
    return int(pc.sum(mask, min_count=0).as_py())


def partition_may_match(
    bounds: Mapping[str, tuple[str | None, str | None]],
    bound: BoundPredicate,
    partition_columns: Sequence[str],
    *,
    typed: bool,
) -> bool:
    """Return whether a manifest may hold a file with a matching row.

    Its partition bounds decide; `typed` means that `compute_bounds` made them. A manifest may hold nulls whatever its
    bounds; a bound that is None or missing is unknown.
    """
    return partitions_may_match([(bounds, typed)], bound, partition_columns)[0]


def partitions_may_match(
    manifests: Sequence[tuple[Mapping[str, tuple[str | None, str | None]], bool]],
    bound: BoundPredicate,
    partition_columns: Sequence[str],
) -> list[bool]:
    """Return for each manifest whether it may hold a file with a matching row.

    A manifest is given by its partition bounds, and whether `compute_bounds` made them.
    """
    found: list[bool] = _Pruner(_Manifests(manifests, partition_columns)).may_match(bound).to_pylist()
    return found


class _Source(Protocol):
    """Source of masks: a table of files, or some manifests."""

    num_rows: int

    def knows(self, column: BoundColumn) -> bool:
        """Return whether each value of the column is known, so that `exact` works."""

    def exact(self, leaf: BoundLeaf) -> pa.Array[Any]:
        """Return the mask of files that a leaf may match, by the values of its column."""

    def nulls(self, leaf: BoundNull) -> pa.Array[Any] | None:
        """Return the mask of files that fail a test for null; None if that is unknown."""

    def bounds(self, column: BoundColumn) -> Bounds | None:
        """Return the bounds of a column; None if there are none."""


class _PartitionsOfFiles:
    def __init__(self, files: pa.Table, partition_columns: Sequence[str]) -> None:
        self.num_rows = files.num_rows
        self._partition_columns = partition_columns
        self._partitions = PartitionValues(files)

    def knows(self, column: BoundColumn) -> bool:
        return is_partition(column, self._partition_columns)

    def exact(self, leaf: BoundLeaf) -> pa.Array[Any]:
        true, unknown = self._partitions.leaf(leaf)
        return pc.or_(true, unknown)

    def nulls(self, leaf: BoundNull) -> pa.Array[Any] | None:
        return None

    def bounds(self, column: BoundColumn) -> Bounds | None:
        return None


class _Files(_PartitionsOfFiles):
    def __init__(self, files: pa.Table, names: Sequence[str], partition_columns: Sequence[str], max_length: int):
        super().__init__(files, partition_columns)
        self._statistics = FileStatistics(files, names, max_length)

    def nulls(self, leaf: BoundNull) -> pa.Array[Any] | None:
        counts = self._statistics.null_counts(leaf.column.name)
        if not leaf.negated:
            return pc.equal(counts, to_scalar(0))
        records = self._statistics.num_records
        return pc.and_(pc.equal(counts, records), pc.greater(records, to_scalar(0)))

    def bounds(self, column: BoundColumn) -> Bounds | None:
        return self._statistics.bounds(column.name)


class _Manifests:
    def __init__(
        self,
        manifests: Sequence[tuple[Mapping[str, tuple[str | None, str | None]], bool]],
        partition_columns: Sequence[str],
    ) -> None:
        self.num_rows = len(manifests)
        self._bounds = [bounds for bounds, _ in manifests]
        self._partition_columns = partition_columns
        self._typed = to_array([typed for _, typed in manifests], pa.bool_())

    def knows(self, column: BoundColumn) -> bool:
        return False

    def exact(self, leaf: BoundLeaf) -> pa.Array[Any]:
        raise NotImplementedError

    def nulls(self, leaf: BoundNull) -> None:
        return None

    def bounds(self, column: BoundColumn) -> Bounds | None:
        if not is_partition(column, self._partition_columns):
            return None
        found = [bounds.get(column.name, (None, None)) for bounds in self._bounds]
        low, high = (to_array([ends[at] for ends in found], pa.string()) for at in range(2))
        return Bounds(low, high, typed=self._typed, nan_shown=self._typed, max_length=None)


class _Pruner:
    def __init__(self, source: _Source) -> None:
        self._source = source
        self._columns: dict[BoundColumn, ColumnBounds | None] = {}

    def may_match(self, bound: BoundPredicate) -> pa.Array[Any]:
        if isinstance(bound, BoundConstant):
            return self._all(value=bound.value)
        if isinstance(bound, BoundAnd):
            return fold(pc.and_, [self._may(term) for term in (*self._merged(bound), *bound.terms)])
        if isinstance(bound, BoundOr):
            return fold(pc.or_, [self.may_match(term) for term in bound.terms])
        return self._leaf(bound)

    def _may(self, term: Any) -> pa.Array[Any]:
        """Return the mask of a term, or of a column with its merged interval."""
        if not isinstance(term, tuple):
            return self.may_match(term)
        column, interval = term
        if interval.is_empty():
            return self._all(value=False)
        bounds = self._bounds(column)
        return self._all(value=True) if bounds is None else pc.invert(bounds.exclude_interval(interval))

    def _merged(self, bound: BoundAnd) -> list[tuple[BoundColumn, Interval]]:
        """Merge several comparisons of a column into one interval.

        Text bounds may leave each comparison in doubt, but not both together.
        """
        leaves: dict[BoundColumn, list[BoundComparison]] = {}
        for term in bound.terms:
            if not isinstance(term, BoundComparison) or term.operator == "<>" or self._source.knows(term.column):
                continue
            if term.column.kind == "integer":
                leaves.setdefault(term.column, []).append(term)
        return [(column, intersect(column, found)) for column, found in leaves.items() if len(found) > 1]

    def _leaf(self, leaf: BoundLeaf) -> pa.Array[Any]:
        if self._source.knows(leaf.column):
            return self._source.exact(leaf)
        excluded = self._excluded(leaf)
        return self._all(value=True) if excluded is None else pc.invert(surely(excluded))

    def _excluded(self, leaf: BoundLeaf) -> pa.Array[Any] | None:
        if isinstance(leaf, BoundNull):
            return self._source.nulls(leaf) if len(leaf.column.path) == 1 else None
        bounds = self._bounds(leaf.column)
        if bounds is None:
            return None
        if isinstance(leaf, BoundComparison):
            if leaf.operator == "<>":
                return bounds.exclude_all_equal(leaf.value)
            return bounds.exclude_interval(interval_of(leaf))
        return _excluded_by_list(leaf, bounds) if isinstance(leaf, BoundIn) else _excluded_by_pattern(leaf, bounds)

    def _bounds(self, column: BoundColumn) -> ColumnBounds | None:
        """Return the bounds of a column; fields inside structs have none."""
        if column not in self._columns:
            bounds = self._source.bounds(column) if len(column.path) == 1 else None
            self._columns[column] = None if bounds is None else ColumnBounds(column, bounds)
        return self._columns[column]

    def _all(self, *, value: bool) -> pa.Array[Any]:
        return uniform(value, self._source.num_rows)


def _excluded_by_list(leaf: BoundIn, bounds: ColumnBounds) -> pa.Array[Any] | None:
    if not leaf.negated:
        return fold(pc.and_, [bounds.exclude_interval(interval) for interval in intervals_of(leaf)])
    if len(leaf.values) > _MAX_EXCEPTIONS:
        return None
    return fold(pc.or_, [bounds.exclude_all_equal(value) for value in leaf.values])


def _excluded_by_pattern(leaf: BoundLike, bounds: ColumnBounds) -> pa.Array[Any] | None:
    if not leaf.negated:
        return bounds.exclude_prefix(leaf.prefix) if leaf.prefix else None
    return bounds.exclude_all_prefixed(leaf.prefix) if leaf.prefix_only and leaf.prefix else None
