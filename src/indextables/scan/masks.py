"""Masks: boolean arrays with an answer per file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Mask = Any
"""A boolean array; pyarrow's types do not tell one array from another."""


def surely(mask: Mask) -> Mask:
    """Where a mask is true, rather than false or unknown."""
    return pc.fill_null(mask, fill_value=False)


def uniform(value: bool, num_rows: int) -> Mask:
    return pa.repeat(pa.scalar(value), num_rows)


def fold(join: Callable[[Any, Any], Any], masks: Sequence[Mask]) -> Mask:
    found = masks[0]
    for mask in masks[1:]:
        found = join(found, mask)
    return found
