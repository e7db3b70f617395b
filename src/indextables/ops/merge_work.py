"""One group of a merge: its splits as one new split, done by any process that can reach the store.

A source that cannot be read is left out, and the others are combined without it. What else goes wrong is told instead
of raised, so that it ends this group alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from indextables.errors import CorruptSplitError, IndexTablesError
from indextables.log.conflict import with_configuration
from indextables.log.snapshot import Head
from indextables.ops.merge_plan import MergeGroup
from indextables.ops.split_rows import delete_splits
from indextables.protocol.actions import Add
from indextables.protocol.doc_mapping import without_registry
from indextables.split.combine import BadSourcesError, combine_splits
from indextables.store.redact import redact
from indextables.transaction_log import TransactionLog

_MOST_REASON_CHARACTERS = 1_000


class BadSource(NamedTuple):
    """A split that could not be read, and why."""

    source: Add
    reason: str


class Combined(NamedTuple):
    """What became of a group: the new split and the splits whose rows it holds, those that were left out, and the error
    where there is no new split because of one."""

    adds: tuple[Add, ...] = ()
    sources: tuple[Add, ...] = ()
    bad_sources: tuple[BadSource, ...] = ()
    error: Exception | None = None


def lean_head(head: Head) -> Head:
    """A head alone, without files and without doc mappings, which take most of its room."""
    metadata = with_configuration(head.metadata, without_registry(head.metadata.configuration))
    return Head(head.version, head.timestamp_ms, head.txn_id, head.protocol, metadata)


def combine_group(log: TransactionLog, head: Head, group: MergeGroup, *, fewest_sources: int = 2) -> Combined:
    """Put one split with the rows of a group into the store. It belongs to no table until it is committed."""
    sources, bad_sources = group.sources, []
    while len(sources) >= fewest_sources:
        try:
            add = _combine(log, head, group, sources)
        except BadSourcesError as error:
            causes = {path: redact(cause.message)[:_MOST_REASON_CHARACTERS] for path, cause in error.causes.items()}
            bad_sources += [BadSource(source, causes[source.path]) for source in sources if source.path in causes]
            sources = tuple(source for source in sources if source.path not in causes)
        except (IndexTablesError, OSError, pa.ArrowException) as error:
            return Combined(bad_sources=tuple(bad_sources), error=error)
        else:
            return Combined((add,), sources, tuple(bad_sources))
    return Combined(bad_sources=tuple(bad_sources))


def _combine(log: TransactionLog, head: Head, group: MergeGroup, sources: Sequence[Add]) -> Add:
    add = combine_splits(
        log.reader.store,
        sources,
        head.schema,
        log.config.with_properties(head.metadata.configuration),
        partition_columns=head.partition_columns,
        partition_values=group.partition_values,
        clock=log.clock,
    )
    counts = [source.num_records for source in sources if source.num_records is not None]
    if len(counts) == len(sources) and add.num_records != sum(counts):
        delete_splits(log.reader.store, [add])
        raise CorruptSplitError(f"cannot merge splits of {sum(counts)} rows because {add.num_records} came of them")
    return add
