"""Random queries over random rows find exactly the rows that a plain evaluator finds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.query.query_oracle import FIELDS, Table

from indextables.split.query import tree as t

WORDS = st.sampled_from(
    ["error", "Error", "time", "out", "timeout", "disk", "full", "a", "ab", "Ünï", "x*y", "é", "10"]
)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
HOSTS = st.sampled_from(
    ["", "a", "ab", "abc", "b", "web-1", "web-10", "Web 1", "ü\n", "\U0010ffff", "\ud7ff", "\ue000"]
)
INTS = st.sampled_from([-(2**63), -5, 0, 3, 7, 2**53 + 1, 2**63 - 1])
FLOATS = st.sampled_from([float("-inf"), -1.5, 0.0, 2.0, 2.5, 1e300, float("inf")])
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "message": TEXTS,
        "note": TEXTS,
        "host": HOSTS,
        "odd name": HOSTS,
        "status": INTS,
        "seconds": FLOATS,
        "ok": st.booleans(),
    },
)
PLAIN_TEXTS = st.one_of(HOSTS, TEXTS, st.text("aber\U0010ffff\ue000-", max_size=12))
PIECES = st.lists(st.one_of(st.sampled_from([t.ANY, t.ONE]), st.text("aeürW-1 b", min_size=1, max_size=3)), max_size=4)


def named(name: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.just((name,))


def leaves_of_text(path, texts) -> st.SearchStrategy[t.Node]:
    words = st.one_of(WORDS, st.text("abeéor", min_size=1, max_size=6))
    one_word = words.filter(lambda text: "*" not in text)
    return st.one_of(
        st.builds(t.Term, texts, path=path),
        st.builds(t.Phrase, texts, path=path),
        st.builds(t.Prefix, texts, path=path),
        st.builds(t.Wildcard, PIECES.map(tuple), path=path),
        st.builds(t.Fuzzy, one_word, st.integers(1, 2), path=path),
        st.builds(
            t.Regex, st.sampled_from(["e.*", "[a-c]+", "a|out", "time(out)?", ".", "", "web-[0-9]{2}"]), path=path
        ),
        st.builds(t.InSet, st.lists(texts, max_size=3).map(tuple), path=path),
    )


def values_of(path, values) -> st.SearchStrategy[t.Node]:
    texts = values.map(lambda value: str(value).lower())
    ends = st.one_of(st.none(), texts)
    return st.one_of(
        st.builds(t.Term, texts, path=path),
        st.builds(t.InSet, st.lists(texts, max_size=3).map(tuple), path=path),
        ranges(path, ends),
    )


def ranges(path, ends) -> st.SearchStrategy[t.Node]:
    return st.builds(t.Range, ends, ends, st.booleans(), st.booleans(), path=path)


TEXT_PATHS = st.sampled_from([None, ("message",), ("note",)])
STRING_PATHS = st.sampled_from([("host",), ("odd name",)])
OPEN_OR_TEXT = st.one_of(st.none(), PLAIN_TEXTS)
LEAVES = st.one_of(
    st.just(t.All()),
    leaves_of_text(TEXT_PATHS, TEXTS),
    st.builds(t.Phrase, TEXTS, st.integers(1, 4), path=TEXT_PATHS),
    leaves_of_text(STRING_PATHS, PLAIN_TEXTS),
    ranges(STRING_PATHS, OPEN_OR_TEXT),
    ranges(st.sampled_from([("message",), ("note",)]), OPEN_OR_TEXT),
    values_of(named("status"), INTS),
    values_of(named("seconds"), FLOATS),
    values_of(named("ok"), st.booleans()),
    st.builds(
        t.Exists, path=st.sampled_from([(field.column,) for field in FIELDS if field.kind not in {"json", "bytes"}][:6])
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(t.both, st.lists(inner, min_size=1, max_size=3)),
        st.builds(t.either, st.lists(inner, min_size=1, max_size=3)),
        st.builds(t.Not, inner),
        st.builds(t.Prefer, inner, inner),
        st.builds(t.Boost, inner, st.sampled_from([0.0, 0.5, 2.0])),
    ),
    max_leaves=8,
)


@settings(max_examples=100)
@given(st.lists(ROWS, min_size=1, max_size=12), st.lists(TREES, min_size=5, max_size=20))
def test_a_query_finds_the_rows_that_a_plain_evaluator_finds(rows, trees) -> None:
    table = Table(rows)
    for tree in trees:
        assert table.run(tree) == table.expected(tree), tree
