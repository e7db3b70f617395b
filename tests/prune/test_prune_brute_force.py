"""No file is dropped that holds a matching row, whoever wrote its statistics; and what is exact is exact."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from tests.predicate.predicate_oracle import POOLS, SCHEMA, evaluate, predicates, random_predicate
from tests.prune.scan_files import MAX_LENGTH, files, random_files

from indextables.predicate import bind
from indextables.prune import compute_bounds, files_exactly, may_match, partition_may_match

MIXED = ("l", "d", "s", "ts")


def utf16(text: str) -> bytes:
    return text.encode("utf-16-be")


def matching(contents, predicate) -> list[bool]:
    answers = {tuple(row.items()): row for rows in contents for row in rows}
    answers = {key: evaluate(predicate, row) is True for key, row in answers.items()}
    return [any(answers[tuple(row.items())] for row in rows) for rows in contents]


def check(table, contents, predicate, partition_columns, max_length=MAX_LENGTH) -> None:
    mask = may_match(table, bind(predicate, SCHEMA), partition_columns, max_length=max_length)
    assert mask.null_count == 0
    needed = matching(contents, predicate)
    dropped = [i for i, kept in enumerate(mask.to_pylist()) if not kept and needed[i]]
    assert not dropped, (predicate, table.slice(dropped[0], 1).to_pylist(), contents[dropped[0]])


@settings(max_examples=150)
@given(files(MIXED), predicates(MIXED))
def test_no_matching_file_is_dropped(made, predicate):
    check(*made, predicate, ())


@pytest.mark.parametrize("name", POOLS)
def test_no_matching_file_is_dropped_by_one_column(name):
    rng = Random(name)
    table, contents = random_files(rng, (name,), (), 600)
    for _ in range(150):
        # Only strings were truncated; numbers and timestamps of that length would all count as unknown.
        check(table, contents, random_predicate(rng, (name,), depth=2), (), MAX_LENGTH if name == "s" else 40)


@settings(max_examples=150)
@given(files(("i", "s", "d", "l"), ("i", "s")), predicates(("i", "s", "d", "l")))
def test_no_matching_file_is_dropped_from_partitions(made, predicate):
    check(*made, predicate, ("i", "s"))


@pytest.mark.parametrize("name", POOLS)
def test_partition_values_are_exact(name):
    rng = Random(name)
    table, contents = random_files(rng, (name,), (name,), 100)
    for _ in range(100):
        predicate = random_predicate(rng, (name,))
        bound = bind(predicate, SCHEMA)
        expected = matching(contents, predicate)
        assert files_exactly(table, bound, (name,)).to_pylist() == expected
        assert may_match(table, bound, (name,), max_length=MAX_LENGTH).to_pylist() == expected


@pytest.mark.parametrize("name", POOLS)
def test_no_matching_manifest_is_dropped(name):
    rng = Random(name)
    for _ in range(60):
        table, contents = random_files(rng, (name, "s"), (name,), rng.choice([1, 2, 3]))
        known = compute_bounds(table, (name,), SCHEMA)
        texts = [value for values in table["partition_values"].to_pylist() for _, value in values]
        foreign = [(min(texts, key=key), max(texts, key=key)) for key in (str, utf16)] if texts else []
        for _ in range(10):
            predicate = random_predicate(rng, (name, "s"), depth=1)
            if any(matching(contents, predicate)):
                bound = bind(predicate, SCHEMA)
                assert partition_may_match(known, bound, (name,), typed=True)
                assert all(partition_may_match({name: ends}, bound, (name,), typed=False) for ends in foreign)
