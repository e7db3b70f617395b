"""Predicates decided by bounds: what they say holds for every row between them."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given, settings

from indextables.predicate import bind, parse_predicate
from indextables.predicate.arrow import matching
from indextables.predicate.decide import Extent, decide

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
NUMBERS = st.none() | st.integers(-3, 3)
TEXTS = st.none() | st.sampled_from(["", "a", "ab", "abc", "b", "\u00fc", "\U0001f600", "\uffff"])
NUMBER_TESTS = [f"n {operator} {value}" for operator in ("=", "<>", "<", "<=", ">", ">=") for value in (-4, 0, 2)]
TEXT_TESTS = [f"s {operator} '{value}'" for operator in ("=", "<>", "<", "<=", ">", ">=") for value in ("", "ab", "b")]
OTHERS = [
    *("n IN (1, 2)", "n NOT IN (0, 3)", "n IS NULL", "n IS NOT NULL", "s IS NULL", "s IN ('a', 'b')", "s NOT IN ('a')"),
    *("s LIKE 'a%'", "s NOT LIKE 'a%'", "s LIKE 'a%c'", "s LIKE '%'", "s NOT LIKE 'ab_'", "TRUE", "FALSE"),
]
LEAF = st.sampled_from([*NUMBER_TESTS, *TEXT_TESTS, *OTHERS])
WHERE = st.recursive(
    LEAF, lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda x: f"({' '.join(x)})")
)


def extent(values: list, *, knows: bool) -> Extent:
    if not knows:
        return Extent(len(values))
    present = [value for value in values if value is not None]
    ends = (min(present), max(present)) if present else (None, None)
    return Extent(len(values), len(values) - len(present), *ends)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.tuples(NUMBERS, TEXTS), min_size=1, max_size=4), WHERE, st.booleans(), st.booleans())
def test_what_bounds_decide_is_true_of_all_rows_or_of_none(rows, where, knows_numbers, knows_texts) -> None:
    bound = bind(parse_predicate(where), SCHEMA)
    columns = dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True))
    known = {"n": knows_numbers, "s": knows_texts}
    found = decide(bound, lambda column: extent(columns[column.name], knows=known[column.name]))
    truth = [bool(value) for value in matching(pa.table(columns, schema=SCHEMA), bound).to_pylist()]
    assert found is None or truth == [found] * len(rows)


def test_bounds_decide_what_they_can() -> None:
    numbers = Extent(5, 0, 10, 20)
    for where, expected in {
        "n < 10": False,
        "n <= 10": None,
        "n <= 20": True,
        "n > 20": False,
        "n >= 10": True,
        "n = 5": False,
        "n <> 5": True,
        "n IN (1, 30)": False,
        "n NOT IN (1, 30)": True,
        "n IS NULL": False,
        "n < 10 OR n >= 10": True,
        "n < 10 AND n < 15": False,
    }.items():
        assert decide(bind(parse_predicate(where), SCHEMA), lambda _: numbers) is expected, where
    texts = Extent(5, 0, "ab", "abz")
    for where, expected in {
        "s LIKE 'ab%'": True,
        "s LIKE 'b%'": False,
        "s NOT LIKE 'ab%'": False,
        "s LIKE 'a%z'": None,
    }.items():
        assert decide(bind(parse_predicate(where), SCHEMA), lambda _: texts) is expected, where
