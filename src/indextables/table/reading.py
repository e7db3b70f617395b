"""`ReadableTable`: searches, counts, aggregations, and rows for other libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

from indextables.arrow_values import to_table
from indextables.errors import ConfigError
from indextables.log.files import exact_sum
from indextables.log.snapshot import Snapshot
from indextables.table.answers import AnswerStats
from indextables.table.handle import TableHandle

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds

    from indextables.scan.split_scan import TableScan
    from indextables.split.search.snippets import Snippet
    from indextables.table.frames import FoundRows

_T = TypeVar("_T")


class ReadableTable(TableHandle):
    """The reading side of a table."""

    def __len__(self) -> int:
        """Count the rows at this version; the same as `count()`."""
        return self.count()

    def __bool__(self) -> bool:
        """Return True, even without rows: `if table:` must not cost a request."""
        return True

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return all rows as an Arrow stream that is read on demand."""
        return self._rows().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Return the schema of the rows without reading any."""
        return self.schema.__arrow_c_schema__()

    def files(self, where: str | None = None) -> pa.Table:
        """List the live splits, one per row.

        Args:
            where: a predicate; splits without rows for which it may be true are omitted.

        Example:
            >>> it.open("logs").files("day = '2026-01-02'")["num_records"].to_pylist()
            [1, 1]
        """
        files = self.snapshot.described_files
        if where is None:
            return files
        from indextables.prune.files import prune_table

        return prune_table(files, where, self.snapshot, self._log.config)

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
        """Find the rows that match a query and a predicate; all rows without either.

        Args:
            query: words and operators of the query language, as in `error AND "disk full"`.
            where: a predicate in SQL, as in `day >= '2026-01-01' AND id < 5`.
            columns: the columns to return; all by default.
            limit: the most rows to return. They are the first in the table's order, or the best ones.
            score: add `_score` (float32), and return the best rows first. Scores are BM25 by the statistics of each
                split, and 1.0 without a query.
            snippet: a text column, or a `Snippet`: add `_snippet`, the best fragment of that text with the words of
                the query marked. It is the start of the text if no word is found there, and is not escaped.
            order_by: sort by this column: NULL last, NaN before it. Equal rows keep the table's order.
            descending: sort from the greatest value to the least.
            bad_splits: `fail`, or `skip` to leave out damaged and missing splits with a `BadSplitWarning`.

        Example:
            >>> it.open("logs").search("timeout", where="id > 3", columns=["id", "message"]).to_pylist()
            [{'id': 4, 'message': 'write timeout after disk check'}]
        """
        from indextables.scan.search import Projection, search

        wanted = Projection(columns, limit, score, snippet, order_by, descending)
        question = ("search", query, where, columns, limit, score, snippet, order_by, descending)
        return self._answer(question, query, where, bad_splits, functools.partial(search, wanted=wanted))

    def explain(
        self,
        query: str | None = None,
        where: str | None = None,
        *,
        run: bool = False,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        score: bool = False,
        order_by: str | None = None,
        descending: bool = False,
    ) -> pa.Table:
        """Explain a search: what each stage leaves out, reads and costs.

        The stages are `partitions` and `statistics`, which the log decides, `footers` and `filters` of splits, `index`
        (its fetch and opening), `search` (the engine), `rows`, and `total`. `cached` counts splits that needed no
        request. Times of parallel work add up, so they may exceed the total.

        Args:
            query: words and operators of the query language.
            where: a predicate in SQL.
            run: run the search; otherwise only the log is asked, and the stages after it are left out.
            columns: the columns to read; all by default.
            limit: the most rows to find.
            score: rank by score.
            order_by: sort by this column.
            descending: sort from the greatest value to the least.

        Example:
            >>> t = it.open("logs")
            >>> t.explain(where="day = '2026-01-02'").select(["stage", "splits", "left_out"]).to_pylist()
            [{'stage': 'partitions', 'splits': 3, 'left_out': 1}, {'stage': 'statistics', 'splits': 2, 'left_out': 0}]
            >>> t.explain("timeout", run=True)["stage"].to_pylist()
            ['partitions', 'statistics', 'footers', 'filters', 'index', 'search', 'rows', 'total']
        """
        from indextables.scan.explain import explain
        from indextables.scan.search import Projection, search

        wanted = Projection(columns, limit, score, None, order_by, descending)
        return explain(lambda: self._ask(query, where, "fail"), (lambda scan: search(scan, wanted)) if run else None)

    def head(self, n: int = 5) -> pa.Table:
        """Return the first rows.

        Args:
            n: the number of rows.

        Example:
            >>> it.open("logs").head(2)["id"].to_pylist()
            [1, 2]
        """
        return to_table([], self.schema) if n == 0 and n is not False else self.search(limit=n)

    def to_arrow(
        self, query: str | None = None, *, where: str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the rows as one Arrow table.

        Args:
            query: return only rows that this query finds.
            where: return only rows for which this predicate is true.
            columns: the columns to return; all by default.

        Example:
            >>> it.open("logs").to_arrow(columns=["id"]).num_rows
            4
        """
        return self.search(query, where=where, columns=columns)

    def to_batches(
        self, query: str | None = None, *, where: str | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows as Arrow record batches, in the order of the table.

        Batches are read on demand, so memory is bounded for any number of rows. The rows are from the version at the
        time of the call.

        Args:
            query: return only rows that this query finds.
            where: return only rows for which this predicate is true.
            columns: the columns to return; all by default.

        Example:
            >>> sum(batch.num_rows for batch in it.open("logs").to_batches("disk"))
            3
        """
        return self._rows(query, where, columns).batches()

    def to_pandas(
        self, query: str | None = None, *, where: str | None = None, columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame.

        Whole numbers with NULLs become pandas' nullable types, such as `Int64`, so that no number changes.

        Args:
            query: return only rows that this query finds.
            where: return only rows for which this predicate is true.
            columns: the columns to return; all by default.

        Example:
            >>> it.open("logs").to_pandas("timeout")["id"].tolist()
            [3, 4]
        """
        from indextables.table.frames import optional_package, pandas_frame

        pandas = optional_package("pandas")
        return pandas_frame(pandas, self.to_arrow(query, where=where, columns=columns))

    def to_polars(
        self, query: str | None = None, *, where: str | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame.

        Args:
            query: return only rows that this query finds.
            where: return only rows for which this predicate is true.
            columns: the columns to return; all by default.

        Example:
            >>> it.open("logs").to_polars("timeout", columns=["id"]).shape
            (2, 1)
        """
        from indextables.table.frames import optional_package

        polars = optional_package("polars")
        frame: pl.DataFrame = polars.DataFrame(self.to_arrow(query, where=where, columns=columns))
        return frame

    def to_duckdb(
        self,
        query: str | None = None,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Return the rows as a DuckDB relation, which reads them when it is run.

        The relation stays at this version, and can be run several times.

        Args:
            query: return only rows that this query finds.
            where: return only rows for which this predicate is true.
            columns: the columns to read; all by default. Fewer columns are read faster.
            connection: the DuckDB connection to use; DuckDB's default one otherwise.

        Example:
            >>> logs = it.open("logs").to_duckdb("timeout")
            >>> logs.aggregate("level, count(*)").fetchall()
            [('error', 2)]
        """
        from indextables.table.frames import optional_package

        package = optional_package("duckdb")
        rows = self._rows(query, where, columns)
        return package.from_arrow(rows) if connection is None else connection.from_arrow(rows)

    def dataset(self) -> ds.Dataset:
        """Return the live splits as a pyarrow dataset.

        It reads through this handle's store, with its credentials, and verifies every footer and page. Filters on
        partition columns skip whole splits. The dataset stays at this version.

        Example:
            >>> import pyarrow.compute as pc
            >>> it.open("logs").dataset().to_table(filter=pc.field("day") == "2026-01-02").num_rows
            2
        """
        from indextables.table.dataset import split_dataset

        return split_dataset(self.snapshot, self._log.reader.store, self._log.config)

    def count(self, query: str | None = None, *, where: str | None = None, bad_splits: str = "fail") -> int:
        """Count the rows that match a query and a predicate; all rows without either.

        Without a predicate on rows, only the index is read; without a query too, only the log.

        Args:
            query: words and operators of the query language.
            where: a predicate in SQL.
            bad_splits: `fail`, or `skip` to leave out damaged and missing splits with a `BadSplitWarning`.

        Example:
            >>> it.open("logs").count("disk AND NOT timeout")
            2
        """
        if query is None and where is None and bad_splits == "fail":
            numbers = self.snapshot.files["num_records"]
            if not numbers.null_count:  # the log knows, and no module of a scan is loaded
                return exact_sum(numbers)
        from indextables.scan.search import count

        return self._answer(("count", query, where), query, where, bad_splits, count)

    def aggregate(
        self,
        column: str,
        *,
        query: str | None = None,
        where: str | None = None,
        limit: int | None = None,
        bad_splits: str = "fail",
    ) -> pa.Table:
        """Count the rows by the values of a column, the most frequent value first.

        Values with the same count are sorted. NULL is not counted. All NaN are one value, the greatest; -0.0 is 0.0.

        Args:
            column: the column whose values are counted.
            query: count only rows that this query finds.
            where: count only rows for which this predicate is true.
            limit: the most values to return.
            bad_splits: `fail`, or `skip` to leave out damaged and missing splits with a `BadSplitWarning`.

        Example:
            >>> it.open("logs").aggregate("level").to_pylist()
            [{'level': 'error', 'count': 3}, {'level': 'info', 'count': 1}]
        """
        from indextables.scan.aggregate.terms import aggregate

        question = ("aggregate", column, query, where, limit)
        return self._answer(
            question, query, where, bad_splits, functools.partial(aggregate, column=column, limit=limit)
        )

    value_counts = aggregate

    def date_histogram(
        self,
        column: str,
        *,
        interval: str = "1d",
        query: str | None = None,
        where: str | None = None,
        bad_splits: str = "fail",
    ) -> pa.Table:
        """Count the rows by interval of time.

        The result has the start of each interval with rows, and `count`, in order.

        Args:
            column: a column of dates or timestamps.
            interval: a number and a unit, in UTC: `ms`, `s`, `m`, `h` and `d` count from 1970-01-01, `w` from a
                Monday, `M` (months), `q` and `y` from January. `day`, `week`, `month` and so on are one of each. A
                date takes whole days.
            query: count only rows that this query finds.
            where: count only rows for which this predicate is true.
            bad_splits: `fail`, or `skip` to leave out damaged and missing splits with a `BadSplitWarning`.

        Example:
            >>> it.open("logs").date_histogram("at", interval="1d")["count"].to_pylist()
            [2, 2]
        """
        from indextables.scan.aggregate.date_histogram import date_histogram

        question = ("date_histogram", column, interval, query, where)
        return self._answer(
            question, query, where, bad_splits, functools.partial(date_histogram, column=column, interval=interval)
        )

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
        """Count the rows by interval of numbers.

        The result has the start of each interval with rows, and `count`, in order. Starts of floats are doubles, and a
        value is in the last interval that does not start above it. Infinities and NaN, which is last, have their own
        intervals. NULL is in none.

        Args:
            column: a column of numbers.
            interval: the length of each interval; whole numbers take whole intervals.
            offset: the start of one of the intervals.
            query: count only rows that this query finds.
            where: count only rows for which this predicate is true.
            bad_splits: `fail`, or `skip` to leave out damaged and missing splits with a `BadSplitWarning`.

        Example:
            >>> it.open("logs").histogram("id", interval=3).to_pylist()
            [{'id': 0, 'count': 2}, {'id': 3, 'count': 2}]
        """
        from indextables.scan.aggregate.histogram import histogram

        question = ("histogram", column, interval, offset, query, where)
        find = functools.partial(histogram, column=column, interval=interval, offset=offset)
        return self._answer(question, query, where, bad_splits, find)

    def stats(
        self, column: str, *, query: str | None = None, where: str | None = None, bad_splits: str = "fail"
    ) -> pa.Table:
        """Summarise a column in one row.

        It has `count`, `min` and `max`, and for numbers `sum` and `mean`. NULLs are not counted. The sum of whole
        numbers is an int64, of decimals one of 38 digits; both are exact, and NULL if they do not fit. NaN is greater
        than every number: if there is one, `max`, `sum` and `mean` are NaN.

        Args:
            column: the column to summarise.
            query: use only rows that this query finds.
            where: use only rows for which this predicate is true.
            bad_splits: `fail`, or `skip` to leave out damaged and missing splits with a `BadSplitWarning`.

        Example:
            >>> it.open("logs").stats("id").to_pylist()
            [{'count': 4, 'min': 1, 'max': 4, 'sum': 10, 'mean': 2.5}]
        """
        from indextables.scan.aggregate.stats import stats

        return self._answer(
            ("stats", column, query, where), query, where, bad_splits, functools.partial(stats, column=column)
        )

    def answer_stats(self) -> AnswerStats:
        """Count the questions that this handle answered from memory, and the others.

        Answers are kept if `search.answers.maxSize` gives them room. A change of version drops them.

        Example:
            >>> t = it.open("logs", options={"search.answers.maxSize": "8M"})
            >>> t.count("disk"), t.count("disk")
            (3, 3)
            >>> t.answer_stats()
            AnswerStats(hits=1, misses=1)
        """
        return self._answers.stats()

    def _answer(
        self,
        question: tuple[object, ...],
        query: str | None,
        where: str | None,
        bad_splits: str,
        find: Callable[[TableScan], _T],
    ) -> _T:
        """Answer a question to the snapshot of this moment, from memory if it is known.

        Whether splits are skipped depends on more than the snapshot, so such answers are not kept.
        """
        snapshot = self.snapshot

        def look() -> _T:
            return find(self._ask(query, where, bad_splits, snapshot))

        return self._answers.get(snapshot, question, look) if bad_splits == "fail" else look()

    def _rows(
        self, query: str | None = None, where: str | None = None, columns: Sequence[str] | None = None
    ) -> FoundRows:
        from indextables.scan.search import Projection
        from indextables.table.frames import FoundRows

        if columns is not None and not len(columns):
            raise ConfigError("cannot read no columns at all", hint="name one, or leave `columns` out")
        return FoundRows(self._ask(query, where, "fail"), Projection(columns))

    def _ask(
        self, query: str | None, where: str | None, bad_splits: str, snapshot: Snapshot | None = None
    ) -> TableScan:
        from indextables.scan.split_scan import TableScan

        snapshot = self.snapshot if snapshot is None else snapshot
        return TableScan(snapshot, self._log.config, self._opened, query=query, where=where, bad_splits=bad_splits)
