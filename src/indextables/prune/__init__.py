"""Pruning: from a predicate to the files to read. Pure and columnar.

Pruning never loses a row.

`may_match` prunes a file table, `partition_may_match` prunes a manifest by its bounds, `files_exactly` decides files by
their partition values alone, and `compute_bounds` computes the bounds for the next reader.
"""

from __future__ import annotations

from indextables.protocol.statistics_tags import NAN_SHOWN, NAN_TAG, STATS_TAG, STATS_TYPED
from indextables.prune.may_match import may_match, partition_may_match
from indextables.prune.partitions import compute_bounds, files_exactly
from indextables.prune.statistics import DEFAULT_MAX_LENGTH

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
