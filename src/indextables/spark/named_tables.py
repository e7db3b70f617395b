"""Tables and views by the names that a session knows them by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from indextables.spark.worker_errors import own_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOT_THERE = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")


def named_frame(spark: Any, name: str) -> DataFrame | None:
    """What a name stands for, with its schema known; None where there is no table or view of that name."""
    try:
        with own_errors():
            frame: DataFrame = spark.table(name)
            frame.schema  # noqa: B018 - over Connect, only this asks
            return frame
    except AnalysisException as error:
        if str(error.getCondition()).startswith(_NOT_THERE):
            return None
        raise
