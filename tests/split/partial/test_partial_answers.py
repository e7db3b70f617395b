"""Searches in an index of which only the needed pieces are there answer like searches in the whole index."""

from __future__ import annotations

import random

import pytest
import tantivy
from tests.split.partial.poisoned import Example, PoisonedIndex, random_tree

from indextables.split.partial.needs import Needs, needs_of
from indextables.split.query import tree as t
from indextables.split.search.searchable import compiled_query

POISONS = {"zeros": b"\0", "ones": b"\xff", "noise": random.Random(9).randbytes(100_003)}


def answer(searcher: tantivy.Searcher, query: tantivy.Query, kind: str) -> object:
    flat = tantivy.Query.const_score_query(query, 1.0)
    if kind == "count":
        return searcher.search(flat, 1).count
    if kind == "rows":
        return [(place.segment_ord, place.doc) for _, place in searcher.search(flat, 1_000, count=False).hits]
    if kind == "best":
        found = searcher.search(query, 10, count=False).hits
        return [(score, place.segment_ord, place.doc) for score, place in found]
    return searcher.aggregate(query, {"x": {"avg": {"field": "f5"}}})


def needs(example: Example, tree: t.Node, kind: str) -> Needs | None:
    found = needs_of(tree, example.catalog, scored=kind == "best")
    return found.with_fast() if found is not None and kind == "aggregate" else found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("poison", POISONS)
def test_no_answer_depends_on_what_was_not_fetched(poison, seed, tmp_path, monkeypatch) -> None:
    rng = random.Random(seed)
    example = Example(tmp_path, rng, monkeypatch, num_rows=rng.choice([1, 40, 700]), piece=rng.choice([48, 300, 2_000]))
    for number in range(5):
        poisoned = PoisonedIndex(example, tmp_path / f"poisoned{number}", POISONS[poison])
        for _ in range(rng.choice([1, 3, 25])):
            tree = random_tree(rng, example.traces or ["a"])
            kind = rng.choice(["count", "rows", "best", "best", "aggregate"])
            query = compiled_query(tree, example.fields, example.fields, "")
            poisoned.partial.fetch(needs(example, tree, kind))
            assert answer(poisoned.searcher, query, kind) == answer(example.searcher, query, kind), (tree, kind)
