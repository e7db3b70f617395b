"""What the tests of Spark share: one Java process, a classic session and a Connect session in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.spark_sessions import CONNECT, connect_session, spark_session

import indextables as it

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("message", pa.string()),
        ("level", pa.string()),
        ("took", pa.float64()),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("day", pa.string()),
    ]
)
ROWS_PER_APPEND = 60
NUM_APPENDS = 3


@pytest.fixture(scope="package")
def spark(tmp_path_factory) -> Iterator[Any]:
    """A classic session on two cores."""
    with spark_session(str(tmp_path_factory.mktemp("spark")), cores=2, settings=CONNECT) as session:
        yield session


@pytest.fixture(scope="package")
def connect(spark) -> Iterator[Any]:
    """A Connect session."""
    with connect_session(spark) as session:
        yield session


@pytest.fixture
def enabled(spark) -> Any:
    """An enabled session of its own, so that the shared one stays as it is."""
    return it.enable(spark.newSession())


@pytest.fixture(params=["spark", "enabled", "connect"])
def session(request) -> Any:
    """A session of each kind."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> it.Table:
    """A table of six splits in two partitions, which nobody changes."""
    return make_logs(tmp_path_factory.mktemp("logs") / "table")


def make_logs(place: Path) -> it.Table:
    """A table of log rows at its version 3."""
    table = it.Table.create(place, SCHEMA, partition_by=("day",), indexing={"message": "text"})
    for number in range(NUM_APPENDS):
        table.append(log_rows(number * ROWS_PER_APPEND))
    return table


def log_rows(first: int, count: int = ROWS_PER_APPEND) -> pa.Table:
    """Rows whose values all follow from their number."""
    numbers = range(first, first + count)
    rows = [
        {
            "id": number,
            "message": None if number % 11 == 0 else f"request {number} {'timeout error' if number % 7 == 0 else 'ok'}",
            "level": ("INFO", "ERROR", None)[number % 3],
            "took": None if number % 5 == 0 else number / 8,
            "tags": None if number % 4 == 0 else [f"t{number % 3}"] * (number % 3),
            "day": f"2026-01-0{1 + number % 2}",
        }
        for number in numbers
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """The rows of a Spark DataFrame or an Arrow table, whatever their order."""
    rows = [tuple(row.values()) for row in frame.to_pylist()] if isinstance(frame, pa.Table) else frame.collect()
    return sorted((tuple(row) for row in rows), key=repr)
