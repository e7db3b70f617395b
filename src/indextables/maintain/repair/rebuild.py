"""Rebuild a table from its splits: schema, partitions, statistics, doc mappings.

A split does not show whether it was live: overwritten or dropped splits that were not purged return. Merged splits are
left out, since the new split names its sources.

The indexing properties of the table are derived from the doc mapping of the newest split.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import pyarrow as pa

from indextables.config import Config, settings
from indextables.config.resolve import PREFIX
from indextables.errors import CorruptLogError, CorruptSplitError, ObjectNotFoundError, SchemaError, TableNotFoundError
from indextables.maintain.repair.clean_log import Contents, id_of
from indextables.maintain.workers import shares, workers_for
from indextables.protocol.actions import Add, Metadata
from indextables.protocol.features import NEW_TABLE_PROTOCOL
from indextables.protocol.names import LOG_DIRECTORY, table_below
from indextables.protocol.paths import escape_partition_value, unescape_partition_value
from indextables.protocol.schema import check_partition_columns, same_columns, schema_from_json, schema_to_json
from indextables.protocol.statistics_tags import FOOTER_TAG
from indextables.runtime.progress import report
from indextables.split.format.layout import corrupt
from indextables.split.index.fields import FieldMap, IndexField, Kind, map_fields
from indextables.split.split_file import SplitFile
from indextables.split.statistics import StatisticsCollector
from indextables.split.verification import RowFacts, check_index, read_row_facts
from indextables.store import ObjectMeta, ObjectStore
from indextables.transaction_log import TransactionLog

logger = logging.getLogger(__name__)

_WORDS = frozenset({Kind.TEXT, Kind.JSON})


def indexing_properties(schema: pa.Schema, fields: FieldMap, partition_columns: Sequence[str]) -> dict[str, str]:
    """Return the `indexing.*` properties that reproduce `fields`, without defaults."""
    usual = {field.column: field for field in map_fields(schema, Config.resolve(), partition_columns).fields}
    found: dict[str, str] = {}
    for field in fields.fields:
        if field.column in usual and field.kind is not usual[field.column].kind:
            found[f"{settings.INDEXING_TYPEMAP.key}.{field.column}"] = str(field.kind)
        if field.kind in _WORDS and field.tokenizer != settings.INDEXING_TOKENIZER.default:
            found[f"{settings.INDEXING_TOKENIZER.key}.{field.column}"] = field.tokenizer
    words = [field for field in fields.fields if field.kind in _WORDS]
    records, lengths = {field.record for field in words}, {str(field.max_token_length) for field in words}
    found |= _common(settings.INDEXING_TEXT_INDEX_RECORD_OPTION.key, records)
    found |= _common(settings.INDEXING_TEXT_MAX_TOKEN_LENGTH.key, lengths)
    if any(field.kind is Kind.JSON and not field.fast for field in fields.fields):
        found[settings.INDEXING_JSON_MODE.key] = "minimal"
    properties = {PREFIX + key: value for key, value in found.items()}
    made = map_fields(schema, Config.resolve(properties=properties), partition_columns)
    fast = _fast(fields.fields)
    if fast != _fast(made.fields) and all("," not in name and name == name.strip() for name in fast):
        properties[PREFIX + settings.INDEXING_FASTFIELDS.key] = ",".join(sorted(fast))
        made = map_fields(schema, Config.resolve(properties=properties), partition_columns)
    if made != fields:
        logger.warning("new splits will be indexed differently from the newest existing split")
    return properties


def _common(key: str, values: Iterable[str]) -> dict[str, str]:
    """Return a setting that all text columns share, or nothing."""
    known = list(values)
    return {key: known[0]} if len(known) == 1 else {}


def _fast(fields: Iterable[IndexField]) -> set[str]:
    return {field.column for field in fields if field.fast}


class Rebuilt(NamedTuple):
    """The table as found in its splits, and the numbers of all and damaged splits."""

    contents: Contents
    num_splits: int
    num_damaged: int


class _Read(NamedTuple):
    """A split that was read completely."""

    add: Add
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    split_id: str
    merged_from: frozenset[str]


def rebuild(log: TransactionLog) -> Rebuilt:
    """Read every split below a table's root, and make a table of the undamaged ones."""
    found = _list_splits(log.reader.store)
    if not found:
        raise TableNotFoundError(
            f"cannot rebuild a log at `{log.url}` because there is neither a log nor a split",
            hint="check the address",
        )
    read, problems = _read_all(log, found)
    for problem in problems:
        logger.warning("leaving out a split: %s", problem)
    if not read:
        raise CorruptLogError(
            f"cannot rebuild a log at `{log.url}` because none of its {len(found)} splits can be read: {problems[0]}"
        )
    _check_alike(read)
    live = _without_merged(sorted(read, key=lambda split: (split.add.modification_time, split.add.path)))
    return Rebuilt(_contents(live), len(found), len(problems))


