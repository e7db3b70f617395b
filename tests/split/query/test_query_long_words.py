"""Words that are too long for the index keep their place: a phrase finds the text that it was copied from."""

from __future__ import annotations

import itertools
import json
import tempfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.config import Config
from indextables.split.index.index_cache import IndexCache
from indextables.split.query import parse_query
from indextables.split.query import tree as t
from indextables.split.search.searcher import SplitSearcher
from indextables.split.split_file import SplitFile
from indextables.split.writer import SplitWriter
from indextables.store import open_store

LONG = "x" * 300
TEXTS = st.lists(st.sampled_from(["a", "b", "c", LONG, LONG]), max_size=7)


def found_rows(texts: list[str], *trees: t.Node, **options: str) -> list[list[int]]:
    schema = pa.schema([("m", pa.string())])
    with tempfile.TemporaryDirectory() as root:
        config = Config.resolve(options={"indexing.typemap.m": "text", "cache.disk.path": f"{root}/cache", **options})
        store = open_store(f"{root}/t", config)
        with SplitWriter(store, schema, config) as writer:
            writer.write(pa.RecordBatch.from_pydict({"m": texts}, schema=schema))
            (add,) = writer.finish()
        searcher = SplitSearcher(SplitFile.open(store, add.path), add.path, IndexCache(config))
        return [searcher.row_numbers(tree).to_pylist() for tree in trees]


def holds(words: list[str], wanted: list[str], slop: int) -> bool:
    """Whether the words stand in the places that the phrase has them in; those that are too long are any word."""
    kept = [(place, word) for place, word in enumerate(wanted) if word != LONG]
    starts = [[there - place for there, word in enumerate(words) if word == one] for place, one in kept]
    if not slop or len(kept) < 2:
        return bool(kept) and bool(set.intersection(*map(set, starts)))
    return all(
        any(abs(here - there) <= slop for here in left for there in right)
        for left, right in itertools.combinations(starts, 2)
    )


@settings(max_examples=20)
@given(
    st.lists(TEXTS, min_size=1, max_size=8),
    st.lists(st.tuples(TEXTS, st.sampled_from([0, 0, 1, 2])), min_size=1, max_size=12),
    st.sampled_from(["default", "whitespace", "en_stem"]),
)
def test_a_phrase_counts_the_words_that_are_not_indexed(rows, phrases, tokenizer) -> None:
    phrases = [*phrases, *((row, 0) for row in rows)]
    texts = [" ".join(row) for row in rows]
    trees = [t.Phrase(" ".join(words), slop) for words, slop in phrases]
    found = found_rows(texts, *trees, **{"indexing.tokenizer.m": tokenizer})
    assert found == [[number for number, row in enumerate(rows) if holds(row, words, slop)] for words, slop in phrases]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (f'"a {LONG} b"', [0, 3]),
        ('"a b"', [1, 2]),
        (f'"a b {LONG}"', [1, 2]),
        (f'"a {LONG} {LONG} b"', []),
        (f"a-{LONG}-b", [0, 3]),
        (LONG, []),
    ],
)
def test_a_word_that_is_not_indexed_stands_for_any_word(query, rows) -> None:
    texts = [f"a {LONG} b", "a b", f"{LONG} a b {LONG}", "a c b", LONG]
    assert found_rows(texts, parse_query(query)) == [rows]


def test_words_inside_json_keep_their_places_too() -> None:
    texts = [json.dumps({"k": text}) for text in (f"a {LONG} b", "a b", "a c b")]
    query = t.Phrase(f"a {LONG} b", path=("m", "k"))
    shorter = t.Phrase("a b", path=("m", "k"))
    assert found_rows(texts, query, shorter, **{"indexing.typemap.m": "json"}) == [[0, 2], [1]]
