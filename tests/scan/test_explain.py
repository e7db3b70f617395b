"""`explain`: its counts agree with the log, the store and the rows, and nothing else is counted."""

from __future__ import annotations

import threading

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from tests.doubles.metered_store import MeteredStore

import indextables as it
from indextables.errors import ConfigError, QueryError, SchemaError
from indextables.runtime import tally

DAYS = [f"2026-01-0{day}" for day in range(1, 5)]
NUM_APPENDS = 3
ROWS_PER_DAY = 40


def rows_of(append: int) -> list[dict]:
    return [
        {"id": append * 1_000 + at, "message": f"word{append} common {'needle' if at == 7 else 'hay'}", "day": day}
        for day in DAYS
        for at in range(ROWS_PER_DAY)
    ]


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> str:
    url = str(tmp_path_factory.mktemp("explain") / "t")
    for append in range(NUM_APPENDS):
        it.write(url, rows_of(append), text=["message"], partition_by=["day"])
    return url


@pytest.fixture
def table(url, tmp_path) -> it.Table:
    """A table whose local cache is empty, and whose splits are asked one by one."""
    return it.open(url, options={"cache.disk.path": str(tmp_path / "cache"), "search.combined": "off"})


def stages(explained: pa.Table) -> dict[str, dict]:
    return {row.pop("stage"): row for row in explained.to_pylist()}


def test_the_log_alone(table) -> None:
    found = stages(table.explain("common", "day = '2026-01-02' AND id >= 1000"))
    assert list(found) == ["partitions", "statistics"]
    assert (found["partitions"]["splits"], found["partitions"]["left_out"]) == (12, 9)
    assert (found["statistics"]["splits"], found["statistics"]["left_out"]) == (3, 1)
    assert found["statistics"]["milliseconds"] > 0


def test_a_run_cold_and_warm(table) -> None:
    cold = stages(table.explain("needle AND word1", run=True))
    assert (cold["filters"]["splits"], cold["filters"]["left_out"]) == (12, 8)
    assert (cold["index"]["splits"], cold["index"]["cached"]) == (4, 0)
    assert cold["index"]["requests"] >= 4
    assert cold["index"]["bytes"] > 0
    assert cold["search"]["rows"] == cold["rows"]["rows"] == cold["total"]["rows"] == 4
    warm = stages(table.explain("needle AND word1", run=True))
    assert (warm["footers"]["splits"], warm["footers"]["cached"]) == (12, 12)
    assert (warm["index"]["splits"], warm["index"]["cached"]) == (4, 4)
    assert (warm["footers"]["requests"], warm["index"]["requests"]) == (0, 0)
    assert warm["total"]["requests"] == sum(stage["requests"] or 0 for name, stage in warm.items() if name != "total")


def test_splits_that_are_searched_together_open_only_those_with_hits(url, tmp_path) -> None:
    table = it.open(url, options={"cache.disk.path": str(tmp_path / "cache")})
    first, *_, last = (stages(table.explain("needle AND word1", run=True)) for _ in range(17))
    assert first["footers"]["splits"] == 12
    assert (last["footers"]["splits"], last["footers"]["requests"]) == (4, 0)
    assert last["index"]["requests"] == 0
    assert last["search"]["rows"] == last["total"]["rows"] == 4


def test_a_limit_reads_fewer_splits(table) -> None:
    found = stages(table.explain("common", run=True, limit=1, columns=["id"]))
    assert found["footers"]["splits"] < 12
    assert found["total"]["rows"] == 1


@hypothesis.settings(max_examples=40)
@hypothesis.given(
    query=st.sampled_from([None, "common", "needle", "word0", "word1 OR word2", "nowhere", "comm*", '"common hay"']),
    day=st.none() | st.sampled_from([*DAYS, "2027-01-01"]),
    least=st.none() | st.sampled_from([0, 500, 1_020, 2_039, 5_000]),
    how=st.sampled_from([{}, {"limit": 3}, {"score": True, "limit": 5}, {"order_by": "id", "descending": True}]),
)
def test_the_counts_agree(url, query, day, least, how) -> None:
    table = it.open(url)
    terms = [*([f"day = '{day}'"] if day else []), *([f"id >= {least}"] if least is not None else [])]
    where = " AND ".join(terms) or None
    expected = table.search(query, where=where, **how)
    store = table._opened._store
    table._opened._store = metered = MeteredStore(store)
    found = stages(table.explain(query, where, run=True, **how))
    table._opened._store = store
    in_days = sum(1 for _ in range(NUM_APPENDS) for known in DAYS if day in (None, known))
    may_match = [append for append in range(NUM_APPENDS) if least is None or append * 1_000 + ROWS_PER_DAY > least]
    assert found["partitions"]["splits"] - found["partitions"]["left_out"] == found["statistics"]["splits"] == in_days
    left = found["statistics"]["splits"] - found["statistics"]["left_out"]
    assert left == sum(day in (None, known) for known in DAYS) * len(may_match)
    assert found["index"]["splits"] + found["filters"]["left_out"] <= found["footers"]["splits"] <= left
    assert found["total"]["rows"] == expected.num_rows
    assert found["rows"]["rows"] >= expected.num_rows
    assert found["total"]["requests"] >= metered.calls["get_ranges"]


def test_another_search_is_not_counted(table) -> None:
    """A search in another thread, at the same time, adds nothing."""
    begun, ended = threading.Event(), threading.Event()

    def other() -> None:
        begun.wait(60)
        table.search("common")
        ended.set()

    thread = threading.Thread(target=other)
    thread.start()
    counted = tally.Tally()
    with counted.active(tally.PLAN):
        begun.set()
        assert ended.wait(60)
    thread.join()
    assert dict(counted.of(tally.ROWS)) == {}
    assert not tally.is_counting()


def test_mistakes_are_those_of_a_search(table) -> None:
    with pytest.raises(QueryError):
        table.explain("a AND", run=True)
    with pytest.raises(QueryError):
        table.explain(where="nowhere = 1")
    with pytest.raises(SchemaError):
        table.explain("common", run=True, columns=["nowhere"])
    with pytest.raises(ConfigError):
        table.explain("common", run=True, limit=0)
    assert not tally.is_counting()
