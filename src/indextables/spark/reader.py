"""The reading side of `format("indextables")`: splits in tasks, and the rows of a task as Arrow batches.

No filter is ever taken from Spark. What the reader knows is pickled into every task, so it holds no list of splits
there; each task brings its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables.errors import IndexTablesError
from indextables.spark.arrow_types import conform_batch, to_checked_schema
from indextables.spark.named_tables import tell_if_asked
from indextables.spark.options import SourceOptions
from indextables.spark.scans import ScanPlan


class TableReader(DataSourceReader):
    """Reads the columns of a schema, as the options of a load ask."""

    def __init__(self, asked: SourceOptions, schema: StructType) -> None:
        plan = ScanPlan.open(asked)
        self._asked = plan.asked._replace(settings={})
        self._schema = to_checked_schema(schema)
        self._scan, self._places = plan.scan(schema)
        self._tasks = plan.tasks()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tasks": []}

    def partitions(self) -> list[InputPartition]:
        """A partition per task. Spark makes one without a value where there is none."""
        return [InputPartition(task) for task in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task. A damaged or missing split is an error."""
        try:
            tell_if_asked(self._asked)
            if partition.value is None:
                return
            for batch in self._scan.read(partition.value):
                yield conform_batch(batch, self._schema, self._places)
        except IndexTablesError as error:
            # Spark shows users the whole traceback; of ours they need the message.
            raise error.with_traceback(None) from None
