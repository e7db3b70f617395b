"""`format("indextables")`: the data source that Spark finds by its module name.

Spark creates it in one process, reads the schema, pickles it, and continues in other processes. The version of the
schema travels with it, so every phase of a query reads the same version. It accepts no filters from Spark: in PySpark
4.3, pushed filters leak from one scan of a relation to another. All restrictions of a scan are options of its load.
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

from indextables.spark.options.source_options import NAME, SourceOptions
from indextables.spark.scan.planned_scan import ScanPlan
from indextables.spark.source.batch_reader import TableReader
from indextables.spark.source.batch_writer import TableWriter
from indextables.spark.source.stream_reader import TableStreamReader
from indextables.spark.source.stream_writer import TableStreamWriter


class IndexTablesSource(DataSource):
    """A table for Spark's Python data source interface."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.given = self.asked = SourceOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Return the columns of a load, and fix its version."""
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
        """Return a reader for a stream; it ignores the version of the schema."""
        return TableStreamReader(self.given, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return TableStreamWriter.begin(self.given, schema, overwrite=overwrite)

    def __repr__(self) -> str:
        return f"IndexTablesSource({self.asked.url!r})"
