"""No scan sees the filter of another: every query over a reused frame or view gives what a Parquet copy gives.

In PySpark 4.3 a reader that takes pushed filters leaks them between the scans of one relation. These tests fail for
such a reader.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.spark.conftest import rows_of

from indextables.spark.scan.reading import read

pytestmark = pytest.mark.slow

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"

# In order: each is run over one and the same frame, after all the ones before it.
QUERIES: list[Callable[[Any], Any]] = [
    lambda frame: frame.filter("id = 1"),
    lambda frame: frame,
    lambda frame: frame.filter("id = 1").union(frame.filter("id = 2")).union(frame.filter("level = 'ERROR'")),
    lambda frame: frame.filter("day = '2026-01-01'").select("id").join(frame.filter("took > 5"), "id"),
    lambda frame: frame.select("id").exceptAll(frame.filter("day = '2026-01-02'").select("id")),
    lambda frame: frame.filter("id BETWEEN 10 AND 12 OR took IS NULL"),
    lambda frame: frame.groupBy("level").count(),
]
STATEMENTS = [
    "SELECT * FROM {v} WHERE id = 1",
    "SELECT * FROM {v} WHERE id = 2",
    "SELECT count(*) FROM {v}",
    "SELECT * FROM {v} WHERE id = 3 UNION ALL SELECT * FROM {v} WHERE id = 4",
    "SELECT a.id, b.level FROM {v} a JOIN {v} b ON a.id = b.id WHERE a.day = '2026-01-01' AND b.took > 10",
    "SELECT id FROM {v} WHERE id IN (SELECT max(id) FROM {v} WHERE level = 'INFO')",
]
VIEW = "the_view"


@pytest.fixture(params=["true", "false"])
def pushing(request, session) -> Iterator[Any]:
    """A session of either kind, with Spark's push-down into Python sources on or off."""
    session.conf.set(PUSH_DOWN, request.param)
    yield session
    session.conf.unset(PUSH_DOWN)


@pytest.fixture
def eager(session) -> Iterator[Any]:
    """A session of either kind that pushes what it can."""
    session.conf.set(PUSH_DOWN, "true")
    yield session
    session.conf.unset(PUSH_DOWN)


@pytest.fixture(scope="module")
def copy(spark, logs, tmp_path_factory) -> Any:
    """The same rows as plain Parquet."""
    path = str(tmp_path_factory.mktemp("copy") / "rows.parquet")
    pq.write_table(logs.search(), path)
    return spark.read.parquet(path)


@pytest.fixture(scope="module")
def answers(copy) -> list[list[tuple[Any, ...]]]:
    """What the queries give on the copy."""
    return [rows_of(query(copy)) for query in QUERIES]


@pytest.fixture(scope="module")
def view_answers(spark, copy) -> list[list[tuple[Any, ...]]]:
    """What the statements give on the copy."""
    copy.createOrReplaceTempView(VIEW)
    found = [rows_of(spark.sql(statement.format(v=VIEW))) for statement in STATEMENTS]
    spark.catalog.dropTempView(VIEW)
    return found


def test_every_query_tells_its_rows_from_those_of_others(answers, view_answers) -> None:
    assert all(one != other for one, other in itertools.combinations(answers, 2))
    assert all(one != other for one, other in itertools.combinations(view_answers, 2))


def test_a_frame_is_reused_by_many_queries(pushing, logs, answers) -> None:
    frame = pushing.read.format("indextables").load(logs.url)
    for number, query in enumerate(QUERIES):
        assert rows_of(query(frame)) == answers[number], number
    assert rows_of(frame.filter("id = 1")) == answers[0]


def test_queries_that_are_made_before_any_runs_stay_apart(eager, logs, answers) -> None:
    frame = read(eager, logs.url)
    made = [query(frame) for query in QUERIES]
    for number, query in reversed(list(enumerate(made))):
        assert rows_of(query) == answers[number], number


def test_a_view_is_queried_again_and_again(pushing, logs, view_answers) -> None:
    pushing.read.format("indextables").load(logs.url).createOrReplaceTempView(VIEW)
    try:
        for statement, expected in zip(STATEMENTS, view_answers, strict=True):
            assert rows_of(pushing.sql(statement.format(v=VIEW))) == expected, statement
    finally:
        pushing.catalog.dropTempView(VIEW)


def test_a_view_of_the_source_itself_is_queried_again_and_again(eager, logs, view_answers) -> None:
    eager.sql(f"CREATE OR REPLACE TEMPORARY VIEW {VIEW} USING indextables OPTIONS (path '{logs.url}')")
    try:
        for statement, expected in list(zip(STATEMENTS, view_answers, strict=True))[:5]:
            assert rows_of(eager.sql(statement.format(v=VIEW))) == expected, statement
    finally:
        eager.catalog.dropTempView(VIEW)


def test_a_cached_frame_leaves_others_alone(eager, logs, answers) -> None:
    frame = eager.read.format("indextables").load(logs.url)
    cached = frame.filter("id < 30").cache()
    try:
        assert cached.count() == 30
        assert rows_of(frame) == answers[1]
        assert rows_of(cached.filter("id = 1")) == answers[0]
        assert cached.filter("id > 20").count() == 9
        assert cached.count() == 30
    finally:
        cached.unpersist()
    assert rows_of(frame) == answers[1]


def test_two_searches_of_one_table_stay_apart(eager, logs) -> None:
    errors = read(eager, logs.url, search="error", columns=["id"])
    calm = read(eager, logs.url, search="ok", where="id < 100", columns=["id"])
    both = rows_of(logs.search("error", columns=["id"])) + rows_of(logs.search("ok", where="id < 100", columns=["id"]))
    assert rows_of(errors.union(calm)) == sorted(both, key=repr)
    assert errors.join(calm, "id").count() == 0
    assert rows_of(errors.filter("id > 70")) == rows_of(logs.search("error", where="id > 70", columns=["id"]))
    assert rows_of(errors) == rows_of(logs.search("error", columns=["id"]))
