"""Searching a table: what is found is what a plain look at every row finds."""

from __future__ import annotations

import collections
import datetime as dt
import math
import os
import random
from pathlib import Path

import hypothesis.strategies as st
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

import indextables as it
from indextables.errors import (
    BadSplitWarning,
    ConfigError,
    CorruptSplitError,
    ObjectNotFoundError,
    QueryError,
    SchemaError,
)
from indextables.split.split_file import SplitFile

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("level", pa.string()), ("message", pa.string())])
WORDS = ["error", "timeout", "login", "disk", "user", "königin"]


def make_rows(first: int, count: int) -> list[dict]:
    chosen = random.Random(first)
    return [
        {
            "id": number,
            "day": dt.date(2026, 1, 1 + number % 3),
            "level": chosen.choice(["INFO", "WARN", None]),
            "message": " ".join(chosen.sample(WORDS, k=2)),
        }
        for number in range(first, first + count)
    ]


ROWS = [make_rows(0, 200), make_rows(200, 150), make_rows(350, 50)]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> it.Table:
    place = tmp_path_factory.mktemp("search")
    options = {"cache.disk.path": str(place / "cache")}
    table = it.Table.create(place / "t", SCHEMA, partition_by=("day",), indexing={"message": "text"}, options=options)
    for rows in ROWS:
        table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    return table


def ids(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


def expected(is_hit) -> list[int]:
    return [row["id"] for rows in ROWS for row in rows if is_hit(row)]


@pytest.mark.parametrize(
    ("query", "where", "is_hit"),
    [
        (None, None, lambda row: True),
        ("error", None, lambda row: "error" in row["message"]),
        ("error AND NOT timeout", None, lambda row: "error" in row["message"] and "timeout" not in row["message"]),
        ('"login disk"', None, lambda row: row["message"] == "login disk"),
        ("KÖNIGIN", None, lambda row: "königin" in row["message"]),
        (None, "id BETWEEN 190 AND 360", lambda row: 190 <= row["id"] <= 360),
        (None, "level IS NULL", lambda row: row["level"] is None),
        ("error", "day = DATE '2026-01-02'", lambda row: "error" in row["message"] and row["day"].day == 2),
        (
            "user",
            "level = 'WARN' AND id < 100",
            lambda r: "user" in r["message"] and r["level"] == "WARN" and r["id"] < 100,
        ),
        ("nothing", None, lambda row: False),
        ("level:INFO", "id > 1000", lambda row: False),
    ],
)
def test_what_is_found_is_what_a_plain_look_finds(table, query, where, is_hit) -> None:
    assert ids(table.search(query, where=where)) == expected(is_hit)
    assert table.count(query, where=where) == len(expected(is_hit))


def test_rows_and_columns_come_as_they_were_written(table) -> None:
    found = table.search("error", where="id < 50")
    assert found.schema == SCHEMA
    by_id = {row["id"]: row for rows in ROWS for row in rows}
    assert found.num_rows
    assert all(by_id[row["id"]] == row for row in found.to_pylist())
    some = table.search("error", where="level = 'INFO'", columns=["message", "id"])
    assert some.column_names == ["message", "id"]


def test_a_limit_is_kept(table) -> None:
    assert table.search("error", limit=3).num_rows == 3
    assert table.search("error", limit=10**6).num_rows == table.count("error")
    with pytest.raises(ConfigError, match="at least 1"):
        table.search("error", limit=0)


def test_an_older_version_is_searched_as_it_was(table) -> None:
    old = it.Table.open(table.url, version=1)
    assert old.count() == 200
    assert old.count("error") == sum("error" in row["message"] for row in ROWS[0])


def test_bad_questions_are_named(table) -> None:
    with pytest.raises(QueryError):
        table.search("a AND")
    with pytest.raises(QueryError, match="nowhere"):
        table.count("nowhere:1")
    with pytest.raises(QueryError):
        table.search(where="nowhere = 1")
    with pytest.raises(SchemaError, match="`nowhere`"):
        table.search(columns=["nowhere"])


def test_an_empty_table_has_nothing(tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, indexing={"message": "text"})
    assert table.search("x").to_pylist() == []
    assert table.search().schema == SCHEMA
    assert table.count("x") == 0


# Scores and order


def splits_of() -> list[list[dict]]:
    """The rows of each split: those of one append and one day."""
    return [[row for row in rows if row["day"].day == day] for rows in ROWS for day in (1, 2, 3)]


def bm25(rows: list[dict], word: str) -> dict[int, float]:
    """The score of each row that has a word, by the statistics of these rows alone."""
    words = {row["id"]: row["message"].split() for row in rows}
    mean = sum(map(len, words.values())) / len(words)
    with_word = sum(word in text for text in words.values())
    idf = math.log(1 + (len(rows) - with_word + 0.5) / (with_word + 0.5))
    scores = {}
    for number, text in words.items():
        often = text.count(word)
        if often:
            scores[number] = idf * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * len(text) / mean))
    return scores


