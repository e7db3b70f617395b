"""One split, searched: the rows that a query finds are those that a plain look at every row finds."""

from __future__ import annotations

import datetime as dt

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from tests.doubles.metered_store import MeteredStore

from indextables.config import Config
from indextables.errors import QueryError
from indextables.split.index.builder import IndexBuilder
from indextables.split.index.index_cache import IndexCache
from indextables.split.query import parse_query
from indextables.split.query import tree as t
from indextables.split.search.searcher import SplitSearcher
from indextables.split.split_file import SplitFile
from indextables.split.writer import SplitWriter
from indextables.store import open_store

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("level", pa.string()),
        ("message", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("x", pa.float64()),
    ]
)
ROWS = [
    {
        "id": number,
        "level": None if number % 7 == 0 else ["INFO", "ERROR", "Warn"][number % 3],
        "message": f"Request {number} to host-{number % 13} {'timed out' if number % 5 == 0 else 'ended'} quickly",
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=number),
        "x": None if number % 11 == 0 else number / 8,
    }
    for number in range(3000)
]
WORDS = [set(row["message"].lower().replace("-", " ").split()) for row in ROWS]


@pytest.fixture(scope="module")
def searcher(tmp_path_factory) -> SplitSearcher:
    place = tmp_path_factory.mktemp("split")
    config = Config.resolve(options={"indexing.typemap.message": "text", "cache.disk.path": str(place / "cache")})
    store = open_store(str(place / "t"), config)
    with SplitWriter(store, SCHEMA, config) as writer:
        for start in range(0, len(ROWS), 700):
            writer.write(pa.RecordBatch.from_pylist(ROWS[start : start + 700], schema=SCHEMA))
        (add,) = writer.finish()
    split = SplitFile.open(store, add.path, size=add.size)
    return SplitSearcher(split, f"{store.location.url}/{add.path}", IndexCache(config))


@pytest.mark.parametrize(
    ("query", "is_hit"),
    [
        ("timed", lambda row, words: "timed" in words),
        ("TIMED AND host", lambda row, words: "timed" in words),
        ('"timed out"', lambda row, words: "timed" in words),
        ('"out timed"', lambda row, words: False),
        ("2999", lambda row, words: "2999" in words),
        ("timed AND NOT level:ERROR", lambda row, words: "timed" in words and row["level"] != "ERROR"),
        ("NOT timed", lambda row, words: "timed" not in words),
        ("level:Warn OR level:INFO", lambda row, words: row["level"] in ("Warn", "INFO")),
        ("level:warn", lambda row, words: False),
        ("id:[10 TO 20}", lambda row, words: 10 <= row["id"] < 20),
        ("id:>=2990", lambda row, words: row["id"] >= 2990),
        ("x:<1.5", lambda row, words: row["x"] is not None and row["x"] < 1.5),
        ('at:["2026-01-02" TO "2026-01-03T12:00:00Z"]', lambda row, words: 24 <= row["id"] <= 60),
        ("message:requ*", lambda row, words: True),
        ("message:12?", lambda row, words: any(len(word) == 3 and word.startswith("12") for word in words)),
        ("message:endet~1", lambda row, words: "ended" in words),
        ("_exists_:level", lambda row, words: row["level"] is not None),
        ("id:IN [1 5 2999]", lambda row, words: row["id"] in (1, 5, 2999)),
        ("absent", lambda row, words: False),
        ("timed AND absent", lambda row, words: False),
        ("timed OR absent", lambda row, words: "timed" in words),
        ("NOT absent", lambda row, words: True),
        ("+timed absent", lambda row, words: "timed" in words),
        ('"timed absent"', lambda row, words: False),
        ("level:IN [NOPE ERROR]", lambda row, words: row["level"] == "ERROR"),
        ("level:IN [NOPE NEITHER]", lambda row, words: False),
        ("message:host-7 AND absent*", lambda row, words: False),
        ("*", lambda row, words: True),
        ("NOT *", lambda row, words: False),
        ("+timed +host id:5", lambda row, words: "timed" in words),
    ],
)
def test_a_query_finds_the_rows_that_a_plain_look_finds(searcher, query, is_hit) -> None:
    expected = [number for number, row in enumerate(ROWS) if is_hit(row, WORDS[number])]
    tree = parse_query(query)
    assert searcher.row_numbers(tree, query).to_pylist() == expected
    assert searcher.count(tree, query) == len(expected)


