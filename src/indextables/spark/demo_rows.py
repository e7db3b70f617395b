"""The rows of the demo as a Spark data source: they are made where they are written, a batch at a time.

A data source rather than `mapInArrow`, which does not work without pandas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables.spark.arrow_types import to_spark_schema
from indextables.spark.sample_logs import ROWS_PER_BATCH, SCHEMA, num_batches, sample_batch

NAME = "indextables_sample_logs"
NUM_DAYS = 5
_TASKS_PER_DAY = 2


def rows_per_batch(num_rows: int) -> int:
    """How many rows a batch has, where the batches of a day are to keep its tasks equally busy."""
    per_day = num_rows // NUM_DAYS
    batches = _TASKS_PER_DAY * -(-per_day // (ROWS_PER_BATCH * _TASKS_PER_DAY))
    return -(-per_day // batches)


class SampleLogs(DataSource):
    """One day of a sample. The options are `rows`, the size of the whole sample, and `day`, counted from 0."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return to_spark_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _DayReader(int(self.options["rows"]), int(self.options["day"]))


class _Batches(InputPartition):
    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers


class _DayReader(DataSourceReader):
    def __init__(self, num_rows: int, day: int) -> None:
        self._num_rows = num_rows
        self._day = day

    def partitions(self) -> Sequence[InputPartition]:
        per_day = num_batches(self._num_rows, days=NUM_DAYS, rows_per_batch=rows_per_batch(self._num_rows)) // NUM_DAYS
        numbers = range(self._day * per_day, (self._day + 1) * per_day)
        return [_Batches(numbers[first::_TASKS_PER_DAY]) for first in range(_TASKS_PER_DAY)]

    def read(self, partition: Any) -> Iterator[Any]:
        for number in partition.numbers:
            yield sample_batch(number, self._num_rows, days=NUM_DAYS, rows_per_batch=rows_per_batch(self._num_rows))
