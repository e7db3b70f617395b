"""Native scans: Spark's own Parquet scan over the live splits of a version.

Splits are Parquet files, so this is the fastest scan for a query without a search. The log names the files, so the
store is never listed. Partition values and statistics exclude splits before any is opened. Spark trusts the footer of a
split, so the driver verifies the seal before the first scan reads it. Spark verifies the checksum of every page.

The module also translates predicates to Spark columns with the same meaning as without Spark.
"""

from __future__ import annotations

import functools
import json
import logging
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

from indextables.config import Config, settings, store_settings
from indextables.errors import ConfigError, IndexTablesError
from indextables.log.snapshot import Snapshot
from indextables.predicate import bind, parse_predicate
from indextables.predicate.bound import (
    BoundAnd,
    BoundColumn,
    BoundComparison,
    BoundConstant,
    BoundIn,
    BoundLeaf,
    BoundLike,
    BoundNull,
    BoundOr,
    BoundPredicate,
    BoundValue,
    scalar_of,
)
from indextables.prune.files import hinted_mask, prune_mask
from indextables.prune.partitions import PartitionValues
from indextables.runtime.caching import BoundedCache
from indextables.scan.filter_plan import FilterLimits, FilterPlan, plan_filter
from indextables.scan.scan_tasks import shared_splits
from indextables.scan.split_scan import TableScan, check_column
from indextables.spark.hadoop.paths import hadoop_urls
from indextables.spark.hadoop.settings import settings_of_hadoop
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import error_text
from indextables.spark.options.arrow_types import ipc_stream, to_spark_schema
from indextables.spark.options.source_options import SourceOptions, option_text
from indextables.spark.scan.driver_search import opened_load
from indextables.split.search.open_splits import OpenSplits
from indextables.split.verification import verify_seals
from indextables.store import ObjectStore
from indextables.table import Table

logger = logging.getLogger(__name__)

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def filter_column(bound: BoundPredicate) -> Column:
    """Return a column that is true for exactly the rows that match a predicate."""
    if isinstance(bound, BoundConstant):
        return F.lit(bound.value)
    if isinstance(bound, BoundAnd | BoundOr):
        join = operator.and_ if isinstance(bound, BoundAnd) else operator.or_
        return functools.reduce(join, map(filter_column, bound.terms))
    return _leaf(bound, F.col(".".join(f"`{name.replace('`', '``')}`" for name in bound.column.path)))


def _leaf(leaf: BoundLeaf, column: Column) -> Column:
    if isinstance(leaf, BoundNull):
        return column.isNotNull() if leaf.negated else column.isNull()
    if isinstance(leaf, BoundComparison):
        compared: Column = _COMPARE[leaf.operator](column, _literal(leaf.column, leaf.value))
        return compared
    found = _membership(leaf, column) if isinstance(leaf, BoundIn) else _pattern(leaf, column)
    return ~found if leaf.negated else found


def _membership(leaf: BoundIn, column: Column) -> Column:
    return column.isin([_literal(leaf.column, value) for value in leaf.values])


def _pattern(leaf: BoundLike, column: Column) -> Column:
    return column.startswith(leaf.prefix) if leaf.prefix_only else column.rlike(leaf.regex)


def _literal(column: BoundColumn, value: BoundValue) -> Column:
    """Return a value as a literal column.

    Days and ticks are passed as numbers: Python has no date before the year 1 and no time zone of its own.
    """
    if column.kind == "date":
        return F.date_from_unix_date(F.lit(value))
    if column.kind == "timestamp" and column.type.tz is not None:
        return F.timestamp_micros(F.lit(value))
    if column.kind == "timestamp":
        text = pa.scalar(value, pa.int64()).cast(pa.timestamp("us")).cast(pa.string()).as_py()
        return F.lit(text).cast("timestamp_ntz")
    return F.lit(scalar_of(column, value).as_py())


_MOST_FILTERS = 64
_FILE_COLUMNS = ["path", "size", "modification_time"]
_SEALED_COLUMNS = ["path", "size", "footer_start_offset", "footer_end_offset"]
_CREDENTIALS = [setting for setting in settings.ALL if setting.secret]


