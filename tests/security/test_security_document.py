"""SECURITY.md names tests that exist, and numbers that are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from indextables.config import settings
from indextables.predicate import parse as predicate
from indextables.predicate import source
from indextables.protocol import (
    avro_container,
    compression,
    json_checkpoint,
    parquet_checkpoint,
    paths,
    thrift,
    version_file,
)
from indextables.split import documents, layout
from indextables.split.query import parse as query
from indextables.split.query import words
from indextables.state import guarded_worker
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


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (compression._PLAIN_BYTES_ALWAYS_ALLOWED, f"{128 << 20}"),
        (version_file._PLAIN_BYTES_ALWAYS_ALLOWED, f"{128 << 20}"),
        (compression._MAX_RATIO, "200"),
        (version_file._MAX_RATIO, "200"),
        (compression._MAX_GZIP_MEMBERS, "1000"),
        (version_file._LINES_ALWAYS_ALLOWED, "100000"),
        (version_file._MIN_MEAN_LINE_BYTES, "20"),
        (json_checkpoint._MAX_PARTS, "100000"),
        (parquet_checkpoint._ROWS_ALWAYS_ALLOWED, "100000"),
        (avro_container._MAX_HEADER_ENTRIES, "1000"),
        (guarded_worker._MAX_MEMORY_BYTES, f"{4 << 30}"),
        (settings.CHECKPOINT_READ_TIMEOUT_SECONDS.default, "30"),
        (paths._MOST_CHARACTERS, "4096"),
        (MAX_SEGMENT_BYTES, "255"),
        (layout._MOST_MEMBERS, "10000"),
        (layout._MOST_PIECE_BYTES, f"{256 << 20}"),
        (thrift._MAX_DEPTH, "32"),
        (documents._MAX_JSON_DEPTH, "100"),
        (words.MAX_LENGTH, "1000000"),
        (query.MAX_NESTING, "50"),
        (query.MAX_DISTANCE, "2"),
        (query.MAX_SLOP, "1000000"),
        (source.MAX_LENGTH, "1000000"),
        (predicate.MAX_NESTING, "100"),
        (settings.CACHE_DISK_MAX_SIZE.default, f"{10 << 30}"),
    ],
)
def test_the_bounds_are_those_of_the_code(number, shown) -> None:
    """Whoever changes one of them has to change the document, too."""
    assert str(number) == shown
