"""Which splits become one: small ones of one partition, the oldest first, up to a target size. Pure.

The files of a whole table are judged as columns. Values of Python are made of those files alone that are chosen.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

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
    """How far a merge goes. A split that has `skip_share` of the target size already is left as it is.

    In groups that `is_balanced` asks for, the largest split is no larger than the others together. So the split that a
    byte stands in grows to twice its size with every merge, however often small splits are merged.
    """

    target_bytes: int
    skip_share: float
    max_sources: int
    max_groups: int | None = None
    is_balanced: bool = False


class MergeGroup(NamedTuple):
    """Splits of one partition that become one, the oldest first. Of each there is what it takes to read its rows."""

    partition_values: Mapping[str, str | None]
    sources: tuple[Add, ...]

    @property
    def num_bytes(self) -> int:
        return sum(source.size for source in self.sources)


def plan_merge(files: pa.Table, limits: MergeLimits) -> list[MergeGroup]:
    """The groups of splits to be merged, that of the oldest split first."""
    files = files.filter(pc.less(files["size"], pa.scalar(limits.target_bytes * limits.skip_share, pa.float64())))
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
    """A group of each file alone, the oldest first."""
    order = pc.sort_indices(files, sort_keys=[("modification_time", "ascending"), ("path", "ascending")])
    return _groups(files, order, [range(place, place + 1) for place in range(files.num_rows)])


def _by_partition_and_age(files: pa.Table) -> pa.Table:
    """The number of each row and of its partition, in the order in which groups are filled."""
    rows = pa.table(
        {
            "partition": _partitions(files["partition_values"]),
            "time": files["modification_time"],
            "row": pa.array(range(files.num_rows), pa.int64()),
        }
    )
    return rows.sort_by([("partition", "ascending"), ("time", "ascending"), ("row", "ascending")]).combine_chunks()


def _partitions(maps: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """A number for each row, the same where the partition is. A key that is missing is NULL."""
    whole = maps.combine_chunks()
    names = pc.unique(whole.keys).to_pylist()
    columns = [pc.map_lookup(whole, pa.scalar(name), "last") for name in names]
    return functools.reduce(_joined_codes, map(_codes, columns), pa.repeat(pa.scalar(0, pa.int64()), len(whole)))


def _joined_codes(left: pa.Array[Any], right: pa.Array[Any]) -> pa.Array[Any]:
    return _codes(pc.add(pc.multiply(left, pa.scalar(len(right), pa.int64())), right))


def _codes(values: pa.Array[Any]) -> pa.Array[Any]:
    return pc.dictionary_encode(values, null_encoding="encode").indices.cast(pa.int64())


def _runs(partitions: pa.ChunkedArray[Any]) -> Iterator[tuple[int, int]]:
    """Where the rows of each partition begin and end."""
    low = 0
    for high in pc.run_end_encode(partitions.combine_chunks()).run_ends.to_pylist():
        yield low, high
        low = high


def _filled(low: int, high: int, ends: Sequence[int], limits: MergeLimits) -> Iterator[range]:
    """The rows of a partition in groups, each filled before the next one. `ends` are the sizes, summed up."""
    while low < high:
        before = ends[low - 1] if low else 0
        last = min(high, low + limits.max_sources)
        end = max(low + 1, bisect.bisect_right(ends, before + limits.target_bytes, low, last))
        yield range(low, end)
        low = end


def _balanced(group: range, sizes: Sequence[int]) -> Sequence[int]:
    """The group less the splits that are larger than all smaller ones together."""
    by_size = sorted(group, key=lambda place: sizes[place])
    total = sum(sizes[place] for place in group)
    while by_size and sizes[by_size[-1]] * 2 > total:
        total -= sizes[by_size.pop()]
    return sorted(by_size)


def _numbers(column: pa.ChunkedArray[Any]) -> Sequence[int]:
    """Whole numbers as a view, of which no object is made before it is asked for."""
    values = column.combine_chunks()
    whole: Any = memoryview(values.buffers()[1]).cast("q")
    return whole[values.offset : values.offset + len(values)]  # type: ignore[no-any-return]


def _groups(
    files: pa.Table, rows: pa.ChunkedArray[Any] | pa.Array[Any], chosen: Sequence[Sequence[int]]
) -> list[MergeGroup]:
    """The groups as values, by the places of their files in `rows`."""
    wanted = files.select(["partition_values", *_TO_MERGE]).take(
        rows.take(pa.array(itertools.chain.from_iterable(chosen), pa.int64()))
    )
    columns = [wanted[name].to_pylist() for name in _TO_MERGE]
    firsts = [0, *itertools.accumulate(map(len, chosen))]
    partitions = wanted["partition_values"].take(pa.array(firsts[:-1], pa.int64())).to_pylist()
    groups = []
    for low, high, entries in zip(firsts, firsts[1:], partitions, strict=False):
        partition = {name: value for name, value in dict(entries).items() if value is not None}
        sources = zip(*(column[low:high] for column in columns), strict=True)
        groups.append(MergeGroup(partition, tuple(_source(partition, source) for source in sources)))
    return groups


def _source(partition: dict[str, str | None], values: Sequence[Any]) -> Add:
    return Add(partition_values=partition, data_change=False, **dict(zip(_TO_MERGE, values, strict=True)))
