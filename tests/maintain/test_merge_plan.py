"""A plan of a merge: whole groups of one partition, as large as they may be, and no split in two of them."""

from __future__ import annotations

import collections
import itertools
import time

import hypothesis.strategies as st
from hypothesis import given, settings
from tests.conftest import make_add

from indextables.maintain.merge.merge_plan import MergeGroup, MergeLimits, plan_merge
from indextables.protocol.file_table import AddedFile, files_table

PARTITIONS = [
    {},
    {"day": "1"},
    {"day": "2"},
    {"day": ""},
    {"day": "1", "region": "eu"},
    {"region": "eu", "day": "1"},
    {"region": "eu"},
    {"day": None, "region": "eu"},
]


def files(*entries: tuple[int, int, dict]):
    """Splits of these sizes, moments and partitions, named by their place."""
    adds = [
        make_add(f"{number}.split", size=size, modification_time=moment, partition_values=values)
        for number, (size, moment, values) in enumerate(entries)
    ]
    return files_table(AddedFile(add, 1, 1) for add in adds)


def names(groups: list[MergeGroup]) -> list[list[int]]:
    return [[int(source.path.removesuffix(".split")) for source in group.sources] for group in groups]


def sized(*sizes: int):
    return files(*((size, number, {}) for number, size in enumerate(sizes)))


def limits(target_bytes: int = 100, **others) -> MergeLimits:
    return MergeLimits(**{"target_bytes": target_bytes, "skip_share": 0.45, "max_sources": 1000, **others})


def known(values: dict) -> dict:
    return {name: value for name, value in values.items() if value is not None}


ENTRIES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5), st.sampled_from(PARTITIONS)), max_size=40)


@settings(max_examples=150)
@given(
    ENTRIES,
    st.integers(1, 150),
    st.sampled_from([0.3, 0.45, 1.0]),
    st.integers(2, 6),
    st.none() | st.integers(1, 4),
    st.booleans(),
)
def test_a_plan_keeps_its_limits(entries, target, share, most, max_groups, is_balanced) -> None:
    table = files(*entries)
    groups = plan_merge(table, MergeLimits(target, share, most, max_groups, is_balanced))
    chosen = names(groups)
    everything = list(itertools.chain.from_iterable(chosen))
    assert len(everything) == len(set(everything))
    assert max_groups is None or len(groups) <= max_groups
    for group, members in zip(groups, chosen, strict=True):
        sizes = [entries[number][0] for number in members]
        assert 2 <= len(members) <= most
        assert group.num_bytes == sum(sizes) <= target
        assert max(sizes) < target * share
        assert all(known(entries[number][2]) == group.partition_values for number in members)
        assert members == sorted(members, key=lambda number: (entries[number][1], number))
        assert not is_balanced or max(sizes) * 2 <= sum(sizes)
    ages = [(entries[members[0]][1]) for members in chosen]
    assert ages == sorted(ages)
    for group in groups:
        for source in group.sources:
            assert (source.num_records, source.footer_start_offset, source.num_merge_ops) == (10, None, None)


@settings(max_examples=100)
@given(ENTRIES, st.integers(1, 150), st.integers(2, 6))
def test_groups_are_filled_as_a_plain_loop_fills_them(entries, target, most) -> None:
    by_partition: dict[frozenset, list[int]] = collections.defaultdict(list)
    for number, (size, _, values) in sorted(enumerate(entries), key=lambda entry: (entry[1][1], entry[0])):
        if size < target * 0.45:
            by_partition[frozenset(known(values).items())].append(number)
    expected: list[list[int]] = []
    for members in by_partition.values():
        group: list[int] = []
        for number in members:
            if len(group) == most or sum(entries[one][0] for one in (*group, number)) > target:
                expected.append(group)
                group = []
            group.append(number)
        expected.append(group)
    plan = plan_merge(files(*entries), limits(target, max_sources=most))
    assert sorted(names(plan)) == sorted(group for group in expected if len(group) > 1)


def test_the_oldest_groups_come_first() -> None:
    table = files((40, 9, {"day": "1"}), (40, 3, {"day": "2"}), (40, 8, {"day": "1"}), (40, 4, {"day": "2"}))
    assert names(plan_merge(table, limits())) == [[1, 3], [2, 0]]
    assert names(plan_merge(table, limits(max_groups=1))) == [[1, 3]]


def test_a_large_split_is_left_as_it_is() -> None:
    assert names(plan_merge(sized(10, 45, 44, 100, 10), limits())) == [[0, 2, 4]]


def test_a_split_alone_is_no_group() -> None:
    assert plan_merge(sized(), limits()) == []
    assert plan_merge(sized(10), limits()) == []
    assert plan_merge(files((10, 1, {"day": "1"}), (10, 1, {})), limits()) == []
    assert plan_merge(sized(80, 80), limits(skip_share=1.0)) == []


def test_splits_that_outweigh_the_others_wait_until_these_have_grown() -> None:
    assert names(plan_merge(sized(100, 8, 1, 1, 1), limits(1000, is_balanced=True))) == [[2, 3, 4]]
    assert names(plan_merge(sized(3, 1, 1, 1), limits(1000, is_balanced=True))) == [[0, 1, 2, 3]]
    assert plan_merge(sized(8, 4, 2, 1), limits(1000, is_balanced=True)) == []


def test_balanced_merges_after_every_write_rewrite_a_byte_a_few_times() -> None:
    """As merges on write do: a merge after each of 1,000 writes of one byte."""
    sizes: list[int] = []
    rewritten = 0
    for _ in range(1_000):
        sizes.append(1)
        for group in names(plan_merge(sized(*sizes), limits(10**6, is_balanced=True))):
            total = sum(sizes[number] for number in group)
            sizes = [*(size for number, size in enumerate(sizes) if number not in group), total]
            rewritten += total
    assert sum(sizes) == 1_000
    assert len(sizes) <= 20
    assert rewritten <= 1_000 * 10


def test_many_files_are_planned_fast() -> None:
    number = 100_000
    table = files(*((10 + at % 7, at % 1000, {"day": str(at % 50)}) for at in range(number)))
    started = time.process_time()
    groups = plan_merge(table, limits(10_000))
    assert time.process_time() - started < 2
    assert sum(len(group.sources) for group in groups) == number
