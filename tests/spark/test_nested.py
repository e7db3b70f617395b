"""Structs, arrays and maps give through every scan what a plain Parquet copy gives: searched, filtered and stored."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import udf
from tests.spark.conftest import rows_of

import indextables as it
from indextables.errors import QueryError

POINT = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.int32())])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("m", pa.string()),
        ("n", POINT),
        ("deep", pa.struct([("x", pa.float64()), ("inner", pa.struct([("p", pa.int64()), ("q", pa.int64())]))])),
        ("points", pa.list_(POINT)),
        ("named", pa.map_(pa.string(), POINT)),
        ("numbers", pa.list_(pa.int64())),
        ("flags", pa.list_(pa.bool_())),
        ("weights", pa.map_(pa.string(), pa.float64())),
        ("zone", pa.string()),
    ]
)
QUERIES = [
    "SELECT id, n.c, n.b FROM {t}",
    "SELECT deep.inner.q, points.b, get(points, 0).c, named['k'].c FROM {t}",
    "SELECT id FROM {t} WHERE n.c = 21 OR deep.inner.q > 400",
    "SELECT sum(n.c), max(named['k'].b), sum(deep.inner.q) FROM {t} GROUP BY n.b",
    "SELECT a.n.c, b.deep.inner.q FROM {t} a JOIN {t} b ON a.n.c = b.n.c AND a.n.b <=> b.n.b",
    "SELECT p.c, p.b FROM (SELECT explode(points) AS p FROM {t})",
    "SELECT numbers, flags, weights, get(numbers, 1), n FROM {t}",
]


def rows() -> list[dict[str, Any]]:
    """Rows with a null at every depth."""

    def point(number: int) -> dict[str, Any] | None:
        value = {"a": number, "b": None if number % 3 == 0 else f"b{number}", "c": number + 20}
        return None if number % 5 == 4 else value

    return [
        {
            "id": number,
            "m": "hello world",
            "n": point(number),
            "deep": None if number == 3 else {"x": 0.5, "inner": None if number == 5 else {"p": 1, "q": number * 100}},
            "points": None if number == 2 else [point(number), None, point(number + 1)][: number % 4],
            "named": None if number == 6 else [("k", point(number)), ("l", None)],
            "numbers": [[1, None, 3], [None, None], [], None][number % 4],
            "flags": [[None, True], [None], []][number % 3],
            "weights": [("a", None), ("b", 1.5)] if number % 2 else [("a", None)],
            "zone": ("eu", "us", None)[number % 3],
        }
        for number in range(8)
    ]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> it.Table:
    """A table of two appends, the second of which has no number in any array."""
    table = it.Table.create(
        tmp_path_factory.mktemp("nested") / "table", SCHEMA, partition_by=("zone",), indexing={"m": "text"}
    )
    data = pa.Table.from_pylist(rows(), SCHEMA)
    table.append(data.slice(0, 4))
    table.append(data.slice(4))
    return table


@pytest.fixture(scope="module")
def session(spark, table, tmp_path_factory) -> Any:
    """An enabled session with the table under several names, and a plain copy."""
    session = it.enable(spark.newSession())
    copy = tmp_path_factory.mktemp("plain") / "copy.parquet"
    pq.write_table(pa.Table.from_pylist(rows(), SCHEMA), copy)
    session.read.parquet(str(copy)).createOrReplaceTempView("plain")
    tasks = {"search.driver.maxRows": 0}
    for name, frame in {
        "found": it.read(session, table.url, search="hello"),
        "by_tasks": it.read(session, table.url, search="hello", options=tasks),
        "limited": it.read(session, table.url, limit=100),
        "chosen": it.read(session, table.url, search="hello", columns=SCHEMA.names[::-1], options=tasks),
        "loaded": session.read.format("indextables").load(table.url),
        "in_sql": session.sql(f"SELECT * FROM indextables_table('{table.url}') WHERE m TEXTSEARCH 'hello'"),
    }.items():
        frame.createOrReplaceTempView(name)
    return session


@pytest.mark.parametrize(
    ("name", "queries"),
    [
        ("found", QUERIES),
        ("by_tasks", QUERIES[:3]),
        ("limited", QUERIES[3:5]),
        ("chosen", QUERIES[-1:]),
        ("loaded", QUERIES),
        ("in_sql", QUERIES[:2]),
    ],
)
def test_fields_of_structs_are_those_that_were_asked_for(session, name, queries) -> None:
    for query in queries:
        assert rows_of(session.sql(query.format(t=name))) == rows_of(session.sql(query.format(t="plain"))), query


def test_fields_of_structs_beside_a_void_column(session, tmp_path) -> None:
    frame = session.sql("SELECT named_struct('a', 1, 'b', 'x', 'c', null) AS n, 'hello' AS m, null AS v")
    frame.write.format("indextables").option("indexing.m", "text").save(str(tmp_path / "void"))
    for found in (
        session.read.format("indextables").load(str(tmp_path / "void")),
        it.read(session, str(tmp_path / "void"), search="hello"),
    ):
        assert rows_of(found.select("n.b", "v", "n.c")) == [("x", None, None)]
        assert rows_of(found.where("n.b = 'x'").select("n.a")) == [(1,)]


def test_fields_of_structs_are_stored_as_they_were_found(session, tmp_path) -> None:
    session.sql("SELECT id, n.c AS c, points.b AS bs FROM found").write.format("indextables").save(str(tmp_path / "t"))
    stored = it.Table.open(tmp_path / "t").search()
    assert rows_of(stored) == rows_of(session.sql("SELECT id, n.c, points.b FROM plain"))


def test_a_given_schema_of_other_case_is_found_by_the_driver(session, table) -> None:
    given = session.read.schema("ID bigint, N struct<a: int, b: string, c: int>").format("indextables")
    found = given.option("search", "hello").load(table.url)
    assert rows_of(found.select("N.c", "ID")) == rows_of(session.sql("SELECT n.c, id FROM plain"))


def test_arrays_of_numbers_that_are_all_null_are_scanned_natively(enabled, tmp_path) -> None:
    kinds = {"i": pa.int32(), "l": pa.int64(), "f": pa.float32(), "d": pa.float64(), "day": pa.date32()}
    schema = pa.schema([("id", pa.int64()), *((name, pa.list_(kind)) for name, kind in kinds.items())])
    table = it.Table.create(tmp_path / "t", schema)
    none = [None, None]
    table.append(pa.Table.from_pylist([{"id": n, **dict.fromkeys(kinds, none)} for n in range(2)], schema))
    frame = enabled.read.format("indextables").load(table.url)
    assert rows_of(frame.selectExpr(*(f"transform({name}, x -> x)" for name in kinds))) == [(none,) * len(kinds)] * 2
    assert rows_of(frame.selectExpr(*kinds).distinct()) == [(none,) * len(kinds)]


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_functions_of_python_on_a_partition_column_alone(session) -> None:
    in_europe = udf(lambda zone: zone == "eu", "boolean")
    expected = rows_of(session.sql("SELECT id FROM plain WHERE zone = 'eu'"))
    for name in ("loaded", "found", "by_tasks"):
        assert rows_of(session.table(name).filter(in_europe("zone")).select("id")) == expected
    assert rows_of(session.sql("SELECT id FROM loaded WHERE zone FIELDMATCH 'eu' OR zone = 'x'")) == expected
    assert rows_of(session.sql("SELECT id FROM loaded WHERE coalesce(zone FIELDMATCH 'eu', true)")) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT zone, count(*) FROM {t} GROUP BY zone HAVING zone {eu}",
        "SELECT max(id) FROM {t} GROUP BY m, zone HAVING zone {eu} AND max(id) > 1",
        "SELECT id FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.id = a.id + 1 AND a.zone {eu})",
        "SELECT id, (SELECT count(*) FROM {t} b WHERE b.id = a.id AND a.zone {eu}) AS k FROM {t} a",
        "SELECT id FROM {t} a, LATERAL (SELECT a.zone {eu} AS k) WHERE k",
        "SELECT id FROM (SELECT id, zone AS z, z {eu} AS k FROM {t}) WHERE k",
        "WITH c AS (SELECT * FROM {t}) SELECT id FROM c WHERE id IN (SELECT id FROM c WHERE zone {eu})",
        "WITH c AS (SELECT * FROM {t}) SELECT (SELECT max(id) FROM (SELECT zone AS z, id FROM c) WHERE z {eu}) FROM c",
    ],
)
def test_searches_in_having_in_correlated_subqueries_and_behind_new_names(session, query) -> None:
    found = session.sql(query.format(t="loaded", eu="FIELDMATCH 'eu'"))
    assert rows_of(found) == rows_of(session.sql(query.format(t="plain", eu="= 'eu'"))) != []


def test_a_search_on_a_field_of_a_struct_says_how_it_is_written(session) -> None:
    with pytest.raises(
        QueryError, match=r"on `n\.b` because it is a field of the struct `n`, which is indexed as a whole"
    ) as refused:
        session.sql("SELECT id FROM loaded l WHERE l.n.b FIELDMATCH 'b1'")
    assert "`n INDEXQUERY 'n.b:value'`" in str(refused.value)
    expected = session.sql("SELECT id FROM plain WHERE n.b = 'b1'")
    assert rows_of(session.sql("SELECT id FROM loaded WHERE n INDEXQUERY 'n.b:b1'")) == rows_of(expected)
    with pytest.raises(QueryError, match="not a column of a table of this format"):
        session.sql("SELECT id FROM plain WHERE n.b FIELDMATCH 'b1'")