def places(table) -> dict[int, int]:
    """Where each row stands in the order of the table."""
    return {number: place for place, number in enumerate(table.search()["id"].to_pylist())}


@pytest.mark.parametrize("word", ["error", "königin"])
def test_scores_are_those_of_each_split(table, word) -> None:
    expected = {number: score for rows in splits_of() for number, score in bm25(rows, word).items()}
    found = table.search(word, score=True)
    assert found.schema == SCHEMA.append(pa.field("_score", pa.float32()))
    scores = dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))
    assert scores == pytest.approx(expected, rel=1e-5)
    place = places(table)
    assert found["id"].to_pylist() == sorted(scores, key=lambda number: (-scores[number], place[number]))
    for limit in (1, 7, 50, 1000):
        assert table.search(word, score=True, limit=limit).equals(found.slice(0, limit))


def test_the_best_are_chosen_among_the_rows_that_a_predicate_is_true_of(table) -> None:
    whole = table.search("error disk", score=True)
    for where, holds in (
        ("level = 'WARN'", lambda row: row["level"] == "WARN"),
        ("day = DATE '2026-01-02'", lambda row: row["day"].day == 2),
        ("id > 1000", lambda row: False),
    ):
        kept = [row for row in whole.to_pylist() if holds(row)]
        assert table.search("error disk", where=where, score=True).to_pylist() == kept
        assert table.search("error disk", where=where, score=True, limit=5).to_pylist() == kept[:5]


def test_without_a_query_every_row_scores_one(table) -> None:
    found = table.search(score=True, limit=5)
    assert found.column_names[-1] == "_score"
    assert found["_score"].to_pylist() == [1.0] * 5
    assert found.drop_columns("_score").equals(table.search(limit=5))
    assert set(table.search(where="level IS NULL", score=True, order_by="id")["_score"].to_pylist()) == {1.0}


def sort_key(value, descending):
    """Nulls last, whichever way the others go."""
    if value is None:
        return (1, 0)
    if isinstance(value, str):
        codes = [ord(character) for character in value]
        return (0, [-code for code in codes] if descending else codes)
    number = value.toordinal() if isinstance(value, dt.date) else value
    return (0, -number if descending else number)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.sampled_from([None, "error", "NOT disk", "nothing", "error timeout"]),
    where=st.sampled_from([None, "level = 'INFO'", "day > DATE '2026-01-01'", "id < 20"]),
    order_by=st.sampled_from(["id", "day", "level", None]),
    descending=st.booleans(),
    limit=st.sampled_from([None, 1, 3, 40]),
    score=st.booleans(),
    columns=st.sampled_from([None, ["message"], ["level", "id"], []]),
)
def test_rows_come_in_the_order_that_is_asked_for(table, query, where, order_by, descending, limit, score, columns):
    whole = table.search(query, where=where, score=score).to_pylist()
    if order_by is not None:
        place = places(table)
        whole.sort(key=lambda row: place[row["id"]])
        whole.sort(key=lambda row: sort_key(row[order_by], descending))
    names = [*(SCHEMA.names if columns is None else columns), *(["_score"] if score else [])]
    rows = [{name: row[name] for name in names} for row in whole[:limit]]
    asked = {"order_by": order_by, "descending": descending, "limit": limit, "score": score, "columns": columns}
    found = table.search(query, where=where, **asked)
    assert found.column_names == names
    assert found.num_rows == len(rows)
    assert not names or found.to_pylist() == rows


