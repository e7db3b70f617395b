"""Plan a predicate of plain SQL: which splits may match it, and how many rows.

The log excludes splits by statistics, term filters exclude more, and indexes on local disk count their rows. Planning
takes bounded time and fetches at most some bytes of indexes over a network, by default none. A split that cannot be
asked within these bounds may match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config, settings
from indextables.scan.split_scan import Split, TableScan
from indextables.split.query.holds import decided_part
from indextables.split.query.tree import And, Node

# Bytes of indexes in splits on local disk that are unpacked while a filter is planned.
_NEAR_BYTES = 32 << 20


class FilterLimits(NamedTuple):
    """Bounds of planning, and of the rows that a driver reads itself."""

    max_splits: int
    max_seconds: float
    max_index_bytes: int
    max_rows: int
    max_row_bytes: int

    @classmethod
    def of(cls, config: Config) -> FilterLimits:
        """Return the bounds in the settings of a table and its session."""
        is_forced = config[settings.SCAN_MODE] == "index"
        return cls(
            max_splits=config[settings.SEARCH_DRIVER_MAX_SPLITS],
            max_seconds=float("inf") if is_forced else config[settings.SCAN_PLAN_MAX_MILLIS] / 1_000,
            max_index_bytes=config[settings.SEARCH_DRIVER_MAX_FETCH if is_forced else settings.SCAN_PLAN_MAX_FETCH],
            max_rows=config[settings.SEARCH_DRIVER_MAX_ROWS],
            max_row_bytes=config[settings.SEARCH_DRIVER_MAX_FETCH],
        )


class FilterPlan(NamedTuple):
    """The splits that may match, and why.

    `num_rows` is the number of rows that may match, if the indexes of all splits counted them, and `is_small` whether
    a driver should read them itself. `by_index` is whether an index can decide a part of the predicate.
    """

    splits: Sequence[Split]
    reason: str
    num_rows: int | None = None
    is_small: bool = False
    by_index: bool = True


class _Counted(NamedTuple):
    split: Split
    num_rows: int | None


def plan_filter(scan: TableScan, limits: FilterLimits, *, clock: Clock = SYSTEM_CLOCK) -> FilterPlan:
    """Plan the predicate of a scan, whose splits are those that the log leaves."""
    node = index_part(scan)
    if node is None:
        return _all_splits(scan, "no index decides the filter", by_index=False)
    if scan.num_splits > limits.max_splits:
        return _all_splits(scan, f"{scan.num_splits} splits are too many to ask their indexes")
    left = _not_ruled_out(scan, node, clock.monotonic() + limits.max_seconds, clock)
    if left is None:
        return _all_splits(scan, "the time to plan is over")
    return _counted(scan, node, left, limits)


def bytes_allowed(scan: TableScan, limits: FilterLimits) -> int:
    """Return the bytes of indexes that planning may fetch, or unpack on local disk."""
    return limits.max_index_bytes if scan.is_remote else max(limits.max_index_bytes, _NEAR_BYTES)


def index_part(scan: TableScan) -> Node | None:
    """Return the part of a scan's searches and predicate that an index decides."""
    parts = [] if scan.tree is None else [scan.tree]
    if scan.where is not None:
        # Rows would have to be read to learn whether a column has NaN.
        part, _ = decided_part(scan.where, scan.fields, lambda _: True)
        parts += [] if part is None else [part]
    return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def _not_ruled_out(scan: TableScan, node: Node, deadline: float, clock: Clock) -> list[Split] | None:
    """Return the splits that term filters leave; None if that takes too long."""
    left: list[Split] = []
    for wave in scan.waves(is_scored=True):
        if clock.monotonic() > deadline:
            return None
        asked = scan.ask(lambda split: scan.searcher(split).is_ruled_out(node, scan.text), wave)
        left += [split for split, is_out in asked if not is_out]
    return None if clock.monotonic() > deadline else left


def _counted(scan: TableScan, node: Node, left: Sequence[Split], limits: FilterLimits) -> FilterPlan:
    """Count the rows of the splits whose indexes may be asked.

    A split that is indexed otherwise would have to be indexed again first.
    """
    alike = [split for split in left if scan.searcher(split).own_fields == scan.fields]
    to_fetch = {split: scan.searcher(split).bytes_to_fetch(node) for split in alike}
    may_fetch = sum(to_fetch.values()) <= bytes_allowed(scan, limits)
    counted = [
        _Counted(split, num_rows)
        for split, num_rows in scan.ask(
            lambda split: (
                scan.searcher(split).count(node, scan.text)
                if split in to_fetch and (may_fetch or not to_fetch[split])
                else None
            ),
            left,
        )
    ]
    found = [each for each in counted if each.num_rows != 0]
    splits = tuple(each.split for each in found)
    unknown = sum(each.num_rows is None for each in found)
    if unknown:
        return FilterPlan(splits, f"{unknown} indexes are not on local disk, or of other fields")
    num_rows = sum(each.num_rows or 0 for each in found)
    row_bytes = sum((each.num_rows or 0) * _row_bytes(scan, each.split) for each in found)
    is_small = num_rows <= limits.max_rows and row_bytes <= limits.max_row_bytes
    reason = f"the index finds {num_rows} rows in {len(splits)} splits"
    return FilterPlan(splits, reason, num_rows=num_rows, is_small=is_small)


def _row_bytes(scan: TableScan, split: Split) -> int:
    return int(split.size // max(1, scan.searcher(split).split.num_rows))


def _all_splits(scan: TableScan, reason: str, *, by_index: bool = True) -> FilterPlan:
    return FilterPlan(scan.splits, reason, by_index=by_index)
