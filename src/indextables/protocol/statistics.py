"""The tags of an add action that say how far its statistics can be trusted."""

from __future__ import annotations

STATS_TAG = "indextables.stats"
STATS_TYPED = "typed"
NAN_TAG = "indextables.stats.nan"
NAN_SHOWN = "shown"
