"""Combine several splits into a new one, with their rows in the given order.

The old splits stay unchanged. Rows stream through memory a few row groups at a time. The new split is built on local
disk and put into the store at the end, so a failure leaves nothing in the store.

The segments of the old indexes are collected under one `meta.json`. This is as exact as indexing the rows again, and
takes milliseconds. But every segment has its own term dictionary and its own files. So rows are indexed again if the
segments would be many or small, if an index was made differently, or if it is damaged.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.errors import ConfigError, CorruptSplitError, IndexTablesError, SchemaError, StorageError
from indextables.protocol.actions import Add
from indextables.runtime.resources import refuse_shortage
from indextables.runtime.scratch import remove_directory
from indextables.split.format.layout import Segment, corrupt
from indextables.split.index.builder import META, BuiltIndex, open_index
from indextables.split.index.fields import FieldMap
from indextables.split.reindexing import is_readable
from indextables.split.split_file import SplitFile
from indextables.split.writer import Index, NewSplit, SplitPlan
from indextables.store import ObjectStore

logger = logging.getLogger(__name__)

MOST_SEGMENTS = 64
"""Opening an index of 300,000 rows takes 0.2 ms with 1 segment, 0.9 ms with 8 and 2.5 ms with 32.

The benchmark `merge` has 64.
"""

ROWS_PER_SEGMENT = 20_000
"""Segments of 20,000 rows make an index a fifth larger than one segment; segments of 5,000 rows a half."""


class CombinedIndex:
    """An index whose segments already hold all rows."""

    def __init__(self, built: BuiltIndex) -> None:
        self._built = built

    def add(self, batch: pa.RecordBatch) -> None:
        """Ignore the rows: they are already indexed."""

    def finish(self) -> BuiltIndex:
        return self._built

    def close(self) -> None:
        """Do nothing: no resources are held."""


def combine_indexes(splits: Sequence[SplitFile], fields: FieldMap, directory: str) -> CombinedIndex | None:
    """Combine the indexes of splits in an empty directory; None to index rows again."""
    reason = _why_not(splits, fields)
    if reason is not None:
        logger.info("indexing the rows of %d splits again because %s", len(splits), reason)
        return None
    try:
        return CombinedIndex(_combine(splits, fields, directory))
    except (CorruptSplitError, StorageError) as error:
        logger.warning("indexing the rows of %d splits again because an index is damaged: %s", len(splits), error)
        remove_directory(directory)
        os.makedirs(directory, exist_ok=True)
        return None


def _why_not(splits: Sequence[SplitFile], fields: FieldMap) -> str | None:
    for split in splits:
        found = split.directory
        if not is_readable(found):
            return f"the index of `{split.key}` was written by {found.engine} {found.engine_version}"
        if not _is_indexed_by(split, fields):
            return f"`{split.key}` is indexed differently"
        if sum(segment.num_rows for segment in found.segments) != split.num_rows:
            return f"`{split.key}` has no index"
    names = [segment.name for split in splits for segment in split.directory.segments]
    if len(set(names)) != len(names):
        return "two of them have the same index"
    num_rows = sum(split.num_rows for split in splits)
    if len(names) > max(1, min(MOST_SEGMENTS, num_rows // ROWS_PER_SEGMENT)):
        return f"{num_rows} rows in {len(names)} segments would be slow to search"
    return None


def _is_indexed_by(split: SplitFile, fields: FieldMap) -> bool:
    try:
        return FieldMap.from_json(split.directory.doc_mapping) == fields
    except SchemaError:
        return False


def _combine(splits: Sequence[SplitFile], fields: FieldMap, directory: str) -> BuiltIndex:
    files: list[str] = []
    segments: list[Segment] = []
    entries: list[dict[str, Any]] = []
    meta: dict[str, Any] = {}
    num_rows = 0
    for split in splits:
        meta, own_entries, own_files = _take_index(split, directory)
        for segment in split.directory.segments:
            segments.append(msgspec.structs.replace(segment, first_row=num_rows + segment.first_row))
            entries.append(own_entries[segment.name])
        files += own_files
        num_rows += split.num_rows
    with open(os.path.join(directory, META), "wb") as file:
        file.write(msgspec.json.encode({**meta, "segments": entries}))
    _check(directory, fields, num_rows)
    return BuiltIndex((META, *sorted(files)), tuple(segments), num_rows)


def _take_index(split: SplitFile, directory: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]], list[str]]:
    """Extract a split's segments; return its `meta.json`, segments and file names.

    The segments are the entries of `meta.json`, by name.
    """
    place = os.path.join(directory, "source")
    os.mkdir(place)
    split.extract_index(place)
    try:
        with open(os.path.join(place, META), "rb") as file:
            meta = msgspec.json.decode(file.read(), type=dict[str, Any])
        entries = {str(entry["segment_id"]).replace("-", ""): entry for entry in meta["segments"]}
        counts = {name: entry["max_doc"] for name, entry in entries.items()}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, RecursionError) as error:
        refuse_shortage(f"read the split `{split.key}`", error)
        raise corrupt(split.key, f"the `{META}` of its index cannot be understood ({error!r})") from error
    if counts != {segment.name: segment.num_rows for segment in split.directory.segments}:
        raise corrupt(split.key, "the segments of its index differ from its directory")
    names = [name for name in os.listdir(place) if name.partition(".")[0] in entries]
    for name in names:
        os.replace(os.path.join(place, name), os.path.join(directory, name))
    shutil.rmtree(place)
    return meta, entries, names


def _check(directory: str, fields: FieldMap, num_rows: int) -> None:
    num_found = open_index(directory, fields).searcher().num_docs
    if num_found != num_rows:
        raise CorruptSplitError(f"cannot combine indexes because they hold {num_found} rows of {num_rows}")


_OF_A_SOURCE = (CorruptSplitError, SchemaError, StorageError)


class Source(Protocol):
    """A split to combine, with the fields of its add action."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def footer_start_offset(self) -> int | None: ...

    @property
    def footer_end_offset(self) -> int | None: ...

    @property
    def num_records(self) -> int | None: ...

    @property
    def num_merge_ops(self) -> int | None: ...


