"""Native scans: Spark's own Parquet scan over the live splits of a table at one version, fed from the log.

Splits are Parquet files, so nothing is faster where no search is asked for. The log names the files: the store is never
listed. Partition values and statistics rule splits out before any is opened. The driver verifies the seal of a split
before a scan first reads it, since Spark trusts the footer, and Spark verifies the checksum of every page.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from indextables.config import Config, settings, store_settings
from indextables.errors import ConfigError, IndexTablesError
from indextables.log.snapshot import Snapshot
from indextables.ops.questions import check_column
from indextables.predicate import bind, parse_predicate
from indextables.predicate.bound import BoundColumn
from indextables.scan.files import hinted_mask, prune_mask
from indextables.scan.partitions import PartitionValues
from indextables.spark import jvm
from indextables.spark.arrow_types import ipc_stream, to_spark_schema
from indextables.spark.driver_search import opened_load
from indextables.spark.filters import filter_column
from indextables.spark.hadoop_settings import settings_of_hadoop
from indextables.spark.options import SourceOptions, option_text
from indextables.spark.places import hadoop_urls
from indextables.spark.worker_errors import error_text
from indextables.split.verifying import verify_seals
from indextables.store import ObjectStore
from indextables.table import Table

_FILE_COLUMNS = ["path", "size", "modification_time"]
_SEALED_COLUMNS = ["path", "size", "footer_start_offset", "footer_end_offset"]
_CREDENTIALS = [setting for setting in settings.ALL if setting.secret]


def to_spark(
    table: Table, spark: SparkSession, *, where: str | None = None, columns: Sequence[str] | None = None
) -> DataFrame:
    """The rows of a table at its version as a DataFrame: all, or those that a predicate is true of."""
    scan = NativeTable.open(table, spark, where=where)
    if isinstance(scan, str):
        raise ConfigError(
            f"cannot scan `{table.url}` natively because {scan}", hint="`indextables.read(spark, url)` reads it"
        )
    options = {key: option_text(value) for key, value in table.log.options.items() if value is not None}
    asked = SourceOptions(url=table.url, version=table.version, settings=options)
    return scan.frame(spark, asked, where=where, columns=columns)


class NativeTable:
    """A table at one version that Spark can scan by itself."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        store: ObjectStore,
        root: str,
        files: pa.Table,
        partitions: pa.Table,
    ) -> None:
        self.schema = to_spark_schema(snapshot.schema)
        self._snapshot = snapshot
        self._config = config
        self._store = store
        self._root = root
        self._files = files
        self._partitions = partitions

    @classmethod
    def open(cls, table: Table, spark: SparkSession, *, where: str | None = None) -> NativeTable | str:
        """The table, or why Spark cannot scan it by itself. With `where`, less the splits that it rules out."""
        snapshot, config = table.snapshot, table.log.config
        if jvm.is_classic(spark) and not jvm.is_known(spark):
            return f"Spark {spark.version} is not one that this is known to work with"
        if _holds_void(to_spark_schema(snapshot.schema)):
            return "it has a column of type `void`, which Spark's Parquet scan cannot read"
        if not _are_known_to_spark(table, spark):
            return "its credentials are given to this library and not to Spark"
        refusals = {url: jvm.bridge(spark).refusal(spark._jsparkSession, url) for url in _hadoop_urls(table)}
        root = next((url for url, refusal in refusals.items() if refusal is None), None)
        if root is None:
            return next(iter(refusals.values()), "Spark's own file systems cannot read it")
        files = snapshot.files
        if where is not None:
            files = files.filter(prune_mask(files, where, snapshot, config))
        partitions = _partition_values(files, snapshot)
        if isinstance(partitions, str):
            return partitions
        return cls(snapshot, config, table.log.reader.store, root, files, partitions)

    def frame(
        self, spark: SparkSession, asked: SourceOptions, *, where: str | None, columns: Sequence[str] | None
    ) -> DataFrame:
        """The rows that a predicate is true of, or all, as a DataFrame. `asked` is the load without the predicate."""
        schema = self._snapshot.schema
        opened = opened_load(asked, spark, ScanNatively(None, spark))
        frame = DataFrame(jvm.bridge(spark).dataFrame(spark._jsparkSession, self.java(spark), opened), spark)
        if where is not None:
            frame = frame.filter(filter_column(bind(parse_predicate(where), schema)))
        if columns is None:
            return frame
        names = [check_column(schema, name) for name in dict.fromkeys(columns)]
        return frame.select(*(f"`{name.replace('`', '``')}`" for name in names))

    def java(self, spark: SparkSession) -> Any:
        """The scan as our Java classes know it."""
        bridge = jvm.bridge(spark)
        fields = [self.schema[name] for name in self._partitions.column_names]
        table = pa.table([self._files[name] for name in _FILE_COLUMNS], names=_FILE_COLUMNS)
        for name in self._partitions.column_names:
            table = table.append_column(f"partition {name}", self._partitions[name])
        splits = bridge.splits(
            self._root,
            str(self._snapshot.version),
            StructType(fields).json(),
            ipc_stream(table),
            self._snapshot.num_files,
            MayMatch(self._files, self._snapshot, self._config),
            VerifySeals(self._files, self._store, self._config),
        )
        return bridge.nativeScan(splits, self.schema.json())


