"""`format("indextables")`: the data source that Spark finds once the package is installed.

Spark makes it in one process, asks it for the schema, pickles it, and goes on with it in others: the version that the
schema was read at travels with it, so that every phase of a query reads the same one. Filters are never taken from
Spark: pushed filters leak from one scan of a relation to another in PySpark 4.3. What restricts a scan is an option of
its load.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from indextables.spark.options import NAME, SourceOptions
from indextables.spark.reader import TableReader
from indextables.spark.scans import ScanPlan
from indextables.spark.stream_reader import TableStreamReader
from indextables.spark.stream_writer import TableStreamWriter
from indextables.spark.writer import TableWriter


class IndexTablesSource(DataSource):
    """A table, as Spark's data source interface wants it."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.given = self.asked = SourceOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """The columns that a load gives. The version is settled here."""
        plan = ScanPlan.open(self.asked)
        self.asked = plan.asked
        return plan.spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        self.asked.check_batch()
        return TableReader(self.asked, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        self.asked.check_batch()
        return TableWriter.begin(self.asked, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - as Spark calls it
        """A stream is of no version: what the schema was read at does not count."""
        return TableStreamReader(self.given, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return TableStreamWriter.begin(self.given, schema, overwrite=overwrite)

    def __repr__(self) -> str:
        return f"IndexTablesSource({self.asked.url!r})"
