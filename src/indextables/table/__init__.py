"""`Table`: the API for users. A handle stays at one version until it is refreshed.

import indextables as it

t = it.write("logs", [{"id": 1, "message": "disk full"}], text=["message"])
t.search("disk").to_pylist()

The class consists of a handle, a reading side and a maintenance side, one module each.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indextables.table.maintenance import MaintainedTable
from indextables.table.reading import ReadableTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Table(ReadableTable, MaintainedTable):
    """A table at one version.

    Example:
        >>> t = it.Table("logs")
        >>> len(t), t.version
        (4, 2)
        >>> it.Table("logs", version=1).num_files
        2
    """

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        schema: pa.Schema | str,
        *,
        partition_by: Sequence[str] = (),
        indexing: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        name: str | None = None,
        description: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Table:
        """Create a table without rows.

        Args:
            url: a path, or an address such as `s3://bucket/logs`.
            schema: an Arrow schema, or Spark's schema as JSON.
            partition_by: columns to partition the table by; a split has rows of one partition.
            indexing: the kind of index by column, as in `{"message": "text"}`; see docs/search.md.
            properties: settings that the table keeps.
            name: a name for users.
            description: a description for users.
            options: settings of this handle, such as credentials of the store.

        Example:
            >>> import pyarrow as pa
            >>> schema = pa.schema([("id", pa.int64()), ("message", pa.string())])
            >>> it.Table.create("notes", schema, indexing={"message": "text"}).version
            0
        """
        from indextables.writer.create import create

        log = create(
            url,
            schema,
            partition_by=partition_by,
            indexing=indexing or {},
            properties=properties or {},
            name=name,
            description=description,
            options=options,
        )
        return cls(log, log.snapshot())

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: str | datetime.datetime | int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Table:
        """Open a table at its newest version, or at an earlier version or time.

        Args:
            url: a path, or an address such as `s3://bucket/logs`.
            version: the version to open.
            timestamp: a time as ISO text, a datetime, or milliseconds since 1970.
            options: settings of this handle, such as credentials of the store.

        Example:
            >>> it.Table.open("logs", version=1).count()
            3
        """
        return cls(url, version=version, timestamp=timestamp, options=options)

    def append(self, data: Any) -> int:
        """Add rows, and return the new version.

        Args:
            data: a list of dicts, a dict of lists, an Arrow table, reader, batches or dataset, a frame of pandas or
                Polars (lazy too), a relation of DuckDB, or any object with `__arrow_c_stream__`.

        Example:
            >>> t = it.open("logs")
            >>> t.append([{"id": 5, "message": "disk replaced", "day": "2026-01-03"}])
            3
            >>> t.append({"id": [6, 7], "day": ["2026-01-03", "2026-01-03"]})
            4
            >>> len(t)
            7
        """
        from indextables.writer.append import append

        return self._written(append(self._log, data))

    def overwrite(self, data: Any, *, where: str | None = None, if_version: int | None = None) -> int:
        """Replace the rows, and return the new version.

        Args:
            data: the new rows, in any form that `append` takes.
            where: a predicate on partition columns: replace only partitions for which it is true, including rows that
                other writers add concurrently. It must be true for every new row. Without rows, the partitions are
                deleted.
            if_version: fail if the table has moved on from this version.

        Example:
            >>> t = it.open("logs")
            >>> t.overwrite([{"id": 9, "day": "2026-01-02"}], where="day = '2026-01-02'")
            3
            >>> t.to_arrow()["id"].to_pylist()
            [1, 2, 9]
        """
        from indextables.writer.append import overwrite

        return self._written(overwrite(self._log, data, where=where, if_version=if_version))

    def _written(self, version: int) -> int:
        """Merge and purge as configured, and move to the version of a write."""
        from indextables.maintain.on_write import after_write

        if after_write(self._log):
            self._move()
            return version
        return self._moved(version)

    def to_spark(
        self, spark: SparkSession, *, where: str | None = None, columns: Sequence[str] | None = None
    ) -> DataFrame:
        """Return the rows of this version as a Spark DataFrame.

        Spark reads the live splits by its own Parquet scan.

        Args:
            spark: the session.
            where: return only rows for which this predicate is true; other splits are not read.
            columns: the columns to return; all by default.

        Example:
            >>> it.open("logs").to_spark(spark, where="id > 3").count()
            1
        """
        from indextables.spark import check_pyspark

        check_pyspark()
        from indextables.spark.scan.native import to_spark

        return to_spark(self, spark, where=where, columns=columns)
