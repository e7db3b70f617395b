"""Index a split's rows again on local disk if its index does not fit a query."""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import threading

import msgspec

from indextables.split.format.layout import Directory
from indextables.split.index.builder import META, IndexBuilder
from indextables.split.index.fields import FieldMap
from indextables.split.split_file import SplitFile
from indextables.split.writer import ENGINE

logger = logging.getLogger(__name__)

HEAP_BYTES = 100_000_000

_logged: set[str] = set()
_lock = threading.Lock()


def is_readable(directory: Directory) -> bool:
    """Return whether this engine can read the index of a split."""
    return can_read(directory.engine, directory.engine_version)


def can_read(name: str, version: str) -> bool:
    """Return whether this engine can read the indexes of an engine."""
    return _minor(f"{name} {version}") == _minor(engine())


@functools.cache
def engine() -> str:
    """Return the engine of this library with its version."""
    return f"{ENGINE} {importlib.metadata.version(ENGINE)}"


def log_once(split: SplitFile) -> None:
    """Log once per split and process that a split is indexed again."""
    directory = split.directory
    with _lock:
        if directory.split_id in _logged:
            return
        _logged.add(directory.split_id)
    if is_readable(directory):
        logger.info(
            "indexing the split `%s` again on local disk because it is not indexed as the table says; `reindex` does "
            "so for good",
            split.key,
        )
        return
    logger.warning(
        "indexing the split `%s` again because `%s %s` wrote its index, and this library reads indexes of `%s`",
        split.key,
        directory.engine,
        directory.engine_version,
        engine(),
    )


def index_again(split: SplitFile, fields: FieldMap, into: str) -> None:
    """Build an index of a split's rows in an empty directory, by any fields."""
    builder = IndexBuilder(into, fields, heap_bytes=HEAP_BYTES)
    try:
        for batch in split.rows(None, [field.column for field in fields.fields if field.nan_of is None]):
            builder.add(batch)
        builder.finish()
    finally:
        builder.close()


def first_rows(index_directory: str) -> list[int]:
    """Return the first row of each segment of an index in row order."""
    with open(f"{index_directory}/{META}", "rb") as file:
        segments = msgspec.json.decode(file.read())["segments"]
    found, next_row = [], 0
    for segment in segments:
        found.append(next_row)
        next_row += int(segment["max_doc"])
    return found


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
