"""SECURITY.md names tests that exist, and numbers that are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from indextables.config import settings
from indextables.predicate import parse as predicate
from indextables.predicate import source
from indextables.protocol import compression, paths, thrift, version_file
from indextables.protocol.avro import avro_container
from indextables.protocol.checkpoint import json_checkpoint, parquet_checkpoint
from indextables.split.format import layout
from indextables.split.index import documents
from indextables.split.query import parse as query
from indextables.split.query import words
from indextables.state import sandbox_worker
from indextables.store.base import MAX_SEGMENT_BYTES

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", TEXT)))


def test_tests_are_named() -> None:
    assert len(NAMED) >= 20


@pytest.mark.parametrize("name", NAMED)
def test_every_test_that_is_named_exists(name) -> None:
    assert "def test_" in (ROOT / name).read_text()


def test_every_test_of_security_is_named() -> None:
    here = {path.relative_to(ROOT).as_posix() for path in Path(__file__).parent.glob("test_*.py")}
    assert here - set(NAMED) == {"tests/security/test_security_document.py"}


def mib(number: int) -> str:
    return f"{number >> 20} MiB"


def gib(number: int) -> str:
    return f"{number >> 30} GiB"


BOUNDS = [
    f"unpacked | {mib(compression._PLAIN_BYTES_ALWAYS_ALLOWED)}, or {compression._MAX_RATIO} times the stored size |",
    f"unpacked | {mib(version_file._PLAIN_BYTES_ALWAYS_ALLOWED)}, or {version_file._MAX_RATIO} times the stored size |",
    f"| gzip members of a file | {compression._MAX_GZIP_MEMBERS:,} |",
    f"file | {version_file._LINES_ALWAYS_ALLOWED:,}, or {version_file._MIN_MEAN_LINE_BYTES} bytes each on average |",
    f"| parts of a JSON checkpoint | {json_checkpoint._MAX_PARTS:,} |",
    f"| rows of a Parquet checkpoint | {parquet_checkpoint._ROWS_ALWAYS_ALLOWED:,}, or",
    f"| entries of an Avro header | {avro_container._MAX_HEADER_ENTRIES:,} |",
    f"| {gib(sandbox_worker._MAX_MEMORY_BYTES)}, and `checkpoint.read.timeoutSeconds` "
    f"({settings.CHECKPOINT_READ_TIMEOUT_SECONDS.default}) |",
    f"| path of a split | {paths._MOST_CHARACTERS:,} characters; a segment {MAX_SEGMENT_BYTES} bytes |",
    f"| members of a split | {layout._MOST_MEMBERS:,}, each piece {mib(layout._MOST_PIECE_BYTES)},",
    f"| nesting of a Parquet header | {thrift._MAX_DEPTH} |",
    f"| nesting of JSON values in an indexed column | {documents._MAX_JSON_DEPTH} |",
    f"| query | {words.MAX_LENGTH:,} characters, {query.MAX_NESTING} levels, {query.MAX_DISTANCE} edits, "
    f"a slop of {query.MAX_SLOP:,} |",
    f"| predicate or SQL command | {source.MAX_LENGTH:,} characters, {predicate.MAX_NESTING} levels |",
    f"`cache.disk.maxSize` ({gib(settings.CACHE_DISK_MAX_SIZE.default)}) |",
]


@pytest.mark.parametrize("row", BOUNDS)
def test_the_bounds_are_those_of_the_code(row) -> None:
    assert row in TEXT
