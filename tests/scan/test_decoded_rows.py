"""Answers from decoded copies of splits are those of their pages, whatever is asked."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.config import Config
from indextables.errors import CorruptSplitError
from indextables.split.rows import copy_files
from indextables.split.search.split_rows import wait_for_copies
from indextables.split.writer import SplitWriter

WORDS = ("error", "timeout", "ok", "retry")
START = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "number": (pa.int64(), lambda rng: rng.randrange(-5, 5)),
    "ratio": (pa.float64(), lambda rng: rng.choice([0.5, -0.0, 1e300, float("inf")])),
    "flag": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "at": (pa.timestamp("us", tz="UTC"), lambda rng: START + dt.timedelta(seconds=rng.randrange(10**6))),
    "on": (pa.date32(), lambda rng: START.date() + dt.timedelta(days=rng.randrange(100))),
    "price": (pa.decimal128(10, 2), lambda rng: decimal.Decimal(rng.randrange(10**6)).scaleb(-2)),
    "raw": (pa.binary(), lambda rng: rng.randbytes(rng.randrange(5))),
    "word": (pa.string(), lambda rng: rng.choice(["", "ü\0", "x" * 300])),
    "tags": (pa.list_(pa.string()), lambda rng: [rng.choice([None, "a", "b"]) for _ in range(rng.randrange(3))]),
    "inner": (pa.struct([("a", pa.int32()), ("b", pa.string())]), lambda rng: {"a": rng.randrange(9), "b": None}),
    "pairs": (pa.map_(pa.string(), pa.int64()), lambda rng: [("k", rng.randrange(9))] * rng.randrange(2)),
}


def random_rows(rng: random.Random, schema: pa.Schema, part: int, num_rows: int, first: int) -> pa.Table:
    rows = []
    for at in range(num_rows):
        row = {name: None if rng.random() < 0.2 else COLUMNS[name][1](rng) for name in schema.names if name in COLUMNS}
        message = " ".join(rng.choice(WORDS) for _ in range(3))
        rows.append({**row, "id": first + at, "part": part, "message": f"{message} n{first + at}"})
    return pa.Table.from_pylist(rows, schema=schema)


def random_table(rng: random.Random, place: str, options: dict[str, str]) -> it.Table:
    """A table of some partitions, each of one or two splits of some rows."""
    names = rng.sample(sorted(COLUMNS), rng.randrange(1, len(COLUMNS)))
    fields = [("id", pa.int64()), ("part", pa.int32()), ("message", pa.string())]
    schema = pa.schema(fields + [(name, COLUMNS[name][0]) for name in names])
    table = it.Table.create(place, schema, partition_by=("part",), indexing={"message": "text"}, options=options)
    first = 0
    for _ in range(rng.randrange(1, 3)):
        for part in range(4):
            num_rows = rng.choice([1, 7, 60, 400])
            table.append(random_rows(rng, schema, part, num_rows, first))
            first += num_rows
    return table


def copies_in(cache: Path) -> list[str]:
    return [name for name in os.listdir(cache / "rows") if name.endswith(".rows")]


def questions(rng: random.Random, columns: list[str]) -> dict[str, Any]:
    """Something that a user asks: some words, one, half or all of the partitions, an order, a limit."""
    asked: dict[str, Any] = {
        "query": rng.choice(["error", "error AND NOT ok", '"error timeout"', "n3", "nothing", "error OR ok", None]),
        "where": rng.choice([None, "part = 1", "part < 2", "part >= 0", "id < 50", "part = 2 AND id > 5"]),
        "limit": rng.choice([None, 1, 3, 10, 1_000]),
        "columns": rng.choice([None, ["id"], rng.sample(columns, rng.randrange(1, len(columns)))]),
    }
    if rng.random() < 0.3:
        asked |= {"order_by": rng.choice(["id", "message"]), "descending": rng.random() < 0.5}
    if rng.random() < 0.3:
        asked["score"] = True
    if rng.random() < 0.2:
        asked["snippet"] = "message"
    return asked


@pytest.mark.parametrize("share", range(2))
def test_decoded_rows_are_the_rows_of_the_pages(tmp_path, seeds, monkeypatch, share) -> None:
    monkeypatch.setattr(copy_files, "FULL", 1)
    for seed in seeds(40, share, 2):
        rng = random.Random(seed)
        options = {"cache.disk.path": str(tmp_path / f"cache{seed}")}
        random_table(rng, str(tmp_path / f"t{seed}"), options)
        pages = it.Table.open(tmp_path / f"t{seed}", options={**options, "search.rows": "pages"})
        decoded = it.Table.open(tmp_path / f"t{seed}", options=options)
        for _ in range(2):
            decoded.search("error OR timeout OR ok OR retry")
            assert wait_for_copies(60)
        assert len(copies_in(tmp_path / f"cache{seed}")) == decoded.files().num_rows
        for _ in range(40):
            asked = questions(rng, decoded.schema.names)
            expected, found = pages.search(**asked), decoded.search(**asked)
            found.validate(full=True)
            assert found.schema.equals(expected.schema, check_metadata=True), (seed, asked)
            assert found.equals(expected), (seed, asked)
            which = {"query": asked["query"], "where": asked["where"]}
            assert decoded.count(**which) == pages.count(**which), (seed, asked)
            assert decoded.aggregate("id", **which).equals(pages.aggregate("id", **which)), (seed, asked)


def add_split(table: it.Table, rows: pa.Table) -> None:
    adds: list[it.actions.Add] = []
    store = table.log.reader.store
    with SplitWriter(
        store, rows.schema, Config.resolve(), partition_columns=(), partition_values={}, adds=adds
    ) as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        writer.finish()
    table.log.add_files(adds)


def test_splits_with_variants_of_types_are_read_in_order(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(copy_files, "FULL", 1)
    options = {"cache.disk.path": str(tmp_path / "cache")}
    table = it.Table.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("word", pa.string())]), options=options)
    variants = [pa.string(), pa.large_string(), pa.string_view(), pa.string(), pa.dictionary(pa.int32(), pa.string())]
    for number, kind in enumerate(variants):
        rows = pa.table({"id": pa.array([2 * number, 2 * number + 1]), "word": pa.array(["a", f"b{number}"])})
        rows = rows.set_column(1, "word", rows["word"].cast(kind))
        add_split(table, rows)
    table.refresh()
    expected = [{"id": number, "word": f"b{number // 2}" if number % 2 else "a"} for number in range(10)]
    for where in (None, "id >= 4"):
        for _ in range(4):
            found = table.search("id:[0 TO 99]", where=where)
            assert found.schema.equals(table.schema)
            assert found.to_pylist() == [row for row in expected if where is None or row["id"] >= 4]
            assert wait_for_copies(60)
    assert len(copies_in(tmp_path / "cache")) == 5


@pytest.fixture
def six_splits(tmp_path) -> it.Table:
    options = {"cache.disk.path": str(tmp_path / "cache")}
    schema = pa.schema([("id", pa.int64()), ("message", pa.string())])
    table = it.Table.create(tmp_path / "t", schema, indexing={"message": "text"}, options=options)
    for number in range(6):
        table.append([{"id": 10 * number + row, "message": f"word {row}"} for row in range(10)])
    return table


def test_the_rows_of_later_splits_replace_those_of_a_bad_one(tmp_path, six_splits) -> None:
    order = six_splits.search("word")["id"].to_pylist()
    bad = tmp_path / "t" / six_splits.files()["path"][0].as_py()
    data = bytearray(bad.read_bytes())
    data[4:200] = bytes(196)
    bad.write_bytes(data)
    with pytest.raises(CorruptSplitError):
        six_splits.search("word", limit=15)
    for limit in (5, 15, 25):
        with pytest.warns(it.errors.BadSplitWarning):
            found = six_splits.search("word", limit=limit, bad_splits="skip")
        assert found["id"].to_pylist() == order[10 : 10 + limit]


def test_rows_of_copies_are_read_though_pages_are_gone(tmp_path, six_splits, monkeypatch) -> None:
    monkeypatch.setattr(copy_files, "FULL", 1)
    order = six_splits.search("word")["id"].to_pylist()
    six_splits.search("word")
    assert wait_for_copies(60)
    for path in six_splits.files()["path"].to_pylist()[:5]:
        (tmp_path / "t" / path).write_bytes(b"")
    assert six_splits.search("word")["id"].to_pylist() == order
    assert six_splits.search("word", limit=12, score=True).num_rows == 12
    pages = it.Table.open(tmp_path / "t", options={"search.rows": "pages", "cache.disk.path": str(tmp_path / "cache")})
    with pytest.raises(CorruptSplitError):
        pages.search("word")
