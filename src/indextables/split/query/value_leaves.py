"""Compile leaves on numbers, booleans, times, addresses and binary values.

The index holds neither NaN nor a negative zero, so ranges contain numbers only. A separate field marks rows with NaN:
NaN is one value, greater than every number. Fast numbers are not indexed as terms too: a single number is searched as a
range.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math

import tantivy

from indextables.split.query.catalog import BOOL, BYTES, FLOAT, INT, IP, NUMBERS, UINT, Catalog, Field, Literal
from indextables.split.query.tree import Exists, InSet, Leaf, Phrase, Prefix, Range, Term, Wildcard
from indextables.split.query.values import Unsupported, any_of, check_length, refuse, span

TYPES: dict[str, tantivy.FieldType] = {
    INT: tantivy.FieldType.Integer,
    UINT: tantivy.FieldType.Unsigned,
    FLOAT: tantivy.FieldType.Float,
    IP: tantivy.FieldType.IpAddr,
}
LEAST: dict[str, Literal] = {INT: -(2**63), UINT: 0, FLOAT: -math.inf, IP: "::"}
GREATEST: dict[str, Literal] = {
    INT: 2**63 - 1,
    UINT: 2**64 - 1,
    FLOAT: math.inf,
    IP: str(ipaddress.IPv6Address(2**128 - 1)),
}


class ValueLeaves:
    def __init__(self, catalog: Catalog, schema: tantivy.Schema, field: Field) -> None:
        self._catalog = catalog
        self._schema = schema
        self._field = field

    def compile(self, leaf: Leaf) -> tantivy.Query:
        if isinstance(leaf, Term) or (isinstance(leaf, Phrase) and leaf.slop == 0):
            return self._means(leaf.text)
        if isinstance(leaf, InSet):
            return any_of(self._means(text) for text in leaf.texts)
        if isinstance(leaf, Exists):
            return self._exists(leaf)
        if not isinstance(leaf, Range):
            refuse(leaf, self._field, "use a range, as in `[5 TO 10]`" if isinstance(leaf, Prefix | Wildcard) else None)
        return self._range(leaf)

    def _span(self, text: str) -> tuple[Literal, Literal]:
        return span(self._catalog, self._field, text)

    def _means(self, text: str) -> tantivy.Query:
        least, greatest = self._span(text)
        if least is None:
            return self._nan()
        return self._equals(least) if least == greatest else self._between(least, greatest)

    def _nan(self) -> tantivy.Query:
        """Return a query for rows with NaN; empty if the index has none."""
        field = self._catalog.nan_field(self._field.column)
        if field is None:
            return tantivy.Query.empty_query()
        return tantivy.Query.term_query(self._schema, field.name, True)  # noqa: FBT003 - the library's signature

    def _equals(self, value: Literal) -> tantivy.Query:
        if self._field.fast and self._field.kind in NUMBERS:
            return self._between(value, value)
        if isinstance(value, bytes):
            check_length(value, self._field)
        try:
            return tantivy.Query.term_query(self._schema, self._field.name, value)
        except (ValueError, OverflowError) as error:
            raise Unsupported(f"`{value!r}` is no value of `{self._field.column}`: {error}") from None

    def _exists(self, leaf: Exists) -> tantivy.Query:
        if self._field.kind == FLOAT:
            return any_of([self._has_number(leaf), self._nan()])
        return self._has_number(leaf)

    def _has_number(self, leaf: Exists) -> tantivy.Query:
        field = self._field
        if field.fast:
            return tantivy.Query.exists_query(field.name)
        if field.kind == BOOL:
            return any_of([self._equals(value=True), self._equals(value=False)])
        if field.kind == BYTES:
            refuse(leaf, field, "make it a fast field, with `indexing.fastfields`")
        return self._between(LEAST[field.kind], GREATEST[field.kind])

    def _range(self, leaf: Range) -> tantivy.Query:
        if self._field.kind == BYTES:
            refuse(leaf, self._field)
        low = None if leaf.low is None else self._bound(leaf.low)[0 if leaf.includes_low else 1]
        high = None if leaf.high is None else self._bound(leaf.high)[1 if leaf.includes_high else 0]
        if self._field.kind == BOOL:
            return self._booleans(leaf, low, high)
        if self._field.kind == FLOAT:
            return self._floats(leaf, low, high)
        return self._numbers(leaf, low, high)

    def _floats(self, leaf: Range, low: Literal, high: Literal) -> tantivy.Query:
        """Compile a range of floats: NaN is above all numbers, an open end includes it."""
        is_low_nan, is_high_nan = leaf.low is not None and low is None, leaf.high is not None and high is None
        reaches_nan = leaf.high is None or (is_high_nan and leaf.includes_high)
        found = []
        if not is_low_nan:
            found.append(self._numbers(dataclasses.replace(leaf, high=None) if is_high_nan else leaf, low, high))
        if reaches_nan and (not is_low_nan or leaf.includes_low):
            found.append(self._nan())
        return any_of(found)

    def _numbers(self, leaf: Range, low: Literal, high: Literal) -> tantivy.Query:
        low = LEAST[self._field.kind] if low is None else low
        high = GREATEST[self._field.kind] if high is None else high
        includes_low, includes_high = leaf.low is None or leaf.includes_low, leaf.high is None or leaf.includes_high
        return self._between(low, high, includes_low=includes_low, includes_high=includes_high)

    def _bound(self, text: str) -> tuple[Literal, Literal]:
        """Return the range of values of a bound.

        An inclusive range starts at the least of them and ends at the greatest.
        """
        ends = self._span(text)
        if ends[0] is None and self._field.kind != FLOAT:
            raise Unsupported(f"`{text[:60]}` is no bound of a range of `{self._field.column}`")
        return ends

    def _between(
        self, low: Literal, high: Literal, *, includes_low: bool = True, includes_high: bool = True
    ) -> tantivy.Query:
        field = self._field
        try:
            return tantivy.Query.range_query(
                self._schema, field.name, TYPES[field.kind], low, high, includes_low, includes_high
            )
        except (ValueError, OverflowError) as error:
            raise Unsupported(f"the range does not fit `{field.column}` of type `{field.type}`: {error}") from None

    def _booleans(self, leaf: Range, low: Literal, high: Literal) -> tantivy.Query:
        found = []
        for value in (False, True):
            above = low is None or value > bool(low) or (leaf.includes_low and value == low)
            below = high is None or value < bool(high) or (leaf.includes_high and value == high)
            if above and below:
                found.append(self._equals(value))
        return any_of(found)