def test_what_the_split_does_not_have_is_named(searcher) -> None:
    with pytest.raises(QueryError, match="nowhere"):
        searcher.count(parse_query("nowhere:1"), "nowhere:1")
    with pytest.raises(QueryError):
        searcher.count(parse_query("id:abc"), "id:abc")


def test_a_word_that_is_not_there_costs_one_read(tmp_path) -> None:
    config = Config.resolve(options={"indexing.typemap.message": "text", "cache.disk.enabled": "false"})
    store = MeteredStore(open_store(str(tmp_path / "t"), config))
    with SplitWriter(store, SCHEMA, config) as writer:
        writer.write(pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA))
        (add,) = writer.finish()
    store.calls.clear()
    offsets = {"footer_start_offset": add.footer_start_offset, "footer_end_offset": add.footer_end_offset}
    split = SplitFile.open(store, add.path, size=add.size, **offsets)
    searcher = SplitSearcher(split, add.path, IndexCache(config))
    # The filter takes one absent word in some twenty for one that is there, but hardly all of these.
    assert searcher.count(parse_query("absent AND missing AND lacking AND wanting AND timed")) == 0
    assert dict(store.calls) == {"get_ranges": 1}
    with pytest.raises(QueryError, match="nowhere"):
        searcher.count(parse_query("absent AND nowhere:1"))
    assert searcher.count(parse_query("timed")) == 600


LEAVES = st.sampled_from(
    ["timed", "out", "ended", "17", "absent", "missing", "level:ERROR", "level:NOPE", '"timed out"']
)
QUERIES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} AND {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        inner.map(lambda part: f"(NOT {part})"),
    ),
    max_leaves=6,
)


def holds(tree: t.Node, row, words) -> bool:
    """A plain reading of the few shapes that the strategy above makes."""

    def of(node) -> bool:
        match node:
            case t.And(parts):
                return all(map(of, parts))
            case t.Or(parts):
                return any(map(of, parts))
            case t.Not(part):
                return not of(part)
            case t.Phrase():
                return "timed" in words
            case t.Term(text):
                return row["level"] == text if node.path else text in words
        raise AssertionError(node)

    return of(tree)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(QUERIES)
def test_the_filter_never_hides_a_row(searcher, query) -> None:
    tree = parse_query(query)
    expected = [number for number, row in enumerate(ROWS) if holds(tree, row, WORDS[number])]
    assert searcher.row_numbers(tree, query).to_pylist() == expected


def test_rows_of_several_segments_have_their_numbers_and_scores(searcher, tmp_path, monkeypatch) -> None:
    whole = IndexBuilder._new_part

    def new_part(self):
        self._bytes_per_part = 40_000
        return whole(self)

    monkeypatch.setattr(IndexBuilder, "_new_part", new_part)
    config = Config.resolve(options={"indexing.typemap.message": "text", "cache.disk.path": str(tmp_path / "cache")})
    store = open_store(str(tmp_path / "t"), config)
    with SplitWriter(store, SCHEMA, config) as writer:
        writer.write(pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA))
        (add,) = writer.finish()
    split = SplitFile.open(store, add.path, size=add.size)
    assert len(split.directory.segments) > 3
    parted = SplitSearcher(split, add.path, IndexCache(config))
    for query in ("timed", "NOT timed", "host OR timed OR 17", "id:[10 TO 2990]"):
        tree = parse_query(query)
        for limit in (None, 1, 10, 700):
            assert parted.row_numbers(tree, limit=limit).equals(searcher.row_numbers(tree)[:limit])
            rows, scores = parted.best(tree, limit=limit)
            expected = searcher.best(tree, limit=limit)
            assert rows.equals(expected.rows)
            assert scores.to_pylist() == pytest.approx(expected.scores.to_pylist())


def test_the_index_is_fetched_for_few_words_that_are_not_there(searcher, monkeypatch) -> None:
    config = Config.resolve(options={"cache.disk.enabled": "false"})
    cold = SplitSearcher(searcher.split, "another", IndexCache(config))
    fetched = []
    extract = SplitFile.extract_index
    monkeypatch.setattr(SplitFile, "extract_index", lambda split, into: fetched.append(1) or extract(split, into))
    rough = searcher.split.term_filter()
    field = searcher.fields.find("message").name
    assert sum(rough.may_contain(field, f"absent{number}") for number in range(300)) > 3
    for number in range(300):
        assert cold.count(parse_query(f"absent{number}")) == 0
        cold.let_go()
    assert len(fetched) <= 3
    assert cold.count(parse_query("request")) == len(ROWS)
    assert fetched
