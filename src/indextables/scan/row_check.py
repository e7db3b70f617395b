"""Check a predicate on the rows of a split, and read no more than it needs.

The bounds of row groups decide most of a sorted column. In the other groups only the columns of the predicate are read,
and of a text that repeats each value is compared once. The answers are parts: neighbouring rows with a mask.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import numbers_below, to_scalar
from indextables.predicate.arrow import matching
from indextables.predicate.bound import BoundColumn, BoundPredicate, bound_columns
from indextables.predicate.decide import Extent, Verdict, decide
from indextables.split.split_file import SplitFile

Convert = Callable[[pa.Table], pa.Table]
"""Converts columns of a split to the types of the table."""


class Part(NamedTuple):
    """Neighbouring rows, counted from `first`; without a mask all of them match."""

    first: int
    num_rows: int
    mask: Any = None

    def num_matches(self) -> int:
        return self.num_rows if self.mask is None else int(pc.sum(self.mask, min_count=0).as_py())

    def matches(self) -> pa.Array[Any]:
        """Return the numbers of the rows that match."""
        found = numbers_below(self.num_rows) if self.mask is None else pc.indices_nonzero(self.mask)
        return pc.add(found, to_scalar(self.first, pa.uint64())) if self.first else found


def check_rows(split: SplitFile, where: BoundPredicate, convert: Convert) -> Iterator[Part]:
    """Yield the row groups that may match a predicate, in order, and check their rows."""
    columns = predicate_columns(where)
    verdicts = _verdicts(split, where)
    for verdict, run in itertools.groupby(range(split.num_groups), lambda group: verdicts[group]):
        if verdict:
            yield from (Part(*split.place_of_group(group)) for group in run)
        elif verdict is None:
            for first, table in split.coded_rows(columns, list(run)):
                yield Part(first, table.num_rows, matching(_converted(table, where, convert), where))


def check_batches(batches: Iterator[pa.RecordBatch], where: BoundPredicate, convert: Convert) -> Iterator[Part]:
    """Check batches of rows, numbered from 0."""
    first = 0
    for batch in batches:
        yield Part(first, batch.num_rows, matching(convert(pa.Table.from_batches([batch])), where))
        first += batch.num_rows


def joined_matches(parts: Iterator[Part]) -> pa.Array[Any]:
    """Return the numbers of all rows that match."""
    return pa.concat_arrays([numbers_below(0), *(part.matches() for part in parts)])


def predicate_columns(where: BoundPredicate) -> Sequence[str]:
    """Return the columns to read for a predicate; a field of a struct needs all of it."""
    return tuple(dict.fromkeys(column.path[0] for column in bound_columns(where)))


def _verdicts(split: SplitFile, where: BoundPredicate) -> list[Verdict]:
    """Decide a predicate for each row group."""
    extents = _extents(split, where)

    def verdict(group: int) -> Verdict:
        return decide(where, lambda column: extents[column][group])

    return [verdict(group) for group in range(split.num_groups)]


def _extents(split: SplitFile, where: BoundPredicate) -> dict[BoundColumn, list[Extent]]:
    found = {}
    for column in bound_columns(where):
        is_alike = len(column.path) == 1 and split.schema.field(column.path[0]).type == column.type
        unknown = [Extent(split.place_of_group(group)[1]) for group in range(split.num_groups)]
        found[column] = split.group_extents(column.path[0]) if is_alike else unknown
    return found


def _converted(table: pa.Table, where: BoundPredicate, convert: Convert) -> pa.Table:
    """Convert the columns; leave the codes of texts that have the type of the table."""
    kinds = {column.path[0]: column.type for column in bound_columns(where) if len(column.path) == 1}
    coded = [
        field.name
        for field in table.schema
        if pa.types.is_dictionary(field.type) and kinds.get(field.name) == field.type.value_type
    ]
    plain = convert(table.drop_columns(coded)) if len(coded) < table.num_columns else table.select([])
    for name in coded:
        plain = plain.append_column(name, table[name])
    return plain
