"""Tags of this library in add actions.

Accuracy of statistics, offset of the footer.

Other engines read the footer offsets of an add action as offsets in their own kind of split. In the log, the offset of
our splits is therefore in a tag, so that such an engine finds no offsets instead of wrong ones. In memory both are set.
"""

from __future__ import annotations

from collections.abc import Mapping

STATS_TAG = "indextables.stats"
STATS_TYPED = "typed"
NAN_TAG = "indextables.stats.nan"
NAN_SHOWN = "shown"
FOOTER_TAG = "indextables.footerOffset"


def footer_start(tags: Mapping[str, str] | None, size: int) -> int | None:
    """Return the footer offset in a split's tag; None if it is missing or impossible."""
    text = (tags or {}).get(FOOTER_TAG, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= size else None
