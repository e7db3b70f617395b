"""From the text of a predicate to the files of a table: bound to its schema, manifests first, then files."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.config import Config, settings
from indextables.errors import QueryError
from indextables.log.files import Bounds, Keep
from indextables.log.reader import LogReader
from indextables.log.snapshot import Head, Snapshot
from indextables.predicate import Predicate, bind, parse_predicate
from indextables.protocol.actions import Metadata
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.protocol.schema import schema_from_json
from indextables.scan.masks import uniform
from indextables.scan.partitions import compute_bounds
from indextables.scan.prune import may_match, partition_may_match

logger = logging.getLogger(__name__)


def pruned_files(reader: LogReader, config: Config, where: str, max_staleness_seconds: float = 0) -> pa.Table:
    """The newest files that may hold a matching row. Manifests whose bounds exclude the predicate are not read."""
    choose = functools.partial(_keep, parse_predicate(where))
    snapshot, tables = reader.file_tables(choose, max_staleness_seconds=max_staleness_seconds)
    pruned = [prune_table(table, where, snapshot, config) for table in tables]
    return snapshot.describe(pa.concat_tables(pruned) if pruned else FILES_SCHEMA.empty_table())


def stream_files(reader: LogReader, config: Config, where: str | None) -> Iterator[pa.Table]:
    """The newest files that may hold a matching row, manifest by manifest, so that they never stand in memory all."""
    choose = functools.partial(_keep, None if where is None else parse_predicate(where))
    snapshot, tables = reader.stream_tables(choose)
    for table in tables:
        yield snapshot.describe(table if where is None else prune_table(table, where, snapshot, config))


def _keep(predicate: Predicate | None, snapshot: Snapshot) -> Keep | None:
    if predicate is None:
        return None
    bound = bind(predicate, snapshot.schema)

    def keep(bounds: Bounds, is_typed: bool) -> bool:
        return partition_may_match(bounds, bound, snapshot.partition_columns, typed=is_typed)

    return keep


def prune_table(files: pa.Table, where: str, head: Head, config: Config) -> pa.Table:
    """Those of some files that may hold a matching row."""
    return files.filter(prune_mask(files, where, head, config))


def prune_mask(files: pa.Table, where: str, head: Head, config: Config) -> pa.Array[Any]:
    """Which of some files may hold a matching row: a boolean array without nulls."""
    bound = bind(parse_predicate(where), head.schema)
    return may_match(files, bound, head.partition_columns, max_length=config[settings.STATS_TRUNCATION_MAX_LENGTH])


def hinted_mask(files: pa.Table, hints: Iterable[str], head: Head, config: Config) -> pa.Array[Any]:
    """Which of some files may hold a row that all hints are true of. Whoever gives hints decides on rows by itself, so
    that one which cannot be understood rules nothing out."""
    mask = uniform(value=True, num_rows=files.num_rows)
    for hint in hints:
        try:
            mask = pc.and_(mask, prune_mask(files, hint, head, config))
        except QueryError as error:
            logger.debug("no file is ruled out by `%s`: %s", hint, error.message)
    return mask


def partition_bounds(files: pa.Table, metadata: Metadata) -> dict[str, tuple[str | None, str | None]] | None:
    """The bounds of a table's partition columns over some files, for the manifest that holds them."""
    schema = schema_from_json(metadata.schema_string)
    return {**compute_bounds(files, metadata.partition_columns, schema)} or None
