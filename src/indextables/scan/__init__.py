"""From a predicate to the files that must be read: pure, columnar, and never at the price of a row.

`may_match` prunes a file table, `partition_may_match` a manifest by its bounds; `files_exactly` decides files by their
partition values alone; `compute_bounds` makes the bounds that the next reader prunes by.
"""

from __future__ import annotations

from indextables.protocol.statistics import NAN_SHOWN, NAN_TAG, STATS_TAG, STATS_TYPED
from indextables.scan.partitions import compute_bounds, files_exactly
from indextables.scan.prune import may_match, partition_may_match
from indextables.scan.statistics import DEFAULT_MAX_LENGTH

__all__ = [
    "DEFAULT_MAX_LENGTH",
    "NAN_SHOWN",
    "NAN_TAG",
    "STATS_TAG",
    "STATS_TYPED",
    "compute_bounds",
    "files_exactly",
    "may_match",
    "partition_may_match",
]
