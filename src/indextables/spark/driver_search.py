"""Searches that find little are answered by the driver itself, which saves a job and its Python workers.

Term filters and the index tell how many rows there are before any is read. Where they are many, where too many splits
would have to be asked, or too much of an index would have to be fetched, the search is left to tasks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from indextables.errors import IndexTablesError
from indextables.spark.arrow_types import conform_batch, to_checked_schema
from indextables.spark.native import ipc_stream
from indextables.spark.options import SourceOptions
from indextables.spark.scans import ScanPlan


class DriverSearch:
    """Plans the scans of one load for Java."""

    def __init__(self, asked: SourceOptions, gateway: Any) -> None:
        self._asked = asked
        self._gateway = gateway

    def apply(self, columns: str, hints: str) -> Any:
        """A list of what is to be said of a scan, and of its rows where there are few. Both are given as JSON arrays.

        What is wrong with it is given as text.
        """
        try:
            return self._plan(json.loads(columns), json.loads(hints))
        except IndexTablesError as error:
            return str(error)

    def _plan(self, columns: Sequence[str], hints: Sequence[str]) -> Any:
        plan = ScanPlan.open(self._asked._replace(hints=tuple(hints)))
        answer = self._gateway.jvm.java.util.ArrayList()
        splits = plan.splits_with_hits()
        num_asked = plan.num_splits if splits is None else len(splits)
        answer.add(f", {num_asked} of {plan.num_live_splits} splits")
        if splits is not None:
            answer.add(ipc_stream(_rows(plan, columns, splits)))
        return answer

    class Java:
        implements = ("java.util.function.BiFunction",)


def _rows(plan: ScanPlan, columns: Sequence[str], splits: Any) -> pa.Table:
    given = plan.spark_schema()
    schema = StructType([given[name] for name in columns])
    checked = to_checked_schema(schema)
    scan, places = plan.scan(schema)
    batches = scan.read_at_once(splits) if splits else ()
    return pa.Table.from_batches([conform_batch(batch, checked, places) for batch in batches], checked)
