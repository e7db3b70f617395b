"""Tasks of Spark and its driver fetch indexes in parts, and find the same rows and scores as with whole indexes."""

from __future__ import annotations

import os
import random
from typing import Any

import pyarrow as pa
import pytest

import indextables as it

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("level", pa.string()), ("trace", pa.string())])
NUM_SPLITS, ROWS = 2, 60_000
WAYS = {"driver": {}, "tasks": {"search.driver.maxRows": "0"}}


def rows(number: int) -> pa.Table:
    rng = random.Random(number)
    first = number * ROWS
    return pa.table(
        {
            "id": range(first, first + ROWS),
            "message": [
                f"word{rng.randrange(40)} rare{rng.randrange(20_000)} word{rng.randrange(40)}" for _ in range(ROWS)
            ],
            "level": [rng.choice(["INFO", "WARN", "ERROR"]) for _ in range(ROWS)],
            "trace": [f"{rng.getrandbits(64):016x}" for _ in range(ROWS)],
        },
        schema=SCHEMA,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> str:
    """A table whose indexes are large enough to be fetched in parts."""
    url = str(tmp_path_factory.mktemp("cold-spark") / "table")
    table = it.Table.create(url, SCHEMA, indexing={"message": "text"})
    for number in range(NUM_SPLITS):
        table.append(rows(number))
    return url


def queries() -> list[tuple[str, str | None]]:
    trace = rows(1)["trace"][7].as_py()
    return [
        ("rare17", None),
        ("rare17 OR rare4242", f"id < {ROWS}"),
        ('"word3 rare17" OR word9 AND rare99', None),
        (f"trace:{trace}", None),
        (f"trace:{trace} OR rare5", f"id < {2 * ROWS} AND level = 'INFO'"),
        ("level:ERROR AND rare12*", None),
        ("absent", None),
    ]


@pytest.mark.parametrize("way", WAYS)
def test_spark_finds_the_same_in_parts_as_in_whole(spark, enabled, place, tmp_path, way) -> None:
    def found(cold: str, number: int, session: Any, query: str, where: str | None) -> list[Any]:
        cache = tmp_path / f"{cold}{number}"
        options = {"search.cold": cold, "cache.disk.path": str(cache), **WAYS[way]}
        frame = it.read(session, place, search=query, where=where, columns=["id"], score=True, options=options)
        return sorted((row.id, row._score) for row in frame.collect())

    for number, (query, where) in enumerate(queries()):
        own = it.Table.open(place, options={"cache.disk.path": str(tmp_path / "python"), "search.cold": "whole"})
        right = own.search(query, where=where, columns=["id"], score=True)
        wanted = sorted(zip(right["id"].to_pylist(), right["_score"].to_pylist(), strict=True))
        session = spark if way == "tasks" else enabled
        assert found("partial", number, session, query, where) == wanted, query
        assert found("whole", number, session, query, where) == wanted, query
    in_parts = [name for name in os.listdir(tmp_path) if (tmp_path / name / "partial-indexes").exists()]
    assert any(name.startswith("partial") for name in in_parts)
    assert not any(name.startswith(("whole", "python")) for name in in_parts)
