"""Counts of keywords: the dictionary of the index gives what a plain look at every row gives."""

from __future__ import annotations

import collections
import random
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import indextables as it
from indextables.errors import SchemaError
from indextables.split.search import searcher
from indextables.split.search.searcher import SplitSearcher

SCHEMA = pa.schema(
    [("word", pa.string()), ("large", pa.large_string()), ("tags", pa.list_(pa.string())), ("message", pa.string())]
)
MESSAGES = ["disk", "disk full", "login", ""]
QUERIES = {
    None: lambda row: True,
    "disk": lambda row: "disk" in row["message"].split(),
    "NOT disk": lambda row: "disk" not in row["message"].split(),
    "word:a OR full": lambda row: row["word"] == "a" or "full" in row["message"].split(),
    "absent": lambda row: False,
}
WHERES = {
    None: lambda row: True,
    "word >= 'b'": lambda row: row["word"] is not None and row["word"] >= "b",
    "word IS NULL OR message = ''": lambda row: row["word"] is None or row["message"] == "",
}
SHORT = [None, "", "a", "A", "b", " a", "\x00", "a\x00b", "\u00fc", "u\u0308", "\U0001f600", "Stra\u00dfe", "NaN"]
LONG = ["x" * 300, "x" * 65_525, "x" * 65_526, "x" * 65_530, "x" * 65_531, "x" * 65_531 + "y", "\u65e5" * 21_845]


def pairs(table: pa.Table) -> list[tuple]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def expected(rows: list[dict], column: str) -> list[tuple]:
    counts = collections.Counter(row[column] for row in rows if row[column] is not None)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0].encode()))


def make_table(place: Path, appends: list[list[dict]], **properties: str) -> it.Table:
    options = {"cache.disk.path": str(place / "cache"), "checkpoint.enabled": "false"}
    table = it.Table.create(
        place / "t", SCHEMA, indexing={"message": "text"}, properties=properties or None, options=options
    )
    for rows in appends:
        table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    return table


def row(word: str | None = None, message: str = "disk") -> dict:
    return {"word": word, "large": word, "tags": None if word is None else [word, word], "message": message}


@pytest.fixture
def walks(monkeypatch) -> list[str]:
    """The columns whose dictionaries are walked; every one is taken for small."""
    seen: list[str] = []
    whole = SplitSearcher.keywords

    def keywords(self, tree, text, field):
        seen.append(field.column)
        return whole(self, tree, text, field)

    monkeypatch.setattr(SplitSearcher, "keywords", keywords)
    monkeypatch.setattr(searcher, "_ROWS_PER_BYTE", 0)
    monkeypatch.setattr(searcher, "_ROWS_PER_TERM", 0)
    return seen


def no_rows(*_args, **_kwargs):
    raise AssertionError("rows were read")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32))
def test_counts_of_keywords_are_those_of_a_plain_look(tmp_path_factory, walks, seed) -> None:
    chosen = random.Random(seed)
    words = chosen.sample(SHORT, chosen.randrange(1, len(SHORT)))
    words += chosen.sample(LONG, 2) if chosen.random() < 0.3 else []
    words += [f"w{number}" for number in range(chosen.choice([0, 0, 40]))]
    appends = [
        [row(chosen.choice(words), chosen.choice(MESSAGES)) for _ in range(chosen.randrange(1, 60))]
        for _ in range(chosen.randrange(1, 4))
    ]
    fast = {"indexing.fastfields": "word"} if chosen.random() < 0.3 else {}
    table = make_table(tmp_path_factory.mktemp("counts"), appends, **fast)
    if chosen.random() < 0.3:
        table.merge_splits()
    rows = [one for rows in appends for one in rows]
    for query, where in [(query, where) for query in QUERIES for where in WHERES]:
        kept = [one for one in rows if QUERIES[query](one) and WHERES[where](one)]
        for column in ("word", "large"):
            found = table.aggregate(column, query=query, where=where)
            assert found.schema == pa.schema([(column, table.schema.field(column).type), ("count", pa.int64())])
            assert pairs(found) == expected(kept, column), (query, where)
            assert pairs(table.value_counts(column, query=query, where=where, limit=2)) == expected(kept, column)[:2]
        (stats,) = table.stats("word", query=query, where=where).to_pylist()
        present = sorted((one["word"] for one in kept if one["word"] is not None), key=str.encode)
        assert stats["count"] == len(present)
        assert (stats["min"], stats["max"]) == ((present[0], present[-1]) if present else (None, None))
    assert "word" in walks
    with pytest.raises(SchemaError, match="`tags`"):
        table.aggregate("tags")


def test_a_query_counts_keywords_without_rows(tmp_path, walks, monkeypatch) -> None:
    rows = [row(f"w{number % 3}", MESSAGES[number % 4]) for number in range(400)]
    table = make_table(tmp_path, [rows[:300], rows[300:]])
    assert table.count("disk") == 200
    monkeypatch.setattr("indextables.split.split_file.SplitFile.rows", no_rows)
    for query in ("disk", None):
        assert pairs(table.aggregate("word", query=query)) == expected([r for r in rows if QUERIES[query](r)], "word")
    assert walks == ["word"] * 4
    assert table.stats("word").to_pylist() == [{"count": 400, "min": "w0", "max": "w2", "sum": None, "mean": None}]


def test_a_cold_index_is_not_fetched_for_counts_alone(tmp_path) -> None:
    table = make_table(tmp_path, [[row(f"w{number % 3}") for number in range(400)]])
    assert table.aggregate("word").num_rows == 3
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]


@pytest.mark.parametrize("num_words", [50, 5_000])
def test_a_column_of_many_values_is_counted_from_its_rows(tmp_path, monkeypatch, num_words) -> None:
    """A walk of a large dictionary takes longer than decoding the column."""
    walked: list[str] = []
    whole = SplitSearcher.keywords
    monkeypatch.setattr(
        SplitSearcher, "keywords", lambda self, *asked: (walked.append(asked[2].column), whole(self, *asked))[1]
    )
    rows = [row(f"w{number % num_words:04}") for number in range(10_000)]
    table = make_table(tmp_path, [rows])
    table.count("disk")
    for _ in range(3):
        assert pairs(table.aggregate("word", query="disk")) == expected(rows, "word")
    assert len(walked) == (3 if num_words == 50 else 0)


def test_a_walk_that_was_long_is_not_repeated(tmp_path, walks, monkeypatch) -> None:
    monkeypatch.setattr(searcher, "_ROWS_PER_TERM", 16)
    rows = [row(f"w{number % 100}") for number in range(1_000)]
    table = make_table(tmp_path, [rows])
    for _ in range(3):
        assert pairs(table.aggregate("word", query="disk")) == expected(rows, "word")
    assert walks == ["word"]
