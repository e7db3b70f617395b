"""SQL by chance with searches in every position gives what a plain Parquet copy and a tokenizer of its own give."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.random_searches import HOSTS, WORDS, Searches

import indextables as it

pytestmark = pytest.mark.slow

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("msg", pa.string()),
        ("note", pa.string()),
        ("host", pa.string()),
        ("day", pa.string()),
    ]
)
NUM_ROWS = 160
# The last is in force; the splits before it are indexed otherwise.
INDEXINGS = (
    {"indexing.note": "text", "indexing.host": "text"},
    {"indexing.msg": "text", "indexing.tokenizer.msg": "raw", "indexing.host": None},
    {"indexing.tokenizer.msg": "en_stem", "indexing.text.indexRecordOption": "basic"},
    {"indexing.tokenizer.msg": None, "indexing.text.indexRecordOption": None, "indexing.fastfields": "id,host"},
)


def rows() -> list[dict[str, Any]]:
    chance = random.Random(9)

    def text() -> str | None:
        if chance.random() < 0.15:
            return None
        words = [chance.choice(WORDS) for _ in range(chance.randint(0, 6))]
        cased = [chance.choice([str, str.upper, str.title])(word) for word in words]
        return "".join(word + chance.choice([" ", ", ", "-", "/", "\n", "! "]) for word in cased)

    return [
        {
            "id": number,
            "n": chance.choice([None, 0, 1, 2, 3, 4]),
            "msg": text(),
            "note": text(),
            "host": chance.choice([None, *HOSTS]),
            "day": chance.choice(["d1", "d2", "d3"]),
        }
        for number in range(NUM_ROWS)
    ]


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory) -> Any:
    """An enabled session with a table under several names, and its rows as plain Parquet."""
    place = tmp_path_factory.mktemp("searches")
    data = pa.Table.from_pylist(rows(), SCHEMA)
    pq.write_table(data, place / "plain.parquet")
    table = it.Table.create(place / "table", SCHEMA, partition_by=("day",))
    for start, indexing in zip(range(0, NUM_ROWS, 40), INDEXINGS, strict=True):
        table.set_properties(indexing)
        table.append(data.slice(start, 40))
    enabled = it.enable(spark.newSession())
    enabled.read.parquet(str(place / "plain.parquet")).createOrReplaceTempView("plain")
    enabled.read.format("indextables").load(table.url).createOrReplaceTempView("loaded")
    tasks = {"search.driver.maxRows": 0}
    it.read(enabled, table.url, search="*", options=tasks).createOrReplaceTempView("searched")
    table.to_spark(enabled).createOrReplaceTempView("scanned")
    it.read(enabled, table.url).cache().createOrReplaceTempView("cached")
    return enabled


@pytest.mark.parametrize(("name", "num_queries"), [("loaded", 60), ("searched", 15), ("scanned", 25), ("cached", 25)])
def test_searches_by_chance_find_what_a_plain_copy_gives(tables, name, num_queries) -> None:
    searches = Searches(len(name))
    for _ in range(num_queries):
        query = searches.next().format(ours=name, plain="plain")
        assert answer(tables, query.ours) == answer(tables, query.plain), query.ours


def answer(session: Any, text: str) -> list[str]:
    return sorted(repr(tuple(row)) for row in session.sql(text).collect())
