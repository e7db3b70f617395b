"""Plan merges: group small splits of one partition, oldest first. Pure.

A group grows up to a target size. The files of a whole table are handled as columns; Python objects are made only for
the chosen files.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.protocol.actions import Add

_TO_MERGE = (
    "path",
    "size",
    "modification_time",
    "num_records",
    "footer_start_offset",
    "footer_end_offset",
    "num_merge_ops",
)


class MergeLimits(NamedTuple):
    """Limits of a merge; splits of at least `skip_share` of the target are left alone.

    With `is_balanced`, the largest split of a group is no larger than the others together. So each merge at least
    doubles the size of the split that holds a given byte, however often small splits are merged.
    """

    target_bytes: int
    skip_share: float
    max_sources: int
    max_groups: int | None = None
    is_balanced: bool = False


class MergeGroup(NamedTuple):
    """Splits of one partition to merge, oldest first, with the facts to read them."""

    partition_values: Mapping[str, str | None]
    sources: tuple[Add, ...]

    @property
    def num_bytes(self) -> int:
        return sum(source.size for source in self.sources)


def plan_merge(files: pa.Table, limits: MergeLimits) -> list[MergeGroup]:
    """Return the groups of splits to merge, the group with the oldest split first."""
    files = files.filter(pc.less(files["size"], to_scalar(limits.target_bytes * limits.skip_share, pa.float64())))
    if not files.num_rows:
        return []
    order = _by_partition_and_age(files)
    sizes = _numbers(files["size"].take(order["row"]))
    ends = _numbers(pc.cumulative_sum(files["size"].take(order["row"])))
    times = _numbers(files["modification_time"].take(order["row"]))
    places = [
        _balanced(group, sizes) if limits.is_balanced else group
        for low, high in _runs(order["partition"])
        for group in _filled(low, high, ends, limits)
    ]
    chosen = sorted((group for group in places if len(group) > 1), key=lambda group: (times[group[0]], group[0]))
    return _groups(files, order["row"], chosen[: limits.max_groups])


def plan_each(files: pa.Table) -> list[MergeGroup]:
    """Return one group per file, oldest first."""
    order = pc.sort_indices(files, sort_keys=[("modification_time", "ascending"), ("path", "ascending")])
    return _groups(files, order, [range(place, place + 1) for place in range(files.num_rows)])


def _by_partition_and_age(files: pa.Table) -> pa.Table:
    """Return each row's number and partition number, in the order of filling groups."""
    rows = pa.table(
        {
            "partition": _partitions(files["partition_values"]),
            "time": files["modification_time"],
            "row": to_array(range(files.num_rows), pa.int64()),
        }
    )
    return rows.sort_by([("partition", "ascending"), ("time", "ascending"), ("row", "ascending")]).combine_chunks()


def _partitions(maps: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """Number the partitions of the rows; a missing key counts as null."""
    whole = maps.combine_chunks()
    names = pc.unique(whole.keys).to_pylist()
    columns = [pc.map_lookup(whole, to_scalar(name), "last") for name in names]
    return functools.reduce(_joined_codes, map(_codes, columns), pa.repeat(to_scalar(0, pa.int64()), len(whole)))


def _joined_codes(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    return _codes(pc.add(pc.multiply(left, to_scalar(len(right), pa.int64())), right))


def _codes(values: pa.Array[Any]) -> pa.Array[Any]:
    return pc.dictionary_encode(values, null_encoding="encode").indices.cast(pa.int64())


def _runs(partitions: pa.ChunkedArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield the first row of each partition and the row after its last."""
    low = 0
    for high in pc.run_end_encode(partitions.combine_chunks()).run_ends.to_pylist():
        yield low, high
        low = high


def _filled(low: int, high: int, ends: Sequence[int], limits: MergeLimits) -> Iterator[range]:
    """Fill groups with the rows of a partition, one group after the other.

    `ends` are the cumulative sizes.
    """
    while low < high:
        before = ends[low - 1] if low else 0
        last = min(high, low + limits.max_sources)
        end = max(low + 1, bisect.bisect_right(ends, before + limits.target_bytes, low, last))
        yield range(low, end)
        low = end


def _balanced(group: range, sizes: Sequence[int]) -> Sequence[int]:
    """Drop the splits that are larger than all smaller ones together."""
    by_size = sorted(group, key=lambda place: sizes[place])
    total = sum(sizes[place] for place in group)
    while by_size and sizes[by_size[-1]] * 2 > total:
        total -= sizes[by_size.pop()]
    return sorted(by_size)


def _numbers(column: pa.ChunkedArray[Any]) -> Sequence[int]:
    """View a column of integers without making Python objects."""
    values = column.combine_chunks()
    whole: Any = memoryview(values.buffers()[1]).cast("q")
    return whole[values.offset : values.offset + len(values)]  # type: ignore[no-any-return]


def _groups(
    files: pa.Table, rows: pa.ChunkedArray[Any] | pa.Array[Any], chosen: Sequence[Sequence[int]]
) -> list[MergeGroup]:
    """Build the groups from the positions of their files in `rows`."""
    wanted = files.select(["partition_values", *_TO_MERGE]).take(
        rows.take(to_array(itertools.chain.from_iterable(chosen), pa.int64()))
    )
    columns = [wanted[name].to_pylist() for name in _TO_MERGE]
    firsts = [0, *itertools.accumulate(map(len, chosen))]
    partitions = wanted["partition_values"].take(to_array(firsts[:-1], pa.int64())).to_pylist()
    groups = []
    for low, high, entries in zip(firsts, firsts[1:], partitions, strict=False):
        partition = {name: value for name, value in dict(entries).items() if value is not None}
        sources = zip(*(column[low:high] for column in columns), strict=True)
        groups.append(MergeGroup(partition, tuple(_source(partition, source) for source in sources)))
    return groups


def _source(partition: dict[str, str | None], values: Sequence[Any]) -> Add:
    return Add(partition_values=partition, data_change=False, **dict(zip(_TO_MERGE, values, strict=True)))
