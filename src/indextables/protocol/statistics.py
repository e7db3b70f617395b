"""The tags of an add action that are ours: how far its statistics can be trusted, and where its footer starts.

Other engines know the footer offsets of an add action as places in their own kind of split. So in the log, those of our
splits stand in a tag, and an engine that needs offsets finds none instead of others. In memory both are filled.
"""

from __future__ import annotations

from collections.abc import Mapping

STATS_TAG = "indextables.stats"
STATS_TYPED = "typed"
NAN_TAG = "indextables.stats.nan"
NAN_SHOWN = "shown"
FOOTER_TAG = "indextables.footerOffset"


def footer_start(tags: Mapping[str, str] | None, size: int) -> int | None:
    """Where the footer of a split of ours starts, as its tag says; None where it has none, or none that can be."""
    text = (tags or {}).get(FOOTER_TAG, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= size else None
