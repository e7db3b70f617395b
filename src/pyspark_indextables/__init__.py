"""Registers `format("indextables")`: Spark looks for top-level modules of this kind of name."""

from indextables.spark.source import IndexTablesSource as DefaultSource

__all__ = ["DefaultSource"]
