"""The segments of several indexes under one `meta.json`: as exact as indexing the rows again, and done in milliseconds.

Every segment adds its own dictionary of terms and its own files. So where the segments would be many, or small, the
rows are indexed again, and likewise where an index was made in another way, or is damaged.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import CorruptSplitError, SchemaError, StorageError
from indextables.resources import refuse_shortage
from indextables.scratch import remove_directory
from indextables.split.fields import FieldMap
from indextables.split.indexing import META, BuiltIndex, open_index
from indextables.split.layout import Segment, corrupt
from indextables.split.reindexing import is_readable
from indextables.split.split_file import SplitFile

logger = logging.getLogger(__name__)

MOST_SEGMENTS = 64
"""8 segments instead of one made opening an index of 300,000 rows take 0.9 ms instead of 0.2, 32 took 2.5 ms. The
benchmark `merge` has 64."""

ROWS_PER_SEGMENT = 20_000
"""Segments of 20,000 rows each made an index a fifth larger than one segment did, those of 5,000 rows a half."""


class CombinedIndex:
    """An index that needs no rows to be built, as all are in its segments."""

    def __init__(self, built: BuiltIndex) -> None:
        self._built = built

    def add(self, batch: pa.RecordBatch) -> None:
        """The rows are indexed."""

    def finish(self) -> BuiltIndex:
        return self._built

    def close(self) -> None:
        """Nothing is held."""


def combine_indexes(splits: Sequence[SplitFile], fields: FieldMap, directory: str) -> CombinedIndex | None:
    """The indexes of splits as one, in an empty directory; `None` where the rows have to be indexed again."""
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
            return f"the index of `{split.key}` is of {found.engine} {found.engine_version}"
        if not _is_indexed_by(split, fields):
            return f"`{split.key}` is indexed in another way"
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
    """Bring the files of a split's segments; gives its `meta.json`, its segments in there by name, and the files."""
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
        raise corrupt(split.key, "the segments of its index are not those that its directory names")
    names = [name for name in os.listdir(place) if name.partition(".")[0] in entries]
    for name in names:
        os.replace(os.path.join(place, name), os.path.join(directory, name))
    shutil.rmtree(place)
    return meta, entries, names


def _check(directory: str, fields: FieldMap, num_rows: int) -> None:
    num_found = open_index(directory, fields).searcher().num_docs
    if num_found != num_rows:
        raise CorruptSplitError(f"cannot combine indexes because they hold {num_found} rows of {num_rows}")
