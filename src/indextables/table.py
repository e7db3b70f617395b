"""`Table`: what people use. A handle stands at one version until it is refreshed."""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from indextables.errors import StorageError
from indextables.log.snapshot import Snapshot
from indextables.ops.aggregate import aggregate
from indextables.ops.checkpoint import make_checkpoint
from indextables.ops.create import create
from indextables.ops.date_histogram import date_histogram
from indextables.ops.describe_log import describe_log
from indextables.ops.describe_state import describe_state
from indextables.ops.drop_partitions import drop_partitions
from indextables.ops.fsck import fsck
from indextables.ops.histogram import histogram
from indextables.ops.merge import merge_splits
from indextables.ops.merge_jobs import list_merge_jobs
from indextables.ops.purge import purge
from indextables.ops.questions import Question
from indextables.ops.reindex import reindex
from indextables.ops.restore import restore
from indextables.ops.search import Wanted, count, search
from indextables.ops.skipped_files import list_skipped_files
from indextables.ops.stats import stats
from indextables.ops.truncate import truncate_time_travel
from indextables.ops.write import append, overwrite
from indextables.protocol.actions import Metadata, Protocol
from indextables.scan.files import prune_table
from indextables.split.open_splits import OpenSplits
from indextables.split.snippets import Snippet
from indextables.transaction_log import TransactionLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)


