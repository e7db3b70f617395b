"""Planning callbacks for Java: the rows of a scan, and the searches it decides.

The driver answers a search with few hits itself, which saves a job and its Python workers. Term filters and the index
give the number of hits before any row is read. Tasks run the search if it has many hits, if too many splits would have
to be searched, or if too much of an index would have to be fetched.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from indextables.errors import IndexTablesError
from indextables.scan.indexed_fields import mean_the_same, table_fields
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import error_text
from indextables.spark.options.arrow_types import conform_batch, ipc_stream, to_checked_schema
from indextables.spark.options.source_options import NAME, SourceOptions
from indextables.spark.scan.column_info import DescribeLoad
from indextables.spark.scan.driver_answer import AnswerAggregate
from indextables.spark.scan.planned_scan import ScanPlan, asked_snapshot, open_log
from indextables.split.search.search_predicate import Predicate, for_table, from_json, operators, to_json


class PlanScan:
    """Callback for Java that plans the scans of one load."""

    def __init__(self, asked: SourceOptions) -> None:
        self._asked = asked

    def apply(self, request: str) -> bytes | str:
        """Return the note of a scan after its length, then its rows if they are few.

        The request is JSON: `schema` with the columns that a query needs, and `options` beyond the options of the load.
        An error is returned as text.
        """
        try:
            given = json.loads(request)
            return self._plan(given["schema"], given["options"])
        except IndexTablesError as error:
            return error_text(error)

    def _plan(self, schema: str, options: dict[str, str]) -> bytes:
        asked = SourceOptions.parse({**options, **self._asked.to_options()})
        plan = ScanPlan.open(asked._replace(table_id=self._asked.table_id))
        splits = plan.splits_with_hits()
        num_asked = plan.num_splits if splits is None else len(splits)
        searches = "".join(f", search: {from_json(search)}" for search in plan.asked.searches)
        others = "".join(f", {name}: {options[name]}" for name in ("where", "limit") if name in options)
        note = f"{searches}{others}, {num_asked} of {plan.num_live_splits} splits".encode()
        rows = b"" if splits is None else ipc_stream(_rows(plan, schema, splits))
        return len(note).to_bytes(4, "big") + note + rows

    class Java:
        implements = ("java.util.function.Function",)


class PushSearches:
    """Callback for Java that selects the searches that a load decides by its indexes."""

    def __init__(self, asked: SourceOptions) -> None:
        self._asked = asked

    def apply(self, request: str) -> bytes | str:
        """Return the accepted search predicates.

        The request and the answer are JSON arrays of JSON texts.
        """
        try:
            accepted = self._accepted([from_json(text) for text in json.loads(request)])
            return json.dumps([to_json(search) for search in accepted]).encode()
        except IndexTablesError as error:
            return error_text(error)

    def _accepted(self, searches: Sequence[Predicate]) -> list[Predicate]:
        """Return the searches that the scan can decide.

        A search must not move below a limit or change a score, and it must have the same meaning at this version.
        """
        asked = self._asked
        if asked.limit is not None or asked.score or asked.snippet is not None:
            return []
        log = open_log(asked.url, tuple(sorted(asked.settings.items())))
        snapshot = asked_snapshot(log, asked)
        fields = table_fields(snapshot, log.config)
        searched = [field for predicate in searches for search in operators(predicate) for field in search.fields]
        if not mean_the_same(fields, searched):
            return []
        texts = [field.column for field in fields.text_fields()]
        return [for_table(predicate, texts) for predicate in searches]

    class Java:
        implements = ("java.util.function.Function",)


def opened_load(asked: SourceOptions, spark: SparkSession, scan: Any) -> Any:
    """Return a load with a fixed version as an object of our Java classes.

    `scan` opens its native scan, if there is one.
    """
    options = json.dumps(asked.to_options()).encode()
    return gateway.bridge(spark).opened(
        NAME,
        _title(asked),
        options,
        PlanScan(asked),
        PushSearches(asked),
        AnswerAggregate(asked),
        scan,
        DescribeLoad(asked),
    )


def _title(asked: SourceOptions) -> str:
    searched = "" if asked.search is None else f", search: {asked.search}"
    filtered = "" if asked.where is None else f", where: {asked.where}"
    return f"{asked.url} version {asked.version}{searched}{filtered}"


def _rows(plan: ScanPlan, schema: str, splits: Any) -> pa.Table:
    """Read the rows of splits in exactly the JSON schema with which Java reads them."""
    wanted = StructType.fromJson(json.loads(schema))
    checked = to_checked_schema(wanted)
    scan, places = plan.scan(wanted)
    batches = scan.read_at_once(splits) if splits else ()
    return pa.Table.from_batches([conform_batch(batch, checked, places) for batch in batches], checked)
