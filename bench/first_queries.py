"""First queries of a process to a table. Imports the library and nothing else that takes time."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa

import indextables as it
from indextables.split.index.index_cache import IndexCache
from indextables.split.query import parse_query
from indextables.split.search.searcher import SplitSearcher
from indextables.split.split_file import SplitFile


def search_first(path: Path, cache: Path, query: str) -> int:
    """How many rows are found, with all columns."""
    return int(_open(path, cache).search(query).num_rows)


def count_first(path: Path, cache: Path, query: str) -> int:
    return _open(path, cache).count(query)


def take_steps(path: Path, cache: Path, query: str) -> dict[str, float]:
    """The milliseconds of every step of a search in a table of one split."""
    steps = _Steps()
    table = _open(path, cache)
    (file,) = table.files().to_pylist()
    steps.end("open the table")
    split = SplitFile.open(
        table.log.reader.store,
        file["path"],
        size=file["size"],
        footer_start_offset=file["footer_start_offset"],
        footer_end_offset=file["footer_end_offset"],
    )
    steps.end("open the split")
    split.term_filter()
    steps.end("read the term filter")
    searcher = SplitSearcher(split, file["path"], IndexCache(table.log.config))
    tree = parse_query(query)
    numbers = searcher.row_numbers(tree)
    steps.end("extract the index and ask it")
    searcher.row_numbers(tree)
    steps.end("ask it again")
    pa.Table.from_batches(split.rows(numbers))
    steps.end("fetch the rows")
    return steps.elapsed_ms


class _Steps:
    """A clock that notes how long each step took."""

    def __init__(self) -> None:
        self.elapsed_ms: dict[str, float] = {}
        self._start = time.perf_counter()

    def end(self, step: str) -> None:
        now = time.perf_counter()
        self.elapsed_ms[step] = (now - self._start) * 1000
        self._start = now


def _open(path: Path, cache: Path) -> it.Table:
    return it.Table.open(path, options={"cache.disk.path": str(cache)})
