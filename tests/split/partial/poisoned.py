"""An index whose unfetched places hold poison, beside the same index in whole, and random queries for both.

Poison is bytes that no fetch brought: an answer that depends on them differs from that of the whole index.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import tantivy

from indextables.config import Config
from indextables.split.index.builder import IndexBuilder, open_index
from indextables.split.index.fields import FieldMap
from indextables.split.partial import packing, partial_index, tantivy_files
from indextables.split.partial.partial_index import PartialIndex, Pieces
from indextables.split.query import tree as t
from indextables.split.search.searchable import SearchableFields
from indextables.split.split_file import SplitFile
from indextables.split.writer import SplitWriter
from indextables.store import open_store

WORDS = ["alpha", "beta", "gamma", "delta", "error", "disk", "timeout", "x", "42", "Zulu", "naïve", "the"]
SCHEMA = pa.schema(
    [
        ("message", pa.string()),
        ("note", pa.string()),
        ("code", pa.string()),
        ("level", pa.string()),
        ("trace", pa.string()),
        ("number", pa.int64()),
        ("ratio", pa.float64()),
        ("ok", pa.bool_()),
        ("attrs", pa.struct([("k", pa.string()), ("n", pa.int64())])),
        ("raw", pa.binary()),
    ]
)
OPTIONS = {
    "indexing.typemap.message": "text",
    "indexing.typemap.note": "text",
    "indexing.typemap.code": "text",
    "indexing.tokenizer.code": "ngram(2,3)",
    "indexing.fastfields": "level,number",
}


def random_rows(rng: random.Random, num_rows: int) -> pa.RecordBatch:
    """Rows of few frequent and many rare words, with nulls."""

    def maybe(value: object) -> object:
        return None if rng.random() < 0.05 else value

    def words(most: int) -> str:
        return " ".join(
            rng.choice(WORDS) if rng.random() < 0.8 else f"rare{rng.randrange(500)}" for _ in range(rng.randrange(most))
        )

    rows = [
        {
            "message": maybe(words(12)),
            "note": maybe(words(4)),
            "code": maybe(rng.choice(WORDS) + str(rng.randrange(50))),
            "level": maybe(rng.choice(["INFO", "WARN", "ERROR"])),
            "trace": maybe(f"{rng.getrandbits(64):016x}"),
            "number": maybe(rng.randrange(100)),
            "ratio": maybe(rng.choice([0.5, -1.0, 2.0])),
            "ok": maybe(rng.random() < 0.5),
            "attrs": maybe({"k": rng.choice(WORDS), "n": rng.randrange(9)}),
            "raw": maybe(bytes([rng.randrange(4)])),
        }
        for _ in range(num_rows)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def random_tree(rng: random.Random, traces: list[str], depth: int = 3) -> t.Node:
    """A tree as users type them: mostly words, some of everything else."""
    kind = rng.randrange(10) if depth else 9
    if kind < 2:
        return t.both([random_tree(rng, traces, depth - 1) for _ in range(rng.randrange(2, 4))])
    if kind < 4:
        return t.either([random_tree(rng, traces, depth - 1) for _ in range(rng.randrange(2, 4))])
    if kind == 4:
        return t.negate(random_tree(rng, traces, depth - 1))
    if kind == 5:
        return t.Prefer(random_tree(rng, traces, depth - 1), random_tree(rng, traces, depth - 1))
    if kind == 6:
        return t.Boost(random_tree(rng, traces, depth - 1), rng.choice([0.5, 3.0]))
    return t.All() if rng.random() < 0.03 else random_leaf(rng, traces)


def random_leaf(rng: random.Random, traces: list[str]) -> t.Node:
    path = rng.choice([None, None, ("message",), ("message",), ("note",), ("code",)])
    word = rng.choice([*WORDS, f"rare{rng.randrange(600)}", "absent", "err", "alpha42"])
    others = [rng.choice(WORDS) for _ in range(rng.randrange(1, 3))]
    trace = rng.choice([*traces, "0123456789abcdef", "", "zz"])
    return rng.choice(
        [
            lambda: t.Term(word, path=path),
            lambda: t.Term(word, path=path),
            lambda: t.Term(f"rare{rng.randrange(500)}", path=("message",)),
            lambda: t.Phrase(" ".join([word, *others]), path=path),
            lambda: t.Phrase(" ".join([word, *others]), path=("message",), slop=rng.randrange(4)),
            lambda: t.Term(trace, path=("trace",)),
            lambda: t.Phrase(rng.choice(["INFO", "ERROR", "info", "NONE"]), path=("level",)),
            lambda: t.InSet((trace, rng.choice(traces)), path=("trace",)),
            lambda: t.InSet((word, *others), path=("message",)),
            lambda: t.InSet(("INFO", "WARN"), path=("level",)),
            lambda: t.Prefix(word[:2], path=rng.choice([("message",), ("level",), ("trace",)])),
            lambda: t.Wildcard((word[:1], t.ANY, t.ONE), path=("message",)),
            lambda: t.Fuzzy(word, path=("message",), distance=1),
            lambda: t.Regex("rare1.*", path=("message",)),
            lambda: t.Range("b", "e", path=rng.choice([("trace",), ("message",)])),
            lambda: t.Range(str(rng.randrange(50)), None, path=("number",)),
            lambda: t.Term(str(rng.randrange(110)), path=("number",)),
            lambda: t.Range(None, "1", path=("ratio",)),
            lambda: t.Term("true", path=("ok",)),
            lambda: t.Term("02", path=("raw",)),
            lambda: t.Exists(path=rng.choice([("message",), ("level",), ("number",), ("ok",)])),
            lambda: t.Term(word, path=("attrs", "k")),
            lambda: t.Term(str(rng.randrange(9)), path=("attrs", "n")),
        ]
    )()


class Example:
    """A split in small pieces with several segments, and its index in whole."""

    def __init__(self, place: Path, rng: random.Random, monkeypatch, *, num_rows: int, piece: int) -> None:
        monkeypatch.setattr(packing, "_SMALL_PIECE", piece)
        monkeypatch.setattr(packing, "_LARGE_PIECE", 4 * piece)
        monkeypatch.setattr(tantivy_files, "_SMALL_DICTIONARY_BYTES", 0)
        monkeypatch.setattr(partial_index, "_SMALL_DICTIONARY_BYTES", rng.choice([0, 0, 1_000]))
        whole = IndexBuilder._new_part

        def new_part(self: IndexBuilder) -> object:
            self._bytes_per_part = rng.choice([4_000, 20_000, 1 << 30])
            return whole(self)

        monkeypatch.setattr(IndexBuilder, "_new_part", new_part)
        config = Config.resolve(options=OPTIONS)
        store = open_store(str(place / "t"), config)
        rows = random_rows(rng, num_rows)
        with SplitWriter(store, SCHEMA, config) as writer:
            for start in range(0, num_rows, 50):
                writer.write(rows.slice(start, 50))
            (add,) = writer.finish()
        self.split = SplitFile.open(store, add.path, size=add.size)
        self.traces = [trace for trace in rows["trace"].to_pylist() if trace][:5]
        self.fields = FieldMap.from_json(self.split.directory.doc_mapping)
        self.catalog = SearchableFields(self.fields)
        self.files = place / "whole"
        self.files.mkdir()
        self.split.extract_index(str(self.files))
        self.searcher = open_index(str(self.files), self.fields).searcher()
        self.table, _ = self.split.piece_table()


class PoisonedIndex:
    """The files of an index with poison, and the pieces that were fetched instead of it."""

    def __init__(self, example: Example, place: Path, poison: bytes) -> None:
        place.mkdir()
        self.table = example.table
        self._whole, self._place = example.files, place
        self.fetched: set[int] = set()
        for name, size in self.table.members:
            (place / name).write_bytes((poison * (size // len(poison) + 1))[:size])
        pieces = Pieces(self.table, self._missing, self._fetch, self._read)
        self.partial = PartialIndex(pieces, "the split")
        self.searcher: tantivy.Searcher = open_index(str(place), example.fields).searcher()

    def _missing(self, pieces: Iterable[int]) -> list[int]:
        return [piece for piece in pieces if piece not in self.fetched]

    def _fetch(self, pieces: Iterable[int]) -> None:
        for piece in self._missing(pieces):
            name, _ = self.table.members[self.table.member[piece]]
            start = self.table.raw_start[piece]
            handle = os.open(self._place / name, os.O_WRONLY)
            with open(self._whole / name, "rb") as file:
                file.seek(start)
                os.pwrite(handle, file.read(self.table.raw_length[piece]), start)
            os.close(handle)
            self.fetched.add(piece)

    def _read(self, member: int, start: int, end: int) -> bytes:
        covering = self.table.covering(member, start, end)
        assert not self._missing(covering), "a piece is read before it was fetched"
        with open(self._place / self.table.members[member][0], "rb") as file:
            file.seek(start)
            return file.read(end - start)