def _list_splits(store: ObjectStore) -> list[ObjectMeta]:
    """List all splits outside of the log and outside of tables in subdirectories."""
    listed = list(store.list())
    tables_below = {table for meta in listed if (table := table_below(meta.key)) is not None}
    elsewhere = (f"{LOG_DIRECTORY}/", *tables_below)
    return [meta for meta in listed if meta.key.endswith(".split") and not meta.key.startswith(elsewhere)]


def _read_all(log: TransactionLog, found: Sequence[ObjectMeta]) -> tuple[list[_Read], list[str]]:
    groups = list(shares(found, lambda meta: meta.size))
    read: list[_Read] = []
    problems: list[str] = []
    done = 0
    for place, results in workers_for(log).run(functools.partial(_read_group, log=log), groups):
        done += len(groups[place])
        report("reading splits", done, len(found))
        read += [result for result in results if isinstance(result, _Read)]
        problems += [result for result in results if isinstance(result, str)]
    return read, sorted(problems)


def _read_group(metas: Sequence[ObjectMeta], *, log: TransactionLog) -> list[_Read | str]:
    results: list[_Read | str] = []
    for meta in metas:
        try:
            results.append(_read_split(log, meta))
        except (CorruptSplitError, ObjectNotFoundError) as error:
            results.append(error.message)
    return results


def _read_split(log: TransactionLog, meta: ObjectMeta) -> _Read:
    split = SplitFile.open(log.reader.store, meta.key, size=meta.size)
    directories = _partition_of(meta.key)
    unknown = next((name for name in directories if name not in split.schema.names), None)
    if unknown is not None:
        raise corrupt(meta.key, f"its directory is a partition by `{unknown}`, but the split has no such column")
    columns = tuple(directories)
    facts = read_row_facts(split, StatisticsCollector(split.schema, log.config, columns), columns)
    check_index(split, log.config)
    add = Add(
        path=meta.key,
        partition_values=_partition_values(meta.key, directories, facts),
        size=meta.size,
        modification_time=meta.modified_ms,
        data_change=True,
        stats=facts.statistics.stats_json(),
        tags={**(facts.statistics.tags or {}), FOOTER_TAG: str(split.directory.footer_start_offset)},
        min_values=facts.statistics.min_values,
        max_values=facts.statistics.max_values,
        num_records=facts.num_rows,
        footer_start_offset=split.directory.footer_start_offset,
        footer_end_offset=split.size,
        has_footer_offsets=True,
        doc_mapping_json=split.directory.doc_mapping,
    )
    directory = split.directory
    return _Read(add, split.schema, columns, directory.split_id, frozenset(directory.merged_from))


def _partition_of(path: str) -> dict[str, str]:
    """Return the partition columns in a path with their escaped values."""
    named = (segment.partition("=") for segment in path.split("/")[:-1] if "=" in segment)
    return {unescape_partition_value(name) or name: value for name, _, value in named}


def _partition_values(path: str, directories: Mapping[str, str], facts: RowFacts) -> dict[str, str | None]:
    """Return the partition values of the rows, which must match the path.

    The path segment of null also matches the empty string.
    """
    values: dict[str, str | None] = {}
    for name, written in directories.items():
        held = facts.partition_values[name] or {unescape_partition_value(written)}
        fits = all(
            escape_partition_value(value) == written or value == unescape_partition_value(written) for value in held
        )
        if len(held) != 1 or not fits:
            raise corrupt(path, f"its rows are not all of the partition `{name}={written}`")
        (values[name],) = held
    return values


