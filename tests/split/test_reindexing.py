"""Splits whose index is of another engine: searched by an index that is made of their rows, with the same answers."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import CorruptSplitError
from indextables.split import reindexing
from indextables.split.index.builder import IndexBuilder
from indextables.split.split_file import SplitFileWriter

SCHEMA = pa.schema([("id", pa.int64()), ("level", pa.string()), ("message", pa.string())])
ROWS = [
    {
        "id": number,
        "level": [None, "INFO", "WARN"][number % 3],
        "message": f"request {number % 17} {'failed' if number % 5 else 'ended'}",
    }
    for number in range(500)
]
QUERIES = ("failed", "NOT failed", "level:WARN AND 3", '"request 3"', "absent", "id:[10 TO 20]")


def make_table(place: Path, monkeypatch, *, is_cached: bool = True, **changed) -> it.Table:
    """A table whose split says that something else has made its index, which then is no index at all."""
    whole = SplitFileWriter.finish

    def finish(self, index_directory, index_files, **facts):
        if changed:
            facts |= {**changed, "term_filter": None}
            for name in index_files:
                Path(index_directory, name).write_bytes(b"something else")
        return whole(self, index_directory, index_files, **facts)

    options = {"cache.disk.path": str(place / "cache"), "cache.disk.enabled": str(is_cached).lower()}
    table = it.Table.create(place / "t", SCHEMA, indexing={"message": "text"}, options=options)
    with monkeypatch.context() as patched:
        patched.setattr(SplitFileWriter, "finish", finish)
        table.append(pa.Table.from_pylist(ROWS, schema=SCHEMA))
    return table


@pytest.mark.parametrize(
    ("engine", "version", "is_cached"),
    [("tantivy", "0.26.4", True), ("tantivy", "1.27.0", False), ("lucene", "0.27.0", True)],
)
def test_answers_are_those_of_an_index_that_can_be_read(
    tmp_path, monkeypatch, caplog, engine, version, is_cached
) -> None:
    known = make_table(tmp_path / "known", monkeypatch)
    other = make_table(tmp_path / "other", monkeypatch, is_cached=is_cached, engine=engine, engine_version=version)
    caplog.set_level(logging.WARNING)
    for query in QUERIES:
        assert other.count(query) == known.count(query)
        assert other.search(query).equals(known.search(query))
        assert other.search(query, score=True, limit=9).equals(known.search(query, score=True, limit=9))
    assert other.stats("id", query="failed").equals(known.stats("id", query="failed"))
    other.flush_search_cache()
    assert other.count("failed") == known.count("failed")
    (said,) = [record.message for record in caplog.records if "again" in record.message]
    assert other.files()["path"][0].as_py() in said
    assert f"{engine} {version}" in said


def test_a_patch_of_the_same_version_is_read_as_it_is(tmp_path, monkeypatch) -> None:
    """It is opened, and here found to be damaged."""
    minor = reindexing.engine().split(" ")[1].rpartition(".")[0]
    table = make_table(tmp_path, monkeypatch, engine_version=f"{minor}.99")
    with pytest.raises(CorruptSplitError):
        table.count("failed")


def test_rows_of_several_segments_keep_their_numbers(tmp_path, monkeypatch) -> None:
    new_part, first_rows = IndexBuilder._new_part, reindexing.first_rows
    segments: list[int] = []

    def small_part(self):
        self._bytes_per_part = 2_000
        return new_part(self)

    def noted(directory):
        segments.extend(first_rows(directory))
        return first_rows(directory)

    monkeypatch.setattr(IndexBuilder, "_new_part", small_part)
    monkeypatch.setattr("indextables.split.index.builder._ROWS_PER_LOOK", 100)
    monkeypatch.setattr("indextables.split.search.searcher.first_rows", noted)
    table = make_table(tmp_path, monkeypatch, engine_version="0.1")
    rows = [row["id"] for row in ROWS if "failed" in row["message"]]
    assert table.search("failed", columns=["id"])["id"].to_pylist() == rows
    assert len(segments) > 1
