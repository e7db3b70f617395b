"""Verify a whole split: footer, pages and index members against their checksums.

Also returns facts of the rows, which callers compare with the log. `verify_seals` checks footers only, for readers that
trust the rest of a split.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.config import Config, settings, store_settings
from indextables.errors import CorruptSplitError, ObjectNotFoundError, SchemaError
from indextables.protocol.actions import Add
from indextables.runtime.pools import SHARED_POOLS
from indextables.runtime.scratch import scratch_directory
from indextables.split.format.layout import MAGIC, corrupt
from indextables.split.index.builder import open_index
from indextables.split.index.fields import FieldMap
from indextables.split.reindexing import is_readable
from indextables.split.split_file import SplitFile, verify_seal
from indextables.split.statistics import ColumnStatistics, StatisticsCollector
from indextables.store import ObjectStore

_VERIFYING = "seal-verifying"
_CORES = min(8, os.cpu_count() or 1)


class RowFacts(NamedTuple):
    """Number of rows, statistics, and values of each partition column as text."""

    num_rows: int
    statistics: ColumnStatistics
    partition_values: dict[str, frozenset[str | None]]


def read_row_facts(split: SplitFile, statistics: StatisticsCollector, partition_columns: Sequence[str]) -> RowFacts:
    """Read every row, a few row groups at a time.

    A damaged page raises a `CorruptSplitError`.
    """
    split.check_start()
    num_rows = 0
    values: dict[str, set[str | None]] = {name: set() for name in partition_columns}
    for batch in split.rows():
        num_rows += batch.num_rows
        statistics.add(batch)
        for name, known in values.items():
            known.update(pc.unique(pc.cast(batch.column(name), pa.string())).to_pylist())
    if num_rows != split.num_rows:
        raise corrupt(split.key, f"it holds {num_rows} rows and its directory says {split.num_rows}")
    return RowFacts(num_rows, statistics.finish(), {name: frozenset(known) for name, known in values.items()})


def verify_seals(store: ObjectStore, files: pa.Table, config: Config) -> None:
    """Verify the footers of many splits in parallel.

    The first damaged one raises a `CorruptSplitError`. `files` has the columns `path`, `size`, `footer_start_offset`
    and `footer_end_offset`. A missing split is left to its reader.
    """
    workers = max(_CORES, config[store_settings.STORE_PARALLELISM] if store.is_remote else 0)
    SHARED_POOLS.map(_VERIFYING, functools.partial(_verify_seal, store), files.to_pylist(), workers=workers)


def _verify_seal(store: ObjectStore, file: dict[str, Any]) -> None:
    with contextlib.suppress(ObjectNotFoundError):
        verify_seal(
            store,
            file["path"],
            size=file["size"],
            footer_start_offset=file["footer_start_offset"],
            footer_end_offset=file["footer_end_offset"],
        )


def check_index(split: SplitFile, config: Config) -> None:
    """Read the filters and the index, and open the index if this engine can.

    Damage raises a `CorruptSplitError`.
    """
    directory = split.directory
    try:
        fields = FieldMap.from_json(directory.doc_mapping)
    except SchemaError as error:
        raise corrupt(split.key, f"its doc mapping cannot be understood ({error.message})") from error
    split.term_filter()
    split.fine_filter()
    with scratch_directory(config[settings.INDEX_WRITER_TEMP_DIRECTORY_PATH]) as place:
        split.extract_index(place)
        if is_readable(directory):
            _check_open_index(split, fields, place)


def is_of_another_format(store: ObjectStore, add: Add) -> bool:
    """Return whether a split is in another product's format, by its bytes and the log."""
    if _is_our_mapping(add.doc_mapping_json) or add.size < 2 * len(MAGIC):
        return False
    ends = [(0, len(MAGIC)), (add.size - len(MAGIC), add.size)]
    return MAGIC not in store.get_ranges(add.path, ends)


def _check_open_index(split: SplitFile, fields: FieldMap, place: str) -> None:
    searcher = open_index(place, fields).searcher()
    if searcher.num_docs != split.num_rows:
        raise CorruptSplitError(
            f"cannot search the split `{split.key}` because its index holds {searcher.num_docs} rows of "
            f"{split.num_rows}"
        )
    if searcher.num_segments > len(split.directory.segments):
        raise CorruptSplitError(
            f"cannot search the split `{split.key}` because its index has {searcher.num_segments} segments of "
            f"{len(split.directory.segments)}"
        )


def _is_our_mapping(text: str | None) -> bool:
    if text is None:
        return False
    try:
        FieldMap.from_json(text)
    except SchemaError:
        return False
    return True