class ScanNatively:
    """Gives Java the native scan of a load, once it is wanted: a search does without."""

    def __init__(self, table: Table | None, spark: SparkSession) -> None:
        """`table` is None where a load asks for more than rows as they stand."""
        self._table = table
        self._spark = spark

    def apply(self, _: str) -> Any:
        """The scan, or an empty list. What is wrong is given as text."""
        try:
            scan = None if self._table is None else NativeTable.open(self._table, self._spark)
            if isinstance(scan, NativeTable):
                return scan.java(self._spark)
        except IndexTablesError as error:
            return error_text(error)
        return jvm.gateway(self._spark).jvm.java.util.ArrayList()

    class Java:
        implements = ("java.util.function.Function",)


class MayMatch:
    """Tells Java which splits hints do not rule out: a byte a split."""

    def __init__(self, files: pa.Table, snapshot: Snapshot, config: Config) -> None:
        self._files = files
        self._snapshot = snapshot
        self._config = config

    def apply(self, hints: str) -> bytes:
        """`hints` are predicates, as a JSON array."""
        mask = hinted_mask(self._files, json.loads(hints), self._snapshot, self._config)
        numbers = pc.cast(mask, pa.uint8())
        found: bytes = numbers.buffers()[1].to_pybytes()[numbers.offset : numbers.offset + len(numbers)]
        return found

    class Java:
        implements = ("java.util.function.Function",)


class VerifySeals:
    """Verifies the footers of splits for Java, before Spark reads them."""

    def __init__(self, files: pa.Table, store: ObjectStore, config: Config) -> None:
        self._files = files.select(_SEALED_COLUMNS)
        self._store = store
        self._config = config

    def apply(self, numbers: bytes) -> bytes | str:
        """`numbers` say which splits, in four bytes each. What is wrong with one is given as text."""
        places = struct.unpack(f">{len(numbers) // 4}i", numbers)
        try:
            verify_seals(self._store, self._files.take(pa.array(places, pa.int32())), self._config)
        except IndexTablesError as error:
            return error_text(error)
        return b""

    class Java:
        implements = ("java.util.function.Function",)


def _are_known_to_spark(table: Table, spark: SparkSession) -> bool:
    """Whether the credentials of a table, if there are any, are those that Spark has."""
    config = table.log.config
    given = [setting for setting in _CREDENTIALS if config.is_set(setting)]
    if not given:
        return True
    account = store_settings.AZURE_ACCOUNT_NAME
    known = settings_of_hadoop(spark, table.log.reader.store.location, {account.key: config[account]})
    return all(config[setting] == known.get(setting.key) for setting in given)


def _hadoop_urls(table: Table) -> list[str]:
    return hadoop_urls(table.log.reader.store.location)


def _holds_void(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_holds_void(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _holds_void(kind.elementType)
    if isinstance(kind, MapType):
        return _holds_void(kind.keyType) or _holds_void(kind.valueType)
    return isinstance(kind, NullType)


def _partition_values(files: pa.Table, snapshot: Snapshot) -> pa.Table | str:
    """The typed partition values of files, or why there are none."""
    values = PartitionValues(files)
    columns: dict[str, Any] = {}
    for name in snapshot.partition_columns:
        kind = snapshot.schema.field(name).type
        parsed, unreadable = values.read(BoundColumn((name,), kind))
        if pc.any(unreadable).as_py():
            return f"a value of its partition column `{name}` cannot be read as `{kind}`"
        columns[name] = parsed.cast(kind)
    return pa.table(columns)