class Table:
    """A table at one version."""

    def __init__(self, log: TransactionLog, snapshot: Snapshot) -> None:
        self._log = log
        self._known: Snapshot | None = snapshot
        self._opened = OpenSplits(log.reader.store, log.config)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._log, self.snapshot)

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
        """Create a table. `indexing` says how columns are indexed, as in `{"message": "text"}`."""
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
        """Open a table at its newest version, or as it stood at a version or a moment."""
        log = TransactionLog(url, options=options)
        return cls(log, log.snapshot(version=version, timestamp=timestamp))

    def __repr__(self) -> str:
        return f"Table({self.url!r}, version={self.version})"

    @property
    def log(self) -> TransactionLog:
        """The table's transaction log."""
        return self._log

    @property
    def snapshot(self) -> Snapshot:
        """What the log says of the table at this version."""
        known = self._known
        if known is None:
            known = self._known = self._log.snapshot()
        return known

    @property
    def url(self) -> str:
        return self._log.url

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def schema(self) -> pa.Schema:
        return self.snapshot.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.snapshot.partition_columns

    @property
    def protocol(self) -> Protocol:
        return self.snapshot.protocol

    @property
    def metadata(self) -> Metadata:
        return self.snapshot.metadata

    @property
    def num_files(self) -> int:
        return self.snapshot.num_files

    @property
    def num_records(self) -> int:
        return self.snapshot.num_records

    def refresh(self) -> Table:
        """Move to the newest version. The same handle is returned."""
        before = self._known
        fresh = self._log.snapshot()
        known = self._known
        if (
            known is before or known is None or fresh.version > known.version
        ):  # another thread may have moved it further
            self._known = fresh
        return self

    def files(self, where: str | None = None) -> pa.Table:
        """A row per live split, less those that cannot hold a row which the predicate `where` is true of."""
        files = self.snapshot.described_files
        return files if where is None else prune_table(files, where, self.snapshot, self._log.config)

    def append(self, data: Any) -> int:
        """Add rows (an Arrow table, reader or batches, or a frame of Polars, DuckDB or pandas), and answer with the new
        version."""
        return self._moved(append(self._log, data))

    def overwrite(self, data: Any, *, where: str | None = None, if_version: int | None = None) -> int:
        """Put rows in the place of all that are there, and answer with the new version. With `if_version` it fails
        where the table has moved on.

        With `where`, a predicate on partition columns, only the partitions that it is true of are replaced: those of
        the version before, also what others wrote meanwhile. It has to be true of every new row; no rows at all delete
        the partitions.
        """
        return self._moved(overwrite(self._log, data, where=where, if_version=if_version))

    def search(
        self,
        query: str | None = None,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        score: bool = False,
        snippet: str | Snippet | None = None,
        order_by: str | None = None,
        descending: bool = False,
        bad_splits: str = "fail",
    ) -> pa.Table:
        """The rows that a query finds and a predicate is true of; all of them where neither is given.

        Rows come in the order of the table, and `limit` takes the first of them. With `score` there is a `_score`
        (float32) as the last column, and the best of all splits come first: scores are BM25 by the statistics of each
        split alone, and 1.0 without a query. With `order_by` rows come in the order of that column, also where there
        is a score: NULL last, and NaN before it. Rows that are equal keep the order of the table.

        `snippet` names a text column, or is a `Snippet`: a `_snippet` is the best fragment of that text with the words
        that the query finds there marked. It is the start of the text where there are none, and is not escaped.

        With `bad_splits="skip"` a split that is damaged or missing is left out, and a `BadSplitWarning` says so.
        """
        wanted = Wanted(columns, limit, score, snippet, order_by, descending)
        return search(self._ask(query, where, bad_splits), wanted)

    def count(self, query: str | None = None, *, where: str | None = None, bad_splits: str = "fail") -> int:
        """How many rows a query finds and a predicate is true of.

        The index alone is asked where there is no predicate on rows, and the log alone where there is no query either.
        """
        return count(self._ask(query, where, bad_splits))

    def aggregate(
        self,
        column: str,
        *,
        query: str | None = None,
        where: str | None = None,
        limit: int | None = None,
        bad_splits: str = "fail",
    ) -> pa.Table:
        """The values of a column, and the `count` of rows that have each, the most frequent first and then by value.

        NULL is no value. All NaN are one value, the greatest, and -0.0 is 0.0.
        """
        return aggregate(self._ask(query, where, bad_splits), column, limit=limit)

    def date_histogram(
        self,
        column: str,
        *,
        interval: str = "1d",
        query: str | None = None,
        where: str | None = None,
        bad_splits: str = "fail",
    ) -> pa.Table:
        """How many rows lie in each stretch of time: its start, in the type of the column, and `count`, in order.

        Only stretches that hold rows are there. An interval is a number and a unit, in UTC: `ms`, `s`, `m`, `h` and
        `d` are counted from 1970-01-01, `w` from a Monday, `M` (months), `q` and `y` from January; `day`, `week`,
        `month` and so on are one of each. A date takes whole days.
        """
        return date_histogram(self._ask(query, where, bad_splits), column, interval=interval)

    def histogram(
        self,
        column: str,
        *,
        interval: int | float | Decimal,
        offset: int | float | Decimal = 0,
        query: str | None = None,
        where: str | None = None,
        bad_splits: str = "fail",
    ) -> pa.Table:
        """How many rows lie in each stretch of numbers: its start, and `count`, in order.

        Stretches are `interval` long, one of them starts at `offset`, and only those that hold rows are there. Whole
        numbers take whole intervals. Starts of floats are doubles, and a value lies in the last stretch that does not
        start above it; infinities and NaN, which comes last, are each a stretch of their own. NULL is in none.
        """
        return histogram(self._ask(query, where, bad_splits), column, interval=interval, offset=offset)

    def stats(
        self, column: str, *, query: str | None = None, where: str | None = None, bad_splits: str = "fail"
    ) -> pa.Table:
        """One row: `count` of the values that are not NULL, `min`, `max`, and for numbers `sum` and `mean`.

        The sum of whole numbers is an int64, of decimals one of 38 digits, and exact: it is NULL where it does not fit.
        NaN is a value greater than every number: where there is one, `max`, `sum` and `mean` are NaN.
        """
        return stats(self._ask(query, where, bad_splits), column)

    def _ask(self, query: str | None, where: str | None, bad_splits: str) -> Question:
        return Question(self.snapshot, self._log.config, self._opened, query=query, where=where, bad_splits=bad_splits)

    def _after(self, answer: pa.Table, *, dry_run: bool = False) -> pa.Table:
        if not dry_run:
            self._move()
        return answer

    def _moved(self, version: int) -> int:
        self._move()
        return version

    def _move(self) -> None:
        """Go to the newest version. What was done is in the log: a store that fails now must not make it an error, so
        the next read looks for that version again."""
        try:
            self.refresh()
        except StorageError as error:
            self._known = None
            logger.warning("`%s` has a new version that could not be read yet: %s", self.url, error.message)

    def to_spark(
        self, spark: SparkSession, *, where: str | None = None, columns: Sequence[str] | None = None
    ) -> DataFrame:
        """The rows of this version as a DataFrame: Spark's own Parquet scan over the live splits that `where` does not
        rule out. Rows that it is not true of are left out too."""
        from indextables.spark import check_pyspark

        check_pyspark()
        from indextables.spark.native import to_spark

        return to_spark(self, spark, where=where, columns=columns)

    def history(self, *, limit: int | None = None) -> pa.Table:
        """A row per version, the newest first."""
        return self._log.history(limit=limit)

    def describe_log(self, *, include_all: bool = False) -> pa.Table:
        """A row per action: of the newest checkpoint and the versions after it, or of every version that is there."""
        return describe_log(self._log, include_all=include_all)

    def state(self) -> pa.Table:
        """One row: the newest state or checkpoint, what it holds, and whether it should be compacted."""
        return describe_state(self._log)

    def fsck(self, *, deep: bool = True) -> pa.Table:
        """A row per problem with the table's files; none where all that it needs is there and right. Every byte of the
        live splits is read, unless `deep` is false. Nothing is changed."""
        return fsck(self._log, deep=deep)

    def checkpoint(self) -> pa.Table:
        """Compact the newest version into a checkpoint, and move to it. One row: what the checkpoint holds."""
        return self._after(make_checkpoint(self._log))

    def compact(self) -> pa.Table:
        """Another name for `checkpoint`."""
        return self.checkpoint()

    def drop_partitions(self, where: str) -> pa.Table:
        """Remove the partitions that a predicate on partition columns is true of, also what others wrote there
        meanwhile, and move to that version. One row: what was removed."""
        return self._after(drop_partitions(self._log, where))

    def restore(
        self, *, version: int | None = None, timestamp: str | datetime.datetime | int | None = None
    ) -> pa.Table:
        """Make the table again what it was at a version or a moment, in a new version, and move to it. One row: what
        came back and what went. It is refused where files of that version are gone."""
        return self._after(restore(self._log, version=version, timestamp=timestamp))

    def merge_splits(
        self,
        *,
        where: str | None = None,
        target_size: int | str | None = None,
        max_dest_splits: int | None = None,
        max_source_splits_per_merge: int | None = None,
        dry_run: bool = False,
    ) -> pa.Table:
        """Make few large splits of many small ones, and move to the version that has them. The rows stay the same.

        `where` is a predicate on partition columns, `target_size` a number of bytes or a text such as `"1G"`. One row:
        what was merged, and what could not be.
        """
        answer = merge_splits(
            self._log,
            where=where,
            target_size=target_size,
            max_dest_splits=max_dest_splits,
            max_source_splits_per_merge=max_source_splits_per_merge,
            dry_run=dry_run,
        )
        return self._after(answer, dry_run=dry_run)

    def reindex(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> pa.Table:
        """Index splits again that are not indexed as the table says, and move to the version that has them. The rows
        stay the same.

        `where` leaves out splits that cannot hold a row which it is true of, `columns` those in which these columns
        are indexed as they should be; `splits` are paths of splits to be indexed again in any case. One row: what was
        reindexed, and what could not be.
        """
        answer = reindex(self._log, where=where, columns=columns, splits=splits, dry_run=dry_run)
        return self._after(answer, dry_run=dry_run)

    def purge(
        self,
        *,
        older_than: str | datetime.timedelta | None = None,
        log_retention: str | datetime.timedelta | None = None,
        dry_run: bool = False,
    ) -> pa.Table:
        """Delete splits that no version of the last `older_than` (as in `"7 days"`) needs, and what of the log is older
        than `log_retention`; by default what the settings say. Earlier versions can then no longer be read. One row:
        what was found and deleted."""
        answer = purge(self._log, older_than=older_than, log_retention=log_retention, dry_run=dry_run)
        return self._after(answer, dry_run=dry_run)

    def truncate_time_travel(self, *, dry_run: bool = False) -> pa.Table:
        """Give up all versions but the newest, after a checkpoint of it. Splits stay: they are for `purge` to delete.
        One row: what was deleted."""
        return self._after(truncate_time_travel(self._log, dry_run=dry_run), dry_run=dry_run)

    def merge_jobs(self) -> pa.Table:
        """The last merges that writes of this process have started, of any table, the newest first: how far they are,
        how they ended, and what went wrong."""
        return list_merge_jobs()

    def set_properties(self, properties: Mapping[str, str | None]) -> int:
        """Set table properties; None takes one away. Answers with the new version."""
        return self._moved(self._log.set_properties(properties))

    def skipped_files(self) -> pa.Table:
        """The files that an operation could not process."""
        return list_skipped_files(self.snapshot.skips.values())

    def invalidate_cache(self) -> None:
        """Forget what was read of the log and of splits."""
        self._log.invalidate_cache()
        self.flush_search_cache()

    def flush_search_cache(self) -> None:
        """Close the splits that searches have opened; the next search opens them anew. What was extracted of them stays
        on local disk."""
        self._opened.clear()