def to_spark(
    table: Table, spark: SparkSession, *, where: str | None = None, columns: Sequence[str] | None = None
) -> DataFrame:
    """Return the rows of a table at its version as a DataFrame, optionally filtered."""
    scan = NativeTable.open(table, spark, where=where)
    if isinstance(scan, str):
        raise ConfigError(
            f"cannot scan `{table.url}` natively because {scan}", hint="`indextables.read(spark, url)` reads it"
        )
    asked = SourceOptions(url=table.url, version=table.version, settings=_options_of(table))
    return scan.frame(spark, asked, where=where, columns=columns)


def _options_of(table: Table) -> dict[str, str]:
    return {key: option_text(value) for key, value in table.log.options.items() if value is not None}


class NativeTable:
    """One version of a table that Spark can scan itself."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        store: ObjectStore,
        opened: OpenSplits,
        root: str,
        files: pa.Table,
        partitions: pa.Table,
    ) -> None:
        self.schema = to_spark_schema(snapshot.schema)
        self._snapshot = snapshot
        self._config = config
        self._store = store
        self._opened = opened
        self._root = root
        self._files = files
        self._partitions = partitions

    @classmethod
    def open(cls, table: Table, spark: SparkSession, *, where: str | None = None) -> NativeTable | str:
        """Return the table, or the reason why Spark cannot scan it itself.

        `where` excludes splits by partition values and statistics.
        """
        snapshot, config = table.snapshot, table.log.config
        if gateway.is_classic(spark) and not gateway.is_known(spark):
            return f"Spark {spark.version} is not one that this is known to work with"
        if _holds_void(to_spark_schema(snapshot.schema)):
            return "it has a column of type `void`, which Spark's Parquet scan cannot read"
        if not _are_known_to_spark(table, spark):
            return "its credentials are given to this library and not to Spark"
        refusals = {url: gateway.bridge(spark).refusal(spark._jsparkSession, url) for url in _hadoop_urls(table)}
        root = next((url for url, refusal in refusals.items() if refusal is None), None)
        if root is None:
            return next(iter(refusals.values()), "Spark's own file systems cannot read it")
        if snapshot.live_files.num_stored > config[settings.STATE_READ_MAX_FILES]:
            return f"it has more files than `{settings.STATE_READ_MAX_FILES.key}`, so tasks list them"
        files = snapshot.files
        if where is not None:
            files = files.filter(prune_mask(files, where, snapshot, config))
        partitions = _partition_values(files, snapshot)
        if isinstance(partitions, str):
            return partitions
        opened = shared_splits(table.log.url, tuple(sorted(_options_of(table).items())))
        return cls(snapshot, config, table.log.reader.store, opened, root, files, partitions)

    def frame(
        self, spark: SparkSession, asked: SourceOptions, *, where: str | None, columns: Sequence[str] | None
    ) -> DataFrame:
        """Return the rows that match a predicate as a DataFrame.

        `asked` is the load without the predicate.
        """
        schema = self._snapshot.schema
        opened = opened_load(asked, spark, ScanNatively(None, spark))
        frame = DataFrame(gateway.bridge(spark).dataFrame(spark._jsparkSession, self.java(spark), opened), spark)
        if where is not None:
            frame = frame.filter(filter_column(bind(parse_predicate(where), schema)))
        if columns is None:
            return frame
        names = [check_column(schema, name) for name in dict.fromkeys(columns)]
        return frame.select(*(f"`{name.replace('`', '``')}`" for name in names))

    def java(self, spark: SparkSession) -> Any:
        """Return the scan as an object of our Java classes."""
        bridge = gateway.bridge(spark)
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
            ChooseSplits(self._files, self._snapshot, self._config, self._opened),
            VerifySeals(self._files, self._store, self._config),
        )
        return bridge.nativeScan(splits, self.schema.json())


class ScanNatively:
    """Callback for Java that opens the native scan of a load on demand.

    A search needs none.
    """

    def __init__(self, table: Table | None, spark: SparkSession) -> None:
        """Keep the table; it is None if the load asks for more than unchanged rows."""
        self._table = table
        self._spark = spark

    def apply(self, _: str) -> Any:
        """Return the scan, an empty list if there is none, or the text of an error."""
        try:
            scan = None if self._table is None else NativeTable.open(self._table, self._spark)
            if isinstance(scan, NativeTable):
                return scan.java(self._spark)
        except IndexTablesError as error:
            return error_text(error)
        return gateway.gateway(self._spark).jvm.java.util.ArrayList()

    class Java:
        implements = ("java.util.function.Function",)


class MayMatch:
    """Callback for Java that returns one byte a split: whether the split may match."""

    def __init__(self, files: pa.Table, snapshot: Snapshot, config: Config) -> None:
        self._files = files
        self._snapshot = snapshot
        self._config = config

    def apply(self, hints: str) -> bytes:
        """Return the bytes for `hints`, a JSON array of predicates."""
        mask = hinted_mask(self._files, json.loads(hints), self._snapshot, self._config)
        return _bytes_of(pc.cast(mask, pa.uint8()))

    class Java:
        implements = ("java.util.function.Function",)


class ChooseSplits:
    """Callback for Java that plans a plain filter: rows by the index, or fewer splits."""

    def __init__(self, files: pa.Table, snapshot: Snapshot, config: Config, opened: OpenSplits) -> None:
        self._files = files
        self._snapshot = snapshot
        self._config = config.with_properties(snapshot.metadata.configuration)
        self._opened = opened
        self._known: BoundedCache[str, FilterPlan] = BoundedCache(_MOST_FILTERS)

    def apply(self, hints: str) -> bytes:
        """Return what to do for `hints`, a JSON array of predicates.

        The answer is empty if the filter tells no more than the log. Else it has one byte, 1 if a scan by the index
        shall replace Spark's, the length of a reason, the reason, and one byte a split: whether the split may match.
        """
        mode = self._config[settings.SCAN_MODE]
        if mode == "native":
            return b""
        try:
            plan = self._plan(" AND ".join(json.loads(hints)))
        except IndexTablesError as error:  # a scan of Spark reports it, if it reads that split
            logger.info("no index decides `%s`: %s", hints, error.message)
            return b""
        if not plan.by_index:
            return b""
        is_by_index = plan.is_small or mode == "index"
        kept = pa.array([split.path for split in plan.splits], pa.string())
        mask = pc.cast(pc.is_in(self._files["path"].combine_chunks(), value_set=kept), pa.uint8())
        reason = plan.reason.encode()
        return bytes([is_by_index]) + len(reason).to_bytes(4, "big") + reason + _bytes_of(mask)

    def _plan(self, where: str) -> FilterPlan:
        """Plan a filter; a plan that counted all rows stays valid for this version."""
        known = self._known.get(where)
        if known is None:
            scan = TableScan(self._snapshot, self._config, self._opened, where=where)
            known = plan_filter(scan, FilterLimits.of(self._config))
            if known.num_rows is not None:
                self._known.put(where, known)
        return known

    class Java:
        implements = ("java.util.function.Function",)


class VerifySeals:
    """Callback for Java that verifies the footers of splits before Spark reads them."""

    def __init__(self, files: pa.Table, store: ObjectStore, config: Config) -> None:
        self._files = files.select(_SEALED_COLUMNS)
        self._store = store
        self._config = config

    def apply(self, numbers: bytes) -> bytes | str:
        """Verify the splits whose indexes are in `numbers`, four bytes each.

        Return an empty answer, or the text of an error.
        """
        places = struct.unpack(f">{len(numbers) // 4}i", numbers)
        try:
            verify_seals(self._store, self._files.take(pa.array(places, pa.int32())), self._config)
        except IndexTablesError as error:
            return error_text(error)
        return b""

    class Java:
        implements = ("java.util.function.Function",)


def _bytes_of(numbers: pa.Array[Any]) -> bytes:
    """Return an array of bytes without its validity."""
    found: bytes = numbers.buffers()[1].to_pybytes()[numbers.offset : numbers.offset + len(numbers)]
    return found


def _are_known_to_spark(table: Table, spark: SparkSession) -> bool:
    """Return whether Spark holds the table's credentials; true if the table has none."""
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
    """Return the typed partition values of files, or the reason why one is invalid."""
    values = PartitionValues(files)
    columns: dict[str, Any] = {}
    for name in snapshot.partition_columns:
        kind = snapshot.schema.field(name).type
        parsed, unreadable = values.read(BoundColumn((name,), kind))
        if pc.any(unreadable).as_py():
            return f"a value of its partition column `{name}` cannot be read as `{kind}`"
        columns[name] = parsed.cast(kind)
    return pa.table(columns)
