"""Masks: boolean arrays with one value per file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_scalar

Mask = Any
"""A boolean array; pyarrow's types do not distinguish arrays by element."""


def surely(mask: Mask) -> Mask:
    """Return where a mask is true, not false or unknown."""
    return pc.fill_null(mask, to_scalar(value=False))


def uniform(value: bool, num_rows: int) -> Mask:
    return pa.repeat(to_scalar(value), num_rows)


def fold(join: Callable[[Any, Any], Any], masks: Sequence[Mask]) -> Mask:
    found = masks[0]
    for mask in masks[1:]:
        found = join(found, mask)
    return found