class BadSourcesError(IndexTablesError):
    """Raised if sources cannot be read or contradict the log.

    `causes` maps the path of each bad source to its error.
    """

    causes: Mapping[str, IndexTablesError]

    @classmethod
    def of(cls, causes: Mapping[str, IndexTablesError]) -> BadSourcesError:
        first, *others = causes.values()
        error = cls(f"{first.message}{f' (and {len(others)} more)' if others else ''}", hint=first.hint)
        error.causes = causes
        return error


def combine_splits(
    store: ObjectStore,
    sources: Sequence[Source],
    schema: pa.Schema,
    config: Config,
    *,
    partition_columns: Sequence[str] = (),
    partition_values: Mapping[str, str | None] | None = None,
    adds: list[Add] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Add:
    """Put one split with the rows of several splits into the store.

    Returns its add action, and appends it to `adds`. The index is combined from the sources' indexes. It is built from
    the rows if the table's settings, the engine or the number of segments require it, or if an index is damaged.
    Sources that cannot be read, have other columns, or have a wrong number of rows raise a `BadSourcesError`. It names
    all sources that fail on opening, otherwise the first one that fails.
    """
    if not sources:
        raise ConfigError("cannot combine splits because the list is empty")
    plan = SplitPlan.make(
        store, schema, config, partition_columns=partition_columns, partition_values=partition_values, clock=clock
    )
    splits = _open_all(store, sources, schema)
    with contextlib.closing(NewSplit(plan, functools.partial(_make_index, plan, splits))) as new:
        for split in splits:
            for batch in _all_rows(split):
                new.write(batch)
        add = new.put(
            num_merge_ops=(len(sources) > 1) + max(source.num_merge_ops or 0 for source in sources),
            merged_from=[split.directory.split_id for split in splits],
        )
    if adds is not None:
        adds.append(add)
    return add


def _open_all(store: ObjectStore, sources: Sequence[Source], schema: pa.Schema) -> list[SplitFile]:
    splits: list[SplitFile] = []
    causes: dict[str, IndexTablesError] = {}
    for source in sources:
        try:
            splits.append(_open(store, source, schema))
        except _OF_A_SOURCE as error:
            refuse_shortage(f"combine the split `{source.path}`", error)
            causes[source.path] = error
    if causes:
        raise BadSourcesError.of(causes)
    return splits


def _open(store: ObjectStore, source: Source, schema: pa.Schema) -> SplitFile:
    split = SplitFile.open(
        store,
        source.path,
        size=source.size,
        footer_start_offset=source.footer_start_offset,
        footer_end_offset=source.footer_end_offset,
        num_records=source.num_records,
    )
    if not split.schema.equals(schema):
        raise SchemaError(f"cannot combine the split `{source.path}` because its columns differ from the table")
    return split


def _all_rows(split: SplitFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a source, and check their number against its footer."""
    num_rows = 0
    try:
        for batch in split.rows():
            num_rows += batch.num_rows
            yield batch
        if num_rows != split.num_rows:
            raise corrupt(split.key, f"it holds only {num_rows} of its {split.num_rows} rows")
    except _OF_A_SOURCE as error:
        refuse_shortage(f"combine the split `{split.key}`", error)
        raise BadSourcesError.of({split.key: error}) from error


def _make_index(plan: SplitPlan, splits: Sequence[SplitFile], directory: str) -> Index:
    return combine_indexes(splits, plan.fields, directory) or plan.new_index(directory)