def test_a_limit_reads_only_the_rows_of_the_answer_in_full(table, monkeypatch) -> None:
    table = it.Table.open(table.url, options={"search.rows": "pages"})
    read: collections.Counter = collections.Counter()
    whole = SplitFile.rows

    def rows(self, row_numbers=None, columns=None):
        for batch in whole(self, row_numbers, columns):
            read.update(dict.fromkeys(batch.schema.names, batch.num_rows))
            yield batch

    monkeypatch.setattr(SplitFile, "rows", rows)
    assert table.search("error", limit=4, order_by="id").num_rows == 4
    assert read["message"] == 4
    assert read["id"] > 4
    read.clear()
    assert table.search("error", limit=4, score=True).num_rows == 4
    assert read["message"] == read["id"] == 4
    read.clear()
    table.search("error", limit=2)
    assert 2 <= read["message"] <= 2 * min(8, os.cpu_count() or 1)
    read.clear()
    is_hit = lambda row: "error" in row["message"] and row["day"].day == 2  # noqa: E731
    assert table.count("error", where="day = DATE '2026-01-02'") == len(expected(is_hit))
    assert not read
    table.count("error", where="level = 'INFO'")
    assert not read
    table.count("error", where="level > 'INFO'")
    assert set(read) == {"level"}


def test_snippets_are_made_of_the_rows_that_are_returned(table) -> None:
    found = table.search("error AND NOT disk", columns=["id"], snippet="message", score=True, limit=20)
    assert found.column_names == ["id", "_snippet", "_score"]
    whole = table.search()
    messages = dict(zip(whole["id"].to_pylist(), whole["message"].to_pylist(), strict=True))
    for row in found.to_pylist():
        assert row["_snippet"] == messages[row["id"]].replace("error", "<b>error</b>")
    short = it.Snippet("message", max_chars=5, before="<", after=">")
    assert set(table.search("error", columns=[], snippet=short)["_snippet"].to_pylist()) == {"<error>"}
    assert table.search(columns=[], snippet="message", limit=3)["_snippet"].to_pylist() == [*messages.values()][:3]
    assert table.search("nothing", snippet="message").schema == SCHEMA.append(pa.field("_snippet", pa.string()))


@pytest.mark.parametrize(
    "query",
    [
        "error",
        "ERR*",
        "*ou*",
        "d?sk",
        "/us.r|login/",
        "eror~1",
        "message:IN [disk user]",
        "message:[e TO m}",
        '"user disk"',
    ],
)
def test_what_the_index_finds_is_what_a_snippet_marks(table, query) -> None:
    found = set(ids(table.search(query)))
    marked = table.search(f"{query} OR (NOT {query})", columns=["id"], snippet="message").to_pylist()
    assert found
    assert len(marked) == 400
    has_mark = {row["id"] for row in marked if "<b>" in row["_snippet"]}
    assert has_mark >= found if query.startswith('"') else has_mark == found


def test_bad_arguments_are_named(table) -> None:
    with pytest.raises(SchemaError, match="`nowhere`"):
        table.search(order_by="nowhere")
    with pytest.raises(SchemaError, match="`nowhere`"):
        table.search(snippet="nowhere")
    with pytest.raises(SchemaError, match="not indexed as `text`"):
        table.search(snippet="level")
    with pytest.raises(ConfigError, match="`fail` or `skip`"):
        table.search(bad_splits="ignore")
    with pytest.raises(ConfigError, match="list of names"):
        table.search(columns="id")


def test_rows_decide_where_the_log_cannot_read_a_partition_value(tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, partition_by=["id"], indexing={"message": "text"})
    table.append(pa.Table.from_pylist(ROWS[0][:3], schema=SCHEMA))
    (first, *_) = [action for action in table.log.read_version(1) if isinstance(action, it.actions.Add)]
    table.log.replace_files([first.path], [msgspec.structs.replace(first, partition_values={"id": "none"})])
    table.refresh()
    assert table.num_files == 3
    for where, rows in (("id >= 0", 3), ("id IS NULL", 0), ("id < 2", 2)):
        assert table.count(where=where) == rows
        assert table.search(where=where, score=True).num_rows == rows


# Bad splits


