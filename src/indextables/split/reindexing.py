"""Splits whose own index does not serve a query: their rows are indexed anew, on local disk."""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import threading

import msgspec

from indextables.split.fields import FieldMap
from indextables.split.indexing import META, IndexBuilder
from indextables.split.layout import Directory
from indextables.split.split_file import SplitFile
from indextables.split.writer import ENGINE

logger = logging.getLogger(__name__)

HEAP_BYTES = 100_000_000

_told: set[str] = set()
_lock = threading.Lock()


def is_readable(directory: Directory) -> bool:
    """Whether the index of a split was written by this engine, in a version whose files it reads."""
    return _minor(f"{directory.engine} {directory.engine_version}") == _minor(engine())


@functools.cache
def engine() -> str:
    """The engine that this library has, with its version."""
    return f"{ENGINE} {importlib.metadata.version(ENGINE)}"


def tell(split: SplitFile) -> None:
    """Log that a split is searched in this way, once per split and process."""
    directory = split.directory
    with _lock:
        if directory.split_id in _told:
            return
        _told.add(directory.split_id)
    if is_readable(directory):
        logger.info(
            "indexing the split `%s` again on local disk because it is not indexed as the table says; `reindex` does "
            "so for good",
            split.key,
        )
        return
    logger.warning(
        "indexing the split `%s` again because its index is of `%s %s`, and this library reads that of `%s`",
        split.key,
        directory.engine,
        directory.engine_version,
        engine(),
    )


def index_again(split: SplitFile, fields: FieldMap, into: str) -> None:
    """Build an index of a split's rows in an empty directory, by any fields of its columns."""
    builder = IndexBuilder(into, fields, heap_bytes=HEAP_BYTES)
    try:
        for batch in split.rows(None, [field.column for field in fields.fields if field.nan_of is None]):
            builder.add(batch)
        builder.finish()
    finally:
        builder.close()


def first_rows(index_directory: str) -> list[int]:
    """The first row of each segment of an index that stands in the order of rows."""
    with open(f"{index_directory}/{META}", "rb") as file:
        segments = msgspec.json.decode(file.read())["segments"]
    found, next_row = [], 0
    for segment in segments:
        found.append(next_row)
        next_row += int(segment["max_doc"])
    return found


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
