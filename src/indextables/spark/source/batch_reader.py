"""The reading side of `format("indextables")`: tasks, and Arrow batches.

It accepts no filters from Spark. The reader is pickled into every task, so it holds no list of splits there; each task
carries its own splits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables.errors import IndexTablesError
from indextables.spark.catalog.named_tables import tell_if_asked
from indextables.spark.options.arrow_types import conform_batch, to_checked_schema
from indextables.spark.options.source_options import SourceOptions
from indextables.spark.scan.planned_scan import ScanPlan


class TableReader(DataSourceReader):
    """Reads the columns of a schema with the options of a load."""

    def __init__(self, asked: SourceOptions, schema: StructType) -> None:
        plan = ScanPlan.open(asked)
        self._asked = plan.asked._replace(settings={})
        self._schema = to_checked_schema(schema)
        self._scan, self._places = plan.scan(schema)
        self._tasks = plan.tasks()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tasks": []}

    def partitions(self) -> list[InputPartition]:
        """Return a partition per task.

        Without any, Spark makes one partition without a value.
        """
        return [InputPartition(task) for task in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task; a damaged or missing split is an error."""
        try:
            tell_if_asked(self._asked)
            if partition.value is None:
                return
            for batch in self._scan.read(partition.value):
                yield conform_batch(batch, self._schema, self._places)
        except IndexTablesError as error:
            # Spark shows users the whole traceback, and they only need the message.
            raise error.with_traceback(None) from None
