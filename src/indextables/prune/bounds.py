"""Exclude files by the bounds of one column, as masks over all files.

A mask is true if no row of the file can match, and false if a row may match or nothing is known. Typed bounds are
compared as values. All other bounds exclude a file only if that comparison does *and* bounds computed on text would
exclude it too:

- integers, decimals, doubles: see `intervals.text_range`; equal bounds, or bounds out of order as text but in order as
  values, leave no doubt;
- strings: a maximum that may be truncated bounds everything that starts with it, and a bound is not compared with a
  literal if both have characters that sort differently in UTF-16;
- timestamps: the bounds are widened, by a second if only fractions can be out of order, by 27 hours if the zone is
  unknown or varies;
- dates and booleans: their text is in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.predicate.bound import BoundColumn, BoundValue, scalar_of, stored_type
from indextables.prune.intervals import Interval, text_range
from indextables.prune.lenient_text import lacks_utc, names_offset, parse_texts
from indextables.prune.masks import Mask, surely
from indextables.prune.statistics import Bounds

_NUMBERS = frozenset({"integer", "decimal", "float"})
_SORTS_DIFFERENTLY = "[\ue000-\U0010ffff]"
_MAX_PREFIX_LENGTH = 256
_TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_ZONE_SLACK_SECONDS = 27 * 3600


class ColumnBounds:
    """The bounds of one column, parsed once for all leaves."""

    def __init__(self, column: BoundColumn, bounds: Bounds) -> None:
        self._column = column
        self._bounds = bounds
        self._foreign = pc.invert(bounds.typed)
        self._any_foreign = bool(pc.any(self._foreign).as_py())
        self._low = _known(parse_texts(bounds.low, column.type))
        self._high = _known(parse_texts(bounds.high, column.type))
        if column.kind == "timestamp" and self._any_foreign:
            self._widen()
        self._forget(self._out_of_order())
        if column.kind not in {"string", "date", "boolean"} and self._any_foreign:
            self._forget(pc.and_(self._foreign, pc.or_(self._odd(bounds.low), self._odd(bounds.high))))

    def exclude_interval(self, interval: Interval) -> Mask:
        """Return the files without a value in the interval."""
        masks = [self._all_below(interval), self._all_above(interval)]
        excluded = pc.or_(*(surely(mask) for mask in masks))
        if self._column.kind in _NUMBERS and self._any_foreign:
            excluded = pc.and_(excluded, self._excluded_as_text(interval))
        return excluded

    def exclude_prefix(self, prefix: str) -> Mask:
        """Return the files without a value that starts with `prefix`."""
        below = self._trusted_high(pc.less(self._high, to_scalar(prefix)), prefix)
        above = pc.and_(pc.greater(self._low, to_scalar(prefix)), pc.invert(pc.starts_with(self._low, prefix)))
        above = self._comparable(above, self._low, prefix)
        return pc.or_(surely(below), surely(above))

    def exclude_all_equal(self, value: BoundValue) -> Mask:
        """Return the files with no value other than `value`, apart from nulls."""
        if value != value:
            return _nothing(self._low)
        scalar = scalar_of(self._column, value)
        excluded = pc.and_(pc.equal(self._low, scalar), pc.equal(self._high, scalar))
        if self._column.kind == "float":
            excluded = pc.and_(excluded, self._bounds.nan_shown)
        if self._any_foreign:
            same_text = pc.equal(self._bounds.low, self._bounds.high)
            doubtful = pc.and_(self._foreign, pc.or_(pc.invert(same_text), self._maybe_truncated()))
            excluded = pc.and_(excluded, pc.invert(doubtful))
        return surely(excluded)

    def exclude_all_prefixed(self, prefix: str) -> Mask:
        """Return the files whose bounds both start with `prefix`: so do all values."""
        low, high = (_whole_characters(values) if self._any_foreign else values for values in (self._low, self._high))
        return surely(pc.and_(pc.starts_with(low, prefix), pc.starts_with(high, prefix)))

    def _all_below(self, interval: Interval) -> Mask:
        low = interval.low
        if low is None:
            return _nothing(self._high)
        if low != low:
            below = pc.is_valid(self._high)
        else:
            compare = pc.less_equal if interval.open_low else pc.less
            below = compare(self._high, scalar_of(self._column, low))
        if self._column.kind == "float" and interval.holds_nan():
            below = pc.and_(below, self._bounds.nan_shown)
        return self._trusted_high(below, low) if isinstance(low, str) else below

    def _all_above(self, interval: Interval) -> Mask:
        high = interval.high
        if high is None or high != high:
            return _nothing(self._low)
        compare = pc.greater_equal if interval.open_high else pc.greater
        above = compare(self._low, scalar_of(self._column, high))
        return self._comparable(above, self._low, high) if isinstance(high, str) else above

    def _trusted_high(self, excluded: Mask, literal: str) -> Mask:
        """Drop exclusions by a maximum that may be a truncated prefix of the literal."""
        if not self._any_foreign:
            return excluded
        truncated = self._maybe_truncated()
        if pc.any(truncated).as_py():
            whole = _whole_characters(self._high)
            prefixes = [literal[:length] for length in range(min(len(literal), _MAX_PREFIX_LENGTH) + 1)]
            starts = pc.is_in(whole, to_array(prefixes, whole.type))
            too_long = pc.greater(pc.binary_length(whole), to_scalar(_MAX_PREFIX_LENGTH))
            doubtful = pc.and_(truncated, pc.or_(starts, too_long))
            excluded = pc.and_(excluded, pc.invert(doubtful))
        return self._comparable(excluded, self._high, literal)

    def _comparable(self, excluded: Mask, values: pa.Array[Any], literal: str) -> Mask:
        """Drop exclusions if UTF-16 might order the bound and the literal differently."""
        if not self._any_foreign or not re.search(_SORTS_DIFFERENTLY, literal):
            return excluded
        doubtful = pc.and_(self._foreign, pc.match_substring_regex(values, _SORTS_DIFFERENTLY))
        return pc.and_(excluded, pc.invert(doubtful))

    def _excluded_as_text(self, interval: Interval) -> Mask:
        """Return the files that bounds computed on text would exclude too.

        True for typed bounds.
        """
        low, high = self._bounds.low, self._bounds.high
        least, greatest = text_range(self._column, interval)
        outside = _or_null(pc.less(high, to_scalar(least)), pc.greater(low, to_scalar(greatest)))
        in_order_as_values_only = pc.and_(pc.greater(low, high), pc.less_equal(self._low, self._high))
        certain = _or_null(pc.equal(low, high), in_order_as_values_only)
        return pc.or_(self._bounds.typed, pc.or_(outside, certain))

    def _maybe_truncated(self) -> Mask:
        if self._bounds.max_length is None:
            return _nothing(self._bounds.high)
        return pc.and_(self._foreign, _long(self._bounds.high, self._bounds.max_length))

    def _forget(self, doubtful: Mask) -> None:
        if pc.any(doubtful).as_py():
            self._low = pc.if_else(doubtful, to_scalar(None), self._low)
            self._high = pc.if_else(doubtful, to_scalar(None), self._high)

    def _out_of_order(self) -> Mask:
        """Return bounds that are out of order in every possible order."""
        as_text = pc.or_kleene(self._bounds.typed, pc.greater(self._bounds.low, self._bounds.high))
        return surely(pc.and_(pc.greater(self._low, self._high), as_text))

    def _odd(self, texts: pa.Array[Any]) -> Mask:
        """Return numbers and timestamps that may be truncated or are padded.

        A truncated number is a different number, and a padded one sorts differently.
        """
        padded = surely(pc.match_substring_regex(texts, r"^(\+|-?0[0-9])"))
        return padded if self._bounds.max_length is None else pc.or_(padded, _long(texts, self._bounds.max_length))

    def _widen(self) -> None:
        type_: Any = stored_type(self._column.type)
        self._low = self._moved(self._low, self._bounds.low, type_, pc.subtract, pc.max_element_wise, -1)
        self._high = self._moved(self._high, self._bounds.high, type_, pc.add, pc.min_element_wise, 1)

    def _moved(
        self,
        values: pa.Array[Any],
        texts: pa.Array[Any],
        type_: Any,
        move: Callable[[Any, Any], Any],
        clamp: Callable[..., Any],
        sign: int,
    ) -> pa.Array[Any]:
        ticks = _TICKS_PER_SECOND[type_.unit]
        uncertain = lacks_utc(texts) if type_.tz is not None else names_offset(texts)
        slack = pc.if_else(uncertain, to_scalar(_ZONE_SLACK_SECONDS * ticks), to_scalar(ticks))
        slack = pc.if_else(self._foreign, slack, to_scalar(0))
        limit = sign * ((1 << 63) - 1 - _ZONE_SLACK_SECONDS * ticks)
        counts = pc.cast(values, pa.int64())
        clamped = pc.if_else(pc.is_valid(counts), clamp(counts, to_scalar(limit, pa.int64())), to_scalar(None))
        return pc.cast(move(clamped, slack), type_)


def _known(values: pa.Array[Any]) -> pa.Array[Any]:
    """Drop NaN bounds: they bound nothing.

    The writer either did not order by Spark's rule, or there is no upper bound by that rule.
    """
    return pc.if_else(pc.is_nan(values), to_scalar(None), values) if pa.types.is_floating(values.type) else values


def _whole_characters(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Strip the replacement characters that a cut inside a character leaves behind."""
    return pc.replace_substring_regex(texts, "[?\ufffd]+$", "")


def _long(texts: pa.Array[Any], max_length: int) -> Mask:
    # Whether a writer counted characters, UTF-16 units or bytes: there are at least as many bytes.
    return surely(pc.greater_equal(pc.binary_length(texts), to_scalar(max_length)))


def _or_null(left: Mask, right: Mask) -> Mask:
    return pc.or_(surely(left), surely(right))


def _nothing(values: pa.Array[Any]) -> Mask:
    return pc.and_(pc.is_null(values), pc.is_valid(values))
