"""Registration of `format("indextables")` for Spark.

Spark imports top-level modules named `pyspark_*`.
"""

from indextables.spark.source.source import IndexTablesSource as DefaultSource

__all__ = ["DefaultSource"]
