"""Classes of streaming data sources that older versions of PySpark lack.

A stand-in has the methods that our code calls, and Spark never sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

HAS_READ_LIMITS = True

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxFiles,
            SupportsTriggerAvailableNow,
        )
    except ImportError:  # before 4.2
        HAS_READ_LIMITS = False

        class ReadLimit:
            """The bound of a batch."""

        class ReadAllAvailable(ReadLimit):
            """No bound."""

        class ReadMaxFiles(ReadLimit):
            """A bound on files."""

            def __init__(self, max_files: int) -> None:
                self.max_files = max_files

        class ReadMaxBytes(ReadLimit):
            """A bound on bytes."""

            def __init__(self, max_bytes: int) -> None:
                self.max_bytes = max_bytes

        class SupportsTriggerAvailableNow:
            """Spark itself ends such a stream at its first newest offset."""

    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:  # before 4.1
        from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

        class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
            """A writer of streams that gets Arrow batches.

            Spark 4.0 passes them to all writers of the second class.
            """


__all__ = [
    "HAS_READ_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "SupportsTriggerAvailableNow",
]
