"""`filters`: a word that none of many splits holds, sought in an object store with a filter sheet.

The table has one real split, which stands for all of them, and a log with many entries. Their filters are of random
terms, as if each split had its own words. A search that a filter lets through asks the real split. The log is not
counted: it is read before the search begins.
"""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tests.doubles.metered_store import MeteredStore

import indextables as it
from bench.harness import Figure, Goal, Setting, Unit, timed_ms
from bench.log_places import BYTES_PER_MB
from bench.our_files import NEVER, WITHOUT_CACHE
from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.filters.sheet_writer import SheetWriter, SplitTerms, large_runs, read_terms
from indextables.log.files import LiveFiles
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.protocol.names import sheet_key
from indextables.prune.files import partition_bounds
from indextables.runtime.pools import SHARED_POOLS
from indextables.split.index.term_hashes import TermHashes, encode_hashes
from indextables.state.manifests import StateFiles
from indextables.state.reader import StateReader
from indextables.state.writer import StateWriter
from indextables.store import ObjectStore, open_store
from indextables.store.ranges import Spans, read_together

_SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])
_OPTIONS = {**WITHOUT_CACHE, "checkpoint.interval": NEVER, "state.filters.minSplits": "1"}
_NUM_TERMS = 1_000
_NUM_WORDS = 50
_ROWS_AT_ONCE = 50_000
_REQUESTS = Goal(most_requests=10)
_MB = Goal(below_mb=1)


class OneSplitStore(MeteredStore):
    """Counts requests as an object store makes them: near ranges are one. Every split is the same one."""

    is_remote = True

    def __init__(self, inner: ObjectStore, split: str) -> None:
        super().__init__(inner)
        self._split = split
        self.num_requests = 0
        self.num_bytes = 0

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return read_together(key, ranges, functools.partial(self._read, key))

    def get(self, key: str, *, e_tag: str | None = None) -> bytes:
        data = super().get(key, e_tag=e_tag)
        with self._lock:
            self.num_requests += 1
            self.num_bytes += len(data)
        return data

    def _read(self, key: str, spans: Spans) -> list[bytes]:
        with self._lock:
            self.num_requests += len(spans)
            self.num_bytes += sum(end - start for start, end in spans)
        return super().get_ranges(self._split if key.startswith("many/") else key, spans)


def run(setting: Setting) -> list[Figure]:
    count = setting.sizes.num_files
    path = setting.directory / "table"
    split = _build(path, count)
    store = OneSplitStore(open_store(str(path), Config.resolve()), split)
    setting.say(f"writing the sheet of {count} splits")
    written_ms = timed_ms(lambda: _write_sheet(store, path, split))
    setting.say("searching")
    searches = [_search(store, path, f"absent{number}") for number in range(_NUM_WORDS)]
    name = f"filters: a word that none of {count} splits holds"
    sheet_mb = (path / sheet_key(2)).stat().st_size / BYTES_PER_MB
    return [
        Figure(f"{name}, requests", [each.requests for each in searches], [], _REQUESTS, unit=Unit.REQUESTS),
        Figure(f"{name}, fetched", [each.num_bytes / BYTES_PER_MB for each in searches], [], _MB, unit=Unit.MB),
        Figure(f"{name}, first search", [each.milliseconds for each in searches], [], Goal()),
        Figure(f"filters: sheet of {count} splits, size", [sheet_mb], [], Goal(), unit=Unit.MB),
        Figure(f"filters: sheet of {count} splits, written from hashes in memory", [written_ms], [], Goal()),
    ]


def _build(path: Path, count: int) -> str:
    """Write a table of one real split, and a state with many entries that stand for it."""
    table = it.Table.create(path, _SCHEMA, indexing={"message": "text"}, options=_OPTIONS)
    rows = {"id": range(1_000), "message": [f"word{number} of a row" for number in range(1_000)]}
    table.append(pa.table(rows, schema=_SCHEMA))
    entry = table.snapshot.files
    log = it.TransactionLog(path, options=_OPTIONS)
    log.add_files([])
    segment, snapshot = log.reader.newest_snapshot()
    generated = dataclasses.replace(snapshot, live_files=LiveFiles(_Entries(entry, count)))
    states = StateReader(log.reader.store, log.config, SHARED_POOLS)
    writer = StateWriter(log.reader.store, log.config, SYSTEM_CLOCK, states, partition_bounds)
    writer.write(log.reader, segment, generated, compact=True)
    return str(entry["path"][0].as_py())


class _Entries:
    """Copies of one entry with other paths."""

    def __init__(self, entry: pa.Table, count: int) -> None:
        self._entry = entry
        self.num_files = count

    def tables(self, keep: object = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        for start in range(0, self.num_files, _ROWS_AT_ONCE):
            numbers = pa.array(np.arange(start, min(start + _ROWS_AT_ONCE, self.num_files)))
            copies = self._entry.take(pa.array(np.zeros(len(numbers), np.int64)))
            paths = pc.binary_join_element_wise("many/part-", pc.cast(numbers, pa.string()), ".split", "")
            table = copies.set_column(FILES_SCHEMA.get_field_index("path"), FILES_SCHEMA.field("path"), paths)
            yield table if columns is None else table.select(list(columns))


def _write_sheet(store: ObjectStore, path: Path, split: str) -> None:
    log = it.TransactionLog(path, options=_OPTIONS, store=store)
    states = StateReader(store, log.config, SHARED_POOLS)
    state = states.state_at(2)
    known = read_terms(store, log.snapshot(version=1).files.to_pylist()[0])
    if state is None or known is None:
        raise AssertionError("the table has no state, or its split no hashes")
    files = StateFiles(state, states.manifests)
    kind = known.kind

    def forged(_: ObjectStore, file: dict[str, Any]) -> SplitTerms:
        chance = np.random.default_rng(zlib.crc32(file["path"].encode()))
        crcs = pa.array(chance.integers(0, 1 << 32, _NUM_TERMS, np.uint32))
        return SplitTerms(kind, TermHashes.from_bytes(encode_hashes(crcs, kind.fields)))

    for run, infos in large_runs(state, log.config).items():
        if not SheetWriter(store, log.config, SHARED_POOLS, files, run, infos, forged).write():
            raise AssertionError("no sheet was written")


class _Search(NamedTuple):
    requests: int
    num_bytes: int
    milliseconds: float


def _search(store: OneSplitStore, path: Path, word: str) -> _Search:
    """Search with a new handle, whose log is read."""
    log = it.TransactionLog(path, options=_OPTIONS, store=store)
    table = it.Table(log, log.snapshot())
    table.files()
    store.num_requests = store.num_bytes = 0
    milliseconds = timed_ms(lambda: _check_absent(table, word))
    return _Search(store.num_requests, store.num_bytes, milliseconds)


def _check_absent(table: it.Table, word: str) -> None:
    if table.count(word):
        raise AssertionError(f"`{word}` was found")
