"""Prune a table by the text of a predicate: manifests first, then files."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_table
from indextables.config import Config, settings
from indextables.errors import QueryError
from indextables.log.files import Bounds, Keep
from indextables.log.reader import LogReader
from indextables.log.snapshot import Head
from indextables.predicate import Predicate, bind, parse_predicate
from indextables.protocol.actions import Metadata
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.protocol.schema import schema_from_json
from indextables.prune.masks import uniform
from indextables.prune.may_match import may_match, partitions_may_match
from indextables.prune.partitions import compute_bounds

logger = logging.getLogger(__name__)


def pruned_files(reader: LogReader, config: Config, where: str, max_staleness_seconds: float = 0) -> pa.Table:
    """Return the newest files that may match; skip manifests by their bounds."""
    choose = functools.partial(_keep, parse_predicate(where))
    snapshot, tables = reader.file_tables(choose, max_staleness_seconds=max_staleness_seconds)
    pruned = [prune_table(table, where, snapshot, config) for table in tables]
    return snapshot.describe(pa.concat_tables(pruned) if pruned else to_table([], FILES_SCHEMA))


def stream_files(reader: LogReader, config: Config, where: str | None) -> Iterator[pa.Table]:
    """Yield the newest files that may match, manifest by manifest, in bounded memory."""
    choose = functools.partial(_keep, None if where is None else parse_predicate(where))
    snapshot, tables = reader.stream_tables(choose)
    for table in tables:
        yield snapshot.describe(table if where is None else prune_table(table, where, snapshot, config))


def _keep(predicate: Predicate | None, head: Head) -> Keep | None:
    if predicate is None:
        return None
    bound = bind(predicate, head.schema)

    def keep(parts: Sequence[tuple[Bounds, bool]]) -> Sequence[bool]:
        return partitions_may_match(parts, bound, head.partition_columns)

    return keep


def manifests_for(where: str | None, hints: Iterable[str], head: Head) -> Keep | None:
    """Return a choice of the manifests that may hold a matching file.

    None chooses all. A hint that cannot be parsed excludes nothing.
    """
    keeps = [] if where is None else [_keep(parse_predicate(where), head)]
    for hint in hints:
        try:
            keeps.append(_keep(parse_predicate(hint), head))
        except QueryError as error:
            logger.debug("`%s` excludes no manifest: %s", hint, error.message)
    if not keeps:
        return None

    def keep(parts: Sequence[tuple[Bounds, bool]]) -> Sequence[bool]:
        masks = [each(parts) for each in keeps if each is not None]
        return [all(answers) for answers in zip(*masks, strict=True)] if masks else [True] * len(parts)

    return keep


def prune_table(files: pa.Table, where: str, head: Head, config: Config) -> pa.Table:
    """Return the files that may hold a matching row."""
    return files.filter(prune_mask(files, where, head, config))


def prune_mask(files: pa.Table, where: str, head: Head, config: Config) -> pa.Array[Any]:
    """Return a mask, without nulls, of the files that may hold a matching row."""
    bound = bind(parse_predicate(where), head.schema)
    return may_match(files, bound, head.partition_columns, max_length=config[settings.STATS_TRUNCATION_MAX_LENGTH])


def hinted_mask(files: pa.Table, hints: Iterable[str], head: Head, config: Config) -> pa.Array[Any]:
    """Return a mask of the files that may hold a row for all hints.

    The caller decides on rows itself, so a hint that cannot be parsed excludes nothing.
    """
    mask = uniform(value=True, num_rows=files.num_rows)
    for hint in hints:
        try:
            mask = pc.and_(mask, prune_mask(files, hint, head, config))
        except QueryError as error:
            logger.debug("`%s` excludes no file: %s", hint, error.message)
    return mask


def partition_bounds(files: pa.Table, metadata: Metadata) -> dict[str, tuple[str | None, str | None]] | None:
    """Return the bounds of a table's partition columns over the files of a manifest."""
    schema = schema_from_json(metadata.schema_string)
    return {**compute_bounds(files, metadata.partition_columns, schema)} or None
