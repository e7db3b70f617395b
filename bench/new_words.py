"""Words that are asked once each, so that no side answers from memory.

The words are those of the messages, in bands by their number of hits. Beside the peers of `search` stands infino, which
keeps the answers to repeated questions. DuckDB is left out: it finds parts of words too.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from bench.harness import OURS, Figure, Goal, Setting, alternate, checked_count, timed_cpu_ms, timed_ms
from bench.log_places import shared_infino, shared_rows
from bench.log_rows import FEW_COLUMNS, TEXT_COLUMN, WordSearch, searches
from bench.search_peers import DUCKDB, Peer, WordPeer

_WAYS: Mapping[str, Sequence[str] | None] = {"count": (), "3 columns": FEW_COLUMNS, "all columns": None}
_BANDS = {"few hits": (10, 60), "many hits": (500, 2_000)}
_SEED = 11


def ask_new_words(setting: Setting, peers: Sequence[Peer]) -> list[Figure]:
    """Figures of words that no side has seen."""
    asked: list[WordPeer] = [peer for peer in peers if peer.name != DUCKDB]
    infino = shared_infino(setting)
    if infino is None:
        print(
            "infino is not installed, so it is left out: run `pip install 'indextables[bench]'`",
            file=sys.stderr,
        )
    else:
        asked.append(infino)
    num_rounds = setting.sizes.num_rounds * setting.sizes.num_searches
    seen = {word for search in searches(setting.sizes.num_rows) for words in search.required for word in words.split()}
    hits = _hits_by_word(shared_rows(setting.sizes.num_rows)[TEXT_COLUMN])
    hits = {word: count for word, count in hits.items() if word not in seen}
    choose = random.Random(_SEED)
    figures = []
    for band, (least, most) in _BANDS.items():
        words = sorted(word for word, count in hits.items() if least <= count <= most)
        if len(words) < num_rounds * len(_WAYS):  # small tables of quick runs
            words = sorted(hits)
        chosen = choose.sample(words, num_rounds * len(_WAYS))
        for number, way in enumerate(_WAYS):
            mine = [WordSearch(band, (word,), (), hits[word]) for word in chosen[number :: len(_WAYS)]]
            figures += _ask(setting, asked, f"search: new word each time, {band}, {way}", mine, way)
    return figures


def _ask(setting: Setting, peers: Sequence[WordPeer], name: str, asked: Sequence[WordSearch], way: str) -> list[Figure]:
    wall: dict[str, list[float]] = {peer.name: [] for peer in peers}

    def ask(peer: WordPeer, number: int) -> list[float]:
        found: list[int] = []

        def work() -> None:
            found.append(_num_found(peer, asked[number], way))

        cpu = timed_cpu_ms(lambda: wall[peer.name].append(timed_ms(work)))
        checked_count(found[0], asked[number].num_hits)
        return [cpu]

    cpu = alternate({peer.name: functools.partial(ask, peer) for peer in peers}, len(asked), setting.say)
    return [
        Figure(f"{name}{unit}", times[OURS], times[peer.name], Goal(), yardstick=peer.name)
        for unit, times in (("", wall), (", CPU", cpu))
        for peer in peers
        if peer.name != OURS
    ]


def _num_found(peer: WordPeer, search: WordSearch, way: str) -> int:
    if way == "count":
        return peer.count(search)
    rows = peer.search(search, _WAYS[way])
    return rows.num_rows if isinstance(rows, pa.Table) else len(rows)


def _hits_by_word(texts: pa.ChunkedArray) -> dict[str, int]:
    """How many rows hold each word that is made of letters and stands between blanks."""
    found = pc.utf8_split_whitespace(texts.combine_chunks())
    pairs = pa.table({"row": pc.list_parent_indices(found), "word": pc.list_flatten(found)})
    pairs = pairs.filter(pc.utf8_is_alpha(pairs["word"])).group_by(["row", "word"]).aggregate([])
    counts = pairs.group_by("word").aggregate([([], "count_all")])
    return dict(zip(counts["word"].to_pylist(), counts["count_all"].to_pylist(), strict=True))