def make_three(place: Path) -> tuple[it.Table, list[Path]]:
    """A table of three splits, of one append each."""
    options = {"cache.disk.enabled": "false"}
    table = it.Table.create(place / "t", SCHEMA, indexing={"message": "text"}, options=options)
    for rows in ROWS:
        table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    by_rows = dict(zip(table.files()["num_records"].to_pylist(), table.files()["path"].to_pylist(), strict=True))
    return table, [Path(table.url, by_rows[len(rows)]) for rows in ROWS]


def flip(place: Path, at: int) -> None:
    data = bytearray(place.read_bytes())
    data[at] ^= 1
    place.write_bytes(data)


def pages(place: Path) -> list[int]:
    """Where the rows of each column stand."""
    group = pq.read_metadata(place).row_group(0)
    return [group.column(column).data_page_offset + 5 for column in range(len(SCHEMA))]


def all_answers(table, **more) -> list:
    return [
        ids(table.search("error", **more)),
        ids(table.search("error", score=True, limit=1000, **more)),
        table.search("error", order_by="id", limit=7, snippet="message", **more).to_pylist(),
        ids(table.search("error", limit=1000, **more)),
        table.aggregate("message", query="error", **more).to_pylist(),
        table.stats("message", query="error", where="id >= 0", **more).to_pylist(),
    ]


@pytest.mark.parametrize("damage", ["missing", "footer", "rows", "short"])
def test_bad_splits_are_left_out_whole_and_said(tmp_path, damage) -> None:
    table, files = make_three(tmp_path)
    good = it.Table.create(tmp_path / "good", SCHEMA, indexing={"message": "text"})
    for number in (1, 2):
        good.append(pa.Table.from_pylist(ROWS[number], schema=SCHEMA))
    assert ids(table.search("error")) == expected(lambda row: "error" in row["message"])
    table.flush_search_cache()
    bad = files[0]
    if damage == "missing":
        bad.unlink()
    elif damage == "short":
        bad.write_bytes(bad.read_bytes()[:-10])
    else:
        for at in [-20] if damage == "footer" else pages(bad):
            flip(bad, at)
    with pytest.raises((CorruptSplitError, ObjectNotFoundError), match=bad.name):
        all_answers(table)
    with pytest.warns(BadSplitWarning, match=f"1 of 3 splits.*{bad.name}") as said:
        answers = all_answers(table, bad_splits="skip")
    assert answers == all_answers(good)
    assert len(said) == 6
    assert said[0].filename == __file__


def test_a_split_whose_rows_are_bad_takes_no_place_among_the_best(tmp_path) -> None:
    """Its index is good, so that it is noticed only when its rows are fetched."""
    table, files = make_three(tmp_path)
    flip(files[0], pages(files[0])[SCHEMA.get_field_index("message")])
    table.flush_search_cache()
    with pytest.raises(CorruptSplitError, match=files[0].name):
        table.search("error", order_by="id", limit=5)
    with pytest.warns(BadSplitWarning, match="1 of 3"):
        found = table.search("error", order_by="id", limit=5, bad_splits="skip")
    assert found["id"].to_pylist() == expected(lambda row: "error" in row["message"] and row["id"] >= 200)[:5]


def test_good_splits_warn_of_nothing(table) -> None:
    assert table.count("error", bad_splits="skip") == table.count("error")
    assert table.search("error", bad_splits="skip").equals(table.search("error"))


def test_many_bad_splits_are_counted_and_some_named(tmp_path) -> None:
    table = it.Table.create(tmp_path / "t", SCHEMA, indexing={"message": "text"}, partition_by=["id"])
    table.append(pa.Table.from_pylist(ROWS[0][:6], schema=SCHEMA))
    for path in table.files()["path"].to_pylist():
        Path(table.url, path).unlink()
    with pytest.warns(BadSplitWarning, match="6 of 6 splits.*and 3 more"):
        assert table.search("error", bad_splits="skip").num_rows == 0


def test_a_damaged_split_is_an_error_that_names_it(tmp_path) -> None:
    table = it.Table.create(
        tmp_path / "t", SCHEMA, indexing={"message": "text"}, options={"cache.disk.enabled": "false"}
    )
    table.append(pa.Table.from_pylist(ROWS[0], schema=SCHEMA))
    (path,) = table.files()["path"].to_pylist()
    place = Path(table.url, path)
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)
    with pytest.raises(CorruptSplitError, match=path):
        table.search("error")
