"""Scans that our Java classes plan: they ask the driver's Python what a scan reads, and which searches it decides.

Searches that find little are answered by the driver itself, which saves a job and its Python workers. Term filters and
the index tell how many rows there are before any is read. Where they are many, where too many splits would have to be
asked, or too much of an index would have to be fetched, the search is left to tasks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from indextables.errors import IndexTablesError
from indextables.ops.indexed_fields import mean_the_same, table_fields
from indextables.spark import jvm
from indextables.spark.arrow_types import conform_batch, ipc_stream, to_checked_schema
from indextables.spark.column_info import DescribeLoad
from indextables.spark.options import NAME, SourceOptions
from indextables.spark.scans import ScanPlan, open_log
from indextables.spark.worker_errors import error_text
from indextables.split.search_predicate import Predicate, for_table, from_json, operators, to_json


class PlanScan:
    """Plans the scans of one load for Java."""

    def __init__(self, asked: SourceOptions) -> None:
        self._asked = asked

    def apply(self, request: str) -> bytes | str:
        """What is to be said of a scan, with its length before it, and its rows where there are few.

        The request is JSON: the `schema` of the columns that a query needs, and `options` that it has beside those of
        the load. What is wrong with it is given as text.
        """
        try:
            given = json.loads(request)
            return self._plan(given["schema"], given["options"])
        except IndexTablesError as error:
            return error_text(error)

    def _plan(self, schema: str, options: dict[str, str]) -> bytes:
        plan = ScanPlan.open(SourceOptions.parse({**options, **self._asked.to_options()}))
        splits = plan.splits_with_hits()
        num_asked = plan.num_splits if splits is None else len(splits)
        searches = "".join(f", search: {from_json(search)}" for search in plan.asked.searches)
        note = f"{searches}, {num_asked} of {plan.num_live_splits} splits".encode()
        rows = b"" if splits is None else ipc_stream(_rows(plan, schema, splits))
        return len(note).to_bytes(4, "big") + note + rows

    class Java:
        implements = ("java.util.function.Function",)


class PushSearches:
    """Tells Java which searches the scans of one load decide by their indexes."""

    def __init__(self, asked: SourceOptions) -> None:
        self._asked = asked

    def apply(self, request: str) -> bytes | str:
        """Search predicates as scans take them, or none. The request and the answer are JSON arrays of JSON texts."""
        try:
            accepted = self._accepted([from_json(text) for text in json.loads(request)])
            return json.dumps([to_json(search) for search in accepted]).encode()
        except IndexTablesError as error:
            return error_text(error)

    def _accepted(self, searches: Sequence[Predicate]) -> list[Predicate]:
        """A search may not go below a limit, nor change a score, and has to mean what it means at this version."""
        asked = self._asked
        if asked.limit is not None or asked.score or asked.snippet is not None:
            return []
        log = open_log(asked.url, tuple(sorted(asked.settings.items())))
        snapshot = log.snapshot(version=asked.version)
        fields = table_fields(snapshot, log.config)
        searched = [field for predicate in searches for search in operators(predicate) for field in search.fields]
        if not mean_the_same(fields, searched):
            return []
        texts = [field.column for field in fields.text_fields()]
        return [for_table(predicate, texts) for predicate in searches]

    class Java:
        implements = ("java.util.function.Function",)


def opened_load(asked: SourceOptions, spark: SparkSession, scan: Any) -> Any:
    """A load whose version is settled, as our Java classes know it. `scan` gives them its native scan, if any."""
    options = json.dumps(asked.to_options()).encode()
    return jvm.bridge(spark).opened(
        NAME, _title(asked), options, PlanScan(asked), PushSearches(asked), scan, DescribeLoad(asked)
    )


def _title(asked: SourceOptions) -> str:
    searched = "" if asked.search is None else f", search: {asked.search}"
    filtered = "" if asked.where is None else f", where: {asked.where}"
    return f"{asked.url} version {asked.version}{searched}{filtered}"


def _rows(plan: ScanPlan, schema: str, splits: Any) -> pa.Table:
    """The rows of splits, exactly by the schema that Java reads them with, which is given as JSON."""
    wanted = StructType.fromJson(json.loads(schema))
    checked = to_checked_schema(wanted)
    scan, places = plan.scan(wanted)
    batches = scan.read_at_once(splits) if splits else ()
    return pa.Table.from_batches([conform_batch(batch, checked, places) for batch in batches], checked)
