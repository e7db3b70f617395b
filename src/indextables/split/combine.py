"""Several splits as one new split, with their rows in the order given. The old ones stay as they are.

Rows stream through memory a few row groups at a time. The new split is built on local disk and put into the store at
the end, so that what fails before leaves nothing there.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.errors import ConfigError, CorruptSplitError, IndexTablesError, SchemaError, StorageError
from indextables.protocol.actions import Add
from indextables.resources import refuse_shortage
from indextables.split.combined_index import combine_indexes
from indextables.split.layout import corrupt
from indextables.split.split_file import SplitFile
from indextables.split.writer import Index, NewSplit, SplitPlan
from indextables.store import ObjectStore

_OF_A_SOURCE = (CorruptSplitError, SchemaError, StorageError)


class Source(Protocol):
    """A split that is to be combined; an add action says all of it."""

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
    """Splits that cannot be combined with others, because they cannot be read, or do not hold what they should.
    `causes` says of the path of each why."""

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
    """Put one split with the rows of several into the store; gives its add action, and appends it to `adds`.

    Its index is made of theirs, or from the rows where the table's settings, the engine or the number of segments call
    for it, or where an index is damaged. Sources that cannot be read, have other columns, or not as many rows as they
    should, are a `BadSourcesError`: all of those that show it when they are opened, and otherwise the first one.
    """
    if not sources:
        raise ConfigError("cannot combine splits because none is named")
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
        raise SchemaError(f"cannot combine the split `{source.path}` because its columns are not those of the table")
    return split


def _all_rows(split: SplitFile) -> Iterator[pa.RecordBatch]:
    """The rows of a source, as many as its footer says."""
    num_rows = 0
    try:
        for batch in split.rows():
            num_rows += batch.num_rows
            yield batch
        if num_rows != split.num_rows:
            raise corrupt(split.key, f"{num_rows} of its {split.num_rows} rows are there")
    except _OF_A_SOURCE as error:
        refuse_shortage(f"combine the split `{split.key}`", error)
        raise BadSourcesError.of({split.key: error}) from error


def _make_index(plan: SplitPlan, splits: Sequence[SplitFile], directory: str) -> Index:
    return combine_indexes(splits, plan.fields, directory) or plan.new_index(directory)
