"""Pruning does prune, file by file: what each rule of data skipping drops, and what it keeps out of caution."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.conftest import make_add

from indextables.errors import QueryError
from indextables.predicate import bind, parse_predicate
from indextables.protocol.file_table import AddedFile, files_table
from indextables.prune import (
    NAN_SHOWN,
    NAN_TAG,
    STATS_TAG,
    STATS_TYPED,
    compute_bounds,
    files_exactly,
    may_match,
    partition_may_match,
)

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("place", pa.struct([("city", pa.string())])),
    ]
)
OURS = {STATS_TAG: STATS_TYPED}
OURS_NAN = {STATS_TAG: STATS_TYPED, NAN_TAG: NAN_SHOWN}


def table(*adds) -> pa.Table:
    return files_table([AddedFile(make_add(f"{i}.split", **fields), 0, 0) for i, fields in enumerate(adds)])


def bound(text):
    return bind(parse_predicate(text), SCHEMA)


def kept(text, *adds, partition_columns=(), **options) -> list[bool]:
    return may_match(table(*adds), bound(text), partition_columns, **options).to_pylist()


def bounded(name, low, high, tags=None) -> dict:
    maps = {
        "min_values": {name: low} if low is not None else {},
        "max_values": {name: high} if high is not None else {},
    }
    return {**maps, "tags": tags}


@pytest.mark.parametrize(
    ("name", "low", "high", "dropped", "wanted"),
    [
        ("n", "9", "10", ["n = 8", "n > 10", "n < 9", "n in (1, 11)", "n between 11 and 99"], ["n = 10", "n <> 9"]),
        ("n", "7", "7", ["n <> 7", "n not in (7, 8)", "not (n = 7)"], ["n = 7", "n is null", "n not in (8, 9)"]),
        ("n", "-5", "-2", ["n > -2", "n = -6", "n >= -1.5"], ["n > -2.5", "n < -4.5"]),
        ("x", "-1.5", "1.0E10", ["x < -1.5", "x = 1e11", "x <= -2"], ["x > 1e11", "x <> 1", "x = 1e10"]),
        ("f", "0.1", "0.1", ["f < 0.1", "f = 0.2"], ["f > 0.1", "f <> 0.1"]),
        (
            "s",
            "b",
            "d",
            ["s < 'b'", "s > 'd'", "s like 'a%'", "s like 'e%'", "s in ('a', 'z')"],
            ["s like 'd%'", "s > 'c'"],
        ),
        (
            "s",
            "abc",
            "abd",
            ["s not like 'ab%'", "s like 'b_c%'"],
            ["s not like 'abc%'", "s like '%x'", "s like 'ab_'"],
        ),
        ("b", "false", "false", ["b", "b = true", "b <> false"], ["not b", "b is null"]),
        ("day", "2024-01-01", "2024-01-31", ["day > '2024-01-31'", "day < date '2024-01-01'"], ["day = '2024-01-31'"]),
        (
            "at",
            "2024-01-01T00:00:00Z",
            "2024-01-31T00:00:00.5Z",
            ["at > '2024-01-31 00:00:00.5'", "at > '2024-01-31'", "at <= '2023-12-31'"],
            ["at > '2024-01-31 00:00:00'", "at = '2024-01-31'", "at >= '2024-01-31'", "at <= '2024-01-01'"],
        ),
        ("price", "9.99", "10.00", ["price < 9.99", "price > 10", "price = 9.985"], ["price = 10", "price > 9.995"]),
    ],
)
def test_typed_bounds_drop_what_lies_outside(name, low, high, dropped, wanted):
    for text in dropped:
        assert kept(text, bounded(name, low, high, OURS)) == [False], text
    for text in wanted:
        assert kept(text, bounded(name, low, high, OURS)) == [True], text


@pytest.mark.parametrize(
    ("low", "high", "dropped", "wanted"),
    [
        ("10", "20", ["n = 5", "n = 30", "n between 30 and 39", "n < 0"], ["n > 50", "n < 5", "n = 15", "n = 2"]),
        ("10", "9", ["n = 95", "n < 0"], ["n = 5", "n = 89", "n > 50"]),
        ("5", "1200", ["n > 1200", "n < 5", "n = 3"], ["n = 1000"]),
        ("7", "7", ["n > 7", "n <> 7", "n < 7"], ["n = 7"]),
        ("-20", "-10", ["n > -10", "n < -20", "n = -30", "n = 5"], ["n = -15"]),
        ("-10", "-20", ["n > 0", "n = -30", "n = 5"], ["n < -50", "n = -15"]),
        ("1600000000000", "1600000999999", ["n between 1700000000000 and 1700000000999"], ["n > 1700000000000"]),
        ("01", "12", [], ["n = 99", "n > 50"]),
        ("+5", "+9", [], ["n = 15"]),
        ("20", "10", [], ["n = 15", "n > 25", "n < 5"]),
    ],
)
def test_foreign_numbers_are_dropped_only_if_no_number_has_a_text_between(low, high, dropped, wanted):
    for text in dropped:
        assert kept(text, bounded("n", low, high)) == [False], text
    for text in wanted:
        assert kept(text, bounded("n", low, high)) == [True], text


def test_foreign_dates_strings_and_booleans_are_dropped_like_ours():
    assert kept("day > '2024-01-31'", bounded("day", "2024-01-01", "2024-01-31")) == [False]
    assert kept("s > 'd'", bounded("s", "b", "d")) == [False]
    assert kept("b", bounded("b", "False", "False")) == [False]


def test_foreign_timestamps_have_slack_for_fractions_and_zones():
    zoned = bounded("at", "2024-01-10T00:00:00Z", "2024-01-10T12:00:00Z")
    assert kept("at > '2024-01-10 12:00:02'", zoned) == [False]
    assert kept("at > '2024-01-10 12:00:00.5'", zoned) == [True]
    unzoned = bounded("at", "2024-01-10 00:00:00.0", "2024-01-10 12:00:00.0")
    assert kept("at > '2024-01-10 20:00:00'", unzoned) == [True]
    assert kept("at > '2024-01-12'", unzoned) == [False]
    assert kept("local > '2024-01-10 20:00:00'", bounded("local", "2024-01-10 00:00:00", "2024-01-10 12:00:00")) == [
        False
    ]


def test_a_foreign_maximum_may_be_truncated():
    long = bounded("s", "a", "a" * 32)
    assert kept(f"s = '{'a' * 40}'", long) == [True]
    assert kept(f"s like '{'a' * 33}%'", long) == [True]
    assert kept(f"s > '{'a' * 32}'", long) == [True]
    assert kept("s > 'b'", long) == [False]
    assert kept(f"s = '{'a' * 40}'", long, max_length=33) == [False]
    assert kept(f"s = '{'a' * 40}'", bounded("s", "a", "a" * 32, OURS)) == [False]


def test_a_foreign_bound_may_have_been_ordered_by_utf_16():
    smile, private = "\U0001f600", "\ue000"
    assert kept(f"s = '{smile}'", bounded("s", "a", private)) == [True]
    assert kept(f"s = '{smile}'", bounded("s", "a", private, OURS)) == [False]
    assert kept(f"s = '{smile}'", bounded("s", "a", "b")) == [False]
    assert kept("s = 'é'", bounded("s", smile, "\U0010ffff")) == [False]
    assert kept(f"s <= '{private}'", bounded("s", smile, "\U0010ffff")) == [True]


def test_nan_may_hide_unless_the_writer_says_that_it_shows():
    for tags, expected in ((None, True), (OURS, True), (OURS_NAN, False)):
        for text in ("x > 5", "x >= 5", "x = cast('NaN' as double)", "not (x <= 5)", "x in (7, cast('NaN' as double))"):
            assert kept(text, bounded("x", "1.0", "4.0", tags)) == [expected], (tags, text)
    assert kept("x > 5", bounded("x", "1.0", "NaN", OURS_NAN)) == [True]
    assert kept("x < 0", bounded("x", "NaN", "NaN", OURS_NAN)) == [True]


def test_a_contradiction_matches_nothing():
    assert kept("n > 9223372036854775807 and n <= 5", {}, bounded("n", "1", "9")) == [False, False]
    assert kept("n < -9223372036854775808 and n >= 5", bounded("n", "1", "9", OURS)) == [False]
    assert kept("n > 9223372036854775807", bounded("n", "1", "9", OURS), bounded("n", "1", "9")) == [False, False]


def test_what_is_unknown_is_kept():
    unknown = [{}, bounded("n", None, None), bounded("n", "x", "y", OURS), bounded("s", "a", "b", OURS)]
    assert kept("n = 5 and n > 3", *unknown) == [True] * 4
    assert kept("day = '2024-01-01'", bounded("day", "19000", "19001", OURS)) == [True]
    assert kept("at > '2124-01-01'", bounded("at", "1704067200000", "1704067200000", OURS)) == [True]
    assert kept("place.city = 'x'", bounded("place.city", "a", "b", OURS)) == [True]
    assert kept("at > '2124-01-01'", bounded("at", "2024-02-30T00:00:00Z", "2024-02-30T00:00:00Z", OURS)) == [True]


def test_one_unreadable_bound_does_not_hide_the_others():
    for name, good, text in (
        ("n", "5", "n = 7"),
        ("x", "5.0", "x < 1"),
        ("price", "5.00", "price = 7"),
        ("day", "2024-01-01", "day = '2024-01-02'"),
        ("at", "2024-01-01 00:00:00+01:00", "at = '2024-01-03'"),
        ("b", "true", "b = false"),
    ):
        files = [bounded(name, good, good, OURS), bounded(name, "?", "?", OURS), bounded(name, good, good, OURS)]
        assert kept(text, *files) == [False, True, False], name


def test_one_side_is_enough():
    assert kept("n > 5", bounded("n", None, "4", OURS), bounded("n", "1", None, OURS)) == [False, True]
    assert kept("n < 5", bounded("n", None, "4", OURS), bounded("n", "7", None, OURS)) == [True, False]


def test_the_stats_json_serves_where_the_maps_are_silent():
    stats = {"numRecords": 10, "minValues": {"n": 5, "s": "b"}, "maxValues": {"n": 9, "s": "c"}, "nullCount": {"n": 0}}
    told = {"stats": json.dumps(stats), "tags": OURS}
    other = {**told, "min_values": {"s": "b"}, "max_values": {"s": "c"}}
    assert kept("n > 9", told, other, {"stats": "{", "tags": OURS}, {"stats": "[]", "tags": OURS}) == [
        False,
        False,
        True,
        True,
    ]
    assert kept("s < 'b'", told) == [False]
    assert kept("n = 7 and s = 'bb'", told) == [True]
    nested = json.dumps({"minValues": {"n": {"x": 1}}, "maxValues": {"n": None}, "nullCount": 5})
    assert kept("n = 7", {"stats": nested, "tags": OURS}) == [True]


def test_null_counts_decide_questions_of_null():
    none, some, only = ({"stats": json.dumps({"nullCount": {"n": count}})} for count in (0, 5, 10))
    assert kept("n is null", none, some, only, {}) == [False, True, True, True]
    assert kept("n is not null", none, some, only, {}) == [True, True, False, True]
    assert kept("place.city is null", {"stats": json.dumps({"nullCount": {"place.city": 0}})}) == [True]


def test_partition_values_are_exact_and_a_missing_key_is_null():
    files = [{"partition_values": {"n": value} if value else {}} for value in ("9", "10", None, "x")]
    for text, expected in (
        ("n = 10", [False, True, False, True]),
        ("n < 10", [True, False, False, True]),
        ("n is null", [False, False, True, True]),
        ("n <> 9", [False, True, False, True]),
        ("n <> 9 and s = 'a'", [False, True, False, True]),
    ):
        assert kept(text, *files, partition_columns=("n",)) == expected, text
    readable = table(*files[:3])
    assert files_exactly(readable, bound("not n between 10 and 11"), ("n",)).to_pylist() == [True, False, False]
    assert files_exactly(readable, bound("true"), ()).to_pylist() == [True] * 3
    with pytest.raises(QueryError, match=r"value `x` in file `3\.split` is not a `int64`"):
        files_exactly(table(*files), bound("n = 1"), ("n",))
    with pytest.raises(QueryError, match="column `s` because it is not a partition column"):
        files_exactly(readable, bound("n = 1 or s = 'x'"), ("n",))


def test_statistics_of_a_partition_column_are_not_asked():
    file = {"partition_values": {"n": "5"}, **bounded("n", "7", "9", OURS)}
    assert kept("n >= 5 and n <= 6", file, partition_columns=("n",)) == [True]


def test_bounds_are_typed_tight_and_blind_to_null():
    columns = ("n", "day", "x")
    values = [
        {"n": "9", "x": "1.0"},
        {"n": "10", "day": "2024-01-02", "x": "NaN"},
        {"n": "-3", "day": "2023-12-31", "x": "2"},
    ]
    made = compute_bounds(table(*({"partition_values": value} for value in values)), columns, SCHEMA)
    assert made == {"n": ("-3", "10"), "day": ("2023-12-31", "2024-01-02")}
    assert compute_bounds(table({"partition_values": {}}), columns, SCHEMA) == {}
    assert compute_bounds(table({"partition_values": {"n": "x"}}), columns, SCHEMA) == {}
    assert compute_bounds(table(), columns, SCHEMA) == {}


def test_manifests_are_dropped_by_their_bounds():
    bounds = {"n": ("-3", "10"), "day": (None, "2024-01-02")}
    for text, expected in (
        ("n > 10", False),
        ("n = 5", True),
        ("n is null", True),
        ("day > '2024-01-02'", False),
        ("day < '1999-01-01'", True),
        ("s = 'x'", True),
        ("n > 10 or s = 'x'", True),
        ("n > 10 and s = 'x'", False),
    ):
        assert partition_may_match(bounds, bound(text), ("n", "day"), typed=True) is expected, text
    assert partition_may_match({"n": ("10", "9")}, bound("n = 89"), ("n",), typed=False) is True
    assert partition_may_match({"n": ("10", "20")}, bound("n = 5"), ("n",), typed=False) is False
    assert partition_may_match({}, bound("n = 5"), ("n",), typed=False) is True


def test_tables_in_chunks_and_slices_and_without_rows():
    files = [bounded("n", str(i), str(i), OURS) for i in range(6)]
    whole = pa.concat_tables([table(*files[:2]), table(), table(*files[2:])])
    assert may_match(whole, bound("n >= 4"), ()).to_pylist() == [False] * 4 + [True] * 2
    assert may_match(whole.slice(3, 2), bound("n >= 4"), ()).to_pylist() == [False, True]
    for text in ("n = 1", "n is null", "s like 'a%' or x > 1", "true"):
        assert may_match(table(), bound(text), ()).to_pylist() == []
        assert may_match(whole.slice(0, 0), bound(text), ("n",)).to_pylist() == []
    assert kept("false", {}) == [False]
