"""A value means the same in a query and in a predicate: NaN, infinity, zero, and dates beside timestamps."""

from __future__ import annotations

import datetime as dt
import math

import pyarrow as pa
import pytest

import indextables as it
from indextables.split.index.fields import FieldMap
from indextables.split.query import parse_query
from indextables.split.search.row_matcher import RowMatcher

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("tn", pa.timestamp("us")),
    ]
)
FLOATS = [math.nan, 1.0, 7.0, math.inf, -math.inf, None, -0.0, 0.0, 5.0]
MOMENTS = [
    None,
    "2025-12-31T23:59:59.999999",
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00.000001",
    "2026-01-01T23:59:59.999999",
    "2026-01-02T00:00:00",
    "2026-01-02T12:00:00",
    "1969-12-31T12:00:00",
    "9999-12-31T23:59:59",
]
ALIKE = [
    ("f:nan", "f = 'nan'"),
    ("f:NaN", "f = 'nan'"),
    ('f:"nan"', "f <=> 'nan'"),
    ("NOT f:nan", "f <> 'nan' OR f IS NULL"),
    ("f:IN [nan 1]", "f IN ('nan', 1)"),
    ("f:>5", "f > 5"),
    ("f:>=5", "f >= 5"),
    ("f:[5 TO *]", "f >= 5"),
    ("f:{5 TO nan]", "f > 5 AND f <= 'nan'"),
    ("f:[5 TO nan}", "f >= 5 AND f < 'nan'"),
    ("f:[nan TO *]", "f >= 'nan'"),
    ("f:[nan TO nan]", "f >= 'nan' AND f <= 'nan'"),
    ("f:>nan", "f > 'nan'"),
    ("f:[nan TO 5]", "f >= 'nan' AND f <= 5"),
    ("f:<nan", "f < 'nan'"),
    ("f:<=nan", "f <= 'nan'"),
    ("f:<=5", "f <= 5"),
    ("f:[* TO *]", "f IS NOT NULL"),
    ("f:*", "f IS NOT NULL"),
    ("NOT f:*", "f IS NULL"),
    ("f:inf", "f = 'inf'"),
    ("f:-inf", "f = '-inf'"),
    ("f:0", "f = 0"),
    ("f:\\-0.0", "f = -0.0"),
    ("g:nan OR g:1", "g IN ('nan', 1)"),
    ("g:>5", "g > 5"),
    ("ts:2026-01-01", "ts = '2026-01-01'"),
    ("ts:2026-1-1", "ts = DATE '2026-01-01'"),
    ("NOT ts:2026-01-01", "ts <> '2026-01-01' OR ts IS NULL"),
    ("ts:[2026-01-01 TO 2026-01-01]", "ts BETWEEN '2026-01-01' AND '2026-01-01'"),
    ("ts:{2026-01-01 TO 2026-01-03}", "ts > '2026-01-01' AND ts < '2026-01-03'"),
    ("ts:{2026-01-01 TO 2026-01-01}", "ts > '2026-01-01' AND ts < '2026-01-01'"),
    ("ts:>2026-01-01", "ts > '2026-01-01'"),
    ("ts:>=2026-01-01", "ts >= '2026-01-01'"),
    ("ts:<2026-01-01", "ts < '2026-01-01'"),
    ("ts:<=2026-01-01", "ts <= '2026-01-01'"),
    ("ts:IN [2026-01-01 2026-01-02T12:00:00Z]", "ts IN ('2026-01-01', '2026-01-02 12:00:00')"),
    ("NOT ts:IN [2026-01-01 1969-12-31]", "ts NOT IN ('2026-01-01', '1969-12-31') OR ts IS NULL"),
    ('ts:"2026-01-01 00:00:00"', "ts = '2026-01-01 00:00:00'"),
    ("ts:2026-01-01T02:00:00+02:00", "ts = TIMESTAMP '2026-01-01'"),
    ("ts:9999-12-31", "ts = '9999-12-31'"),
    ("tn:2026-01-01", "tn = '2026-01-01'"),
    ("tn:[2025-12-31 TO 2026-01-01}", "tn >= '2025-12-31' AND tn < '2026-01-01'"),
]


def rows(first: int) -> pa.Table:
    moments = [None if text is None else dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in MOMENTS]
    return pa.table(
        {
            "id": list(range(first, first + len(FLOATS))),
            "f": FLOATS,
            "g": FLOATS,
            "ts": moments,
            "tn": [None if moment is None else moment.replace(tzinfo=None) for moment in moments],
        },
        SCHEMA,
    )


@pytest.fixture(scope="module", params=["fast", "plain", "merged"])
def table(request, tmp_path_factory) -> it.Table:
    """Rows with and without NaN, by indexes that hold numbers as terms, as fast columns, and in linked segments."""
    place = tmp_path_factory.mktemp("values")
    properties = {"indexing.fastfields": "id"} if request.param == "plain" else {}
    options = {"cache.disk.path": str(place / "cache")}
    table = it.Table.create(place / "t", SCHEMA, properties=properties, options=options)
    table.append(rows(0))
    table.append(rows(100).slice(1, 4))
    table.append(rows(200))
    if request.param == "merged":
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("indextables.split.combine.ROWS_PER_SEGMENT", 1)
            table.merge_splits()
    return table


def ids(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


@pytest.mark.parametrize(("query", "where"), ALIKE)
def test_a_query_and_a_predicate_find_the_same_rows(table, query, where) -> None:
    expected = ids(table.search(where=where))
    assert ids(table.search(query)) == expected
    assert table.count(query) == len(expected)
    assert ids(table.search(query, score=True, limit=1000)) == expected
    whole = table.search().combine_chunks().to_batches()[0]
    matches = RowMatcher(parse_query(query), fields_of(table)).matches(whole)
    assert ids(pa.Table.from_batches([whole]).filter(matches)) == expected
    assert table.stats("id", query=query)["count"].to_pylist() == [len(expected)]


def fields_of(table: it.Table) -> FieldMap:
    return FieldMap.from_json(table.files()["doc_mapping_json"][0].as_py())


def test_the_pairs_tell_rows_apart(table) -> None:
    assert len({tuple(ids(table.search(where=where))) for _, where in ALIKE}) > 20


@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        ([math.nan, 1.0, 2.0], 1.0, math.nan),
        ([math.nan], math.nan, math.nan),
        ([math.inf, math.nan, None], math.inf, math.nan),
        ([1.0, None], 1.0, 1.0),
        ([None], None, None),
    ],
)
def test_nan_is_the_greatest_value_of_stats(tmp_path, values, least, greatest) -> None:
    table = it.Table.create(tmp_path / "t", pa.schema([("f", pa.float64())]))
    for value in values:
        table.append(pa.table({"f": pa.array([value], pa.float64())}))
    for where in (None, "f IS NULL OR f IS NOT NULL"):
        (row,) = table.stats("f", where=where).to_pylist()
        assert repr((row["min"], row["max"])) == repr((least, greatest))


def test_rows_without_nan_are_not_indexed_again(tmp_path, monkeypatch) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, options={"cache.disk.path": str(tmp_path / "cache")})
    table.append(rows(0).slice(1))
    monkeypatch.setattr("indextables.split.search.searcher.index_again", None)
    assert ids(table.search("f:>5")) == ids(table.search(where="f > 5")) != []
    assert table.count("f:nan") == 0