def _check_alike(splits: Sequence[_Read]) -> None:
    """Refuse splits that cannot belong to one table."""
    first = splits[0]
    for split in splits[1:]:
        if not same_columns(first.schema, split.schema):
            raise SchemaError(
                f"cannot rebuild a log because `{first.add.path}` and `{split.add.path}` have different columns",
                hint="move splits of other tables, or of an earlier schema, away",
            )
        if first.partition_columns != split.partition_columns:
            raise SchemaError(
                f"cannot rebuild a log because `{first.add.path}` and `{split.add.path}` are partitioned in different "
                "ways",
                hint="move splits of other tables away",
            )


def _without_merged(splits: Sequence[_Read]) -> list[_Read]:
    """Drop the splits whose rows another split holds.

    Of several merges of the same splits, the last is kept. If merges share only some of their sources, one of them is
    replaced by its sources.
    """
    direct = {split.split_id: split.merged_from for split in splits}
    merged = [(split, _all_sources(direct, split.split_id)) for split in splits if split.merged_from]
    undone = _undone(merged, direct.keys())
    splits = [split for split in splits if split.split_id not in undone]
    merged = [(split, sources) for split, sources in merged if split.split_id not in undone]
    holders = {source: holder for holder, sources in merged for source in sources}
    for place, (split, sources) in enumerate(merged):
        later = (holder for holder, others in merged[place + 1 :] if sources <= others)
        larger = (holder for holder, others in merged if sources < others)
        if holder := next(itertools.chain(larger, later), None):
            holders.setdefault(split.split_id, holder)
    for split in splits:
        if split.split_id in holders:
            holder = holders[split.split_id]
            logger.warning("leaving out `%s`: its rows are in `%s`", split.add.path, holder.add.path)
    return [split for split in splits if split.split_id not in holders]


def _undone(merged: Sequence[tuple[_Read, frozenset[str]]], there: Set[str]) -> set[str]:
    """Return merges to replace by their sources, because another merge shares some.

    All sources of such a merge must exist. One of the two merges was never committed; the rows are the same either way.
    """
    undone: set[str] = set()
    kept: list[frozenset[str]] = []
    latest_first = merged[::-1]
    for split, sources in sorted(latest_first, key=lambda entry: entry[0].merged_from <= there):
        shares = any(sources & others and not (sources <= others or others <= sources) for others in kept)
        if shares and split.merged_from <= there:
            logger.warning("leaving out `%s`: the splits that it was merged from are there", split.add.path)
            undone.add(split.split_id)
        else:
            kept.append(sources)
    return undone


def _all_sources(direct: Mapping[str, frozenset[str]], split_id: str) -> frozenset[str]:
    """Return the direct and indirect sources of a merged split."""
    found: set[str] = set()
    waiting = [split_id]
    while waiting:
        new = direct.get(waiting.pop(), frozenset()) - found
        found |= new
        waiting += new
    return frozenset(found)


def _contents(splits: Sequence[_Read]) -> Contents:
    adds = [split.add for split in splits]
    newest, columns = splits[-1], splits[-1].partition_columns
    schema_string = schema_to_json(newest.schema)
    schema = schema_from_json(schema_string)
    check_partition_columns(schema, columns)
    fields = FieldMap.from_json(newest.add.doc_mapping_json or "[]")
    metadata = Metadata(
        id=id_of("\n".join(add.path for add in adds).encode()),
        schema_string=schema_string,
        partition_columns=columns,
        configuration=indexing_properties(schema, fields, columns),
        created_time=adds[0].modification_time,
    )
    return Contents(
        metadata=metadata,
        protocol=NEW_TABLE_PROTOCOL,
        adds=adds,
        skips=[],
        batches=[],
        timestamp_ms=adds[-1].modification_time,
        parameters={},
    )
