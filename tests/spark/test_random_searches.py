"""SQL by chance with searches in every position gives what a plain Parquet copy and a tokenizer of its own give."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.spark.random_rows import SCHEMA, random_rows, read_plain, texts_of, write_plain
from tests.spark.random_searches import Searches

import indextables as it

NUM_ROWS = 160
# The last is in force; the splits before it are indexed otherwise.
INDEXINGS = (
    {"indexing.note": "text", "indexing.host": "text"},
    {"indexing.msg": "text", "indexing.tokenizer.msg": "raw", "indexing.host": None},
    {"indexing.tokenizer.msg": "en_stem", "indexing.text.indexRecordOption": "basic"},
    {"indexing.tokenizer.msg": None, "indexing.text.indexRecordOption": None, "indexing.fastfields": "id,host"},
)


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory) -> Any:
    """An enabled session with a table under several names, and its rows as plain Parquet."""
    place = tmp_path_factory.mktemp("searches")
    data = random_rows(random.Random(9), 0, NUM_ROWS)
    write_plain(data, place / "plain.parquet")
    table = it.Table.create(place / "table", SCHEMA, partition_by=("zone",))
    for start, indexing in zip(range(0, NUM_ROWS, 40), INDEXINGS, strict=True):
        table.set_properties(indexing)
        table.append(data.slice(start, 40))
    enabled = it.enable(spark.newSession())
    read_plain(enabled, place / "plain.parquet").createOrReplaceTempView("plain")
    enabled.read.format("indextables").load(table.url).createOrReplaceTempView("loaded")
    tasks = {"search.driver.maxRows": 0}
    it.read(enabled, table.url, search="*", options=tasks).createOrReplaceTempView("searched")
    table.to_spark(enabled).createOrReplaceTempView("scanned")
    it.read(enabled, table.url).cache().createOrReplaceTempView("cached")
    return enabled


@pytest.mark.slow
@pytest.mark.parametrize(("name", "num_queries"), [("loaded", 45), ("searched", 12), ("scanned", 15), ("cached", 15)])
def test_searches_by_chance_find_what_a_plain_copy_gives(tables, name, num_queries, one_seed, is_full_run) -> None:
    searches = Searches(one_seed + len(name))
    for _ in range(num_queries if is_full_run else num_queries // 4):
        query = searches.next().format(ours=name, plain="plain")
        assert answer(tables, query.ours) == answer(tables, query.plain), f"{query.ours}\nwith --all --seed {one_seed}"


def answer(session: Any, text: str) -> list[str]:
    return texts_of(session.sql(text).collect())
