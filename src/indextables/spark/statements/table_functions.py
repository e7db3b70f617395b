"""The table functions of SQL: `indextables_table` and aggregations.

The index answers an aggregation if its answer is exact. Aggregations run in this process when the statement is
submitted, with the settings of the session. A name means the table behind it at its newest version; a view that selects
a part of a table is refused.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pyarrow as pa

from indextables.errors import QueryError
from indextables.predicate.literals import as_timestamp
from indextables.spark.catalog.named_tables import named_tables
from indextables.spark.options.arrow_types import to_spark_schema
from indextables.spark.options.session_settings import with_session
from indextables.spark.options.source_options import names_of_option
from indextables.spark.scan.reading import read
from indextables.spark.statements.calls import Argument, Name, TableCall
from indextables.spark.statements.operators import draw_place
from indextables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def make_frame(spark: Any, call: TableCall, text: str) -> DataFrame:
    """Return the frame of a call; `text` is the statement, for messages."""
    return _Call(spark, call, text).run()


class _Kind(NamedTuple):
    """Kind of an argument: its name, and a check that returns None for others."""

    expected: str
    read: Callable[[Any], Any]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _column(value: Any) -> str | None:
    return value.parts[0] if isinstance(value, Name) and len(value.parts) == 1 else _text(value)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: Any) -> int | float | Decimal | None:
    return value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _names(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return list(names_of_option("columns", value))
    listed = value if isinstance(value, list | tuple) and not isinstance(value, Name) else [value]
    names = [_column(one) for one in listed]
    return None if None in names or not names else [name for name in names if name is not None]


def _moment(value: Any) -> str | datetime.datetime | int | None:
    if isinstance(value, datetime.date):
        return as_timestamp(value)
    return _text(value) or _whole(value)


_TEXT = _Kind("a string", _text)
_COLUMN = _Kind("the name of a column", _column)
_WHOLE = _Kind("a whole number", _whole)
_NUMBER = _Kind("a number", _number)
_TRUTH = _Kind("`true` or `false`", _truth)
_NAMES = _Kind("names of columns, as in `array('a', 'b')`", _names)
_MOMENT = _Kind("a timestamp, as in `'2026-01-31T12:00:00Z'`", _moment)

_AT = {"version": _WHOLE, "timestamp": _MOMENT}
_OF = {"search": _TEXT, "where": _TEXT}


class _Function(NamedTuple):
    """Parameters of a function after the table.

    Those in `by_place` are required and positional.
    """

    run: Callable[[Any, str, dict[str, Any]], DataFrame]
    parameters: Mapping[str, _Kind]
    by_place: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


class _Call:
    def __init__(self, spark: Any, call: TableCall, text: str) -> None:
        self._spark = spark
        self._call = call
        self._text = text
        self._function = FUNCTIONS[call.function]

    def run(self) -> DataFrame:
        if not self._call.arguments or self._call.arguments[0].name is not None:
            self._fail("expected a table first: a quoted path, or the name of a table or view", self._call.start)
        table, *others = self._call.arguments
        given = self._named(others)
        for name in (*self._function.by_place, *self._function.required):
            if name not in given:
                self._fail(
                    f"`{name}` is missing: expected {self._function.parameters[name].expected}", self._call.start
                )
        return self._function.run(self._spark, self._url(table), given)

    def _named(self, arguments: Sequence[Argument]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for number, argument in enumerate(arguments):
            name = argument.name
            if name is None:
                name = next(iter(self._function.by_place[number : number + 1]), None)
            if name is None:
                self._fail("it has to be named, as in `limit => 10`", argument.start)
            if name in given:
                self._fail(f"`{name}` is given twice", argument.start)
            kind = self._function.parameters.get(name)
            if kind is None:
                self._unknown(name, argument.start)
            if argument.value is not None:
                given[name] = kind.read(argument.value)
                if given[name] is None:
                    self._fail(f"expected {kind.expected} for `{name}`", argument.start)
        return given

    def _unknown(self, name: str, start: int) -> NoReturn:
        known = list(self._function.parameters)
        near = difflib.get_close_matches(name, known, n=1)
        listed = ", ".join(f"`{one}`" for one in known)
        self._fail(f"it has no `{name}`", start, f"did you mean `{near[0]}`?" if near else f"it has {listed}")

    def _url(self, argument: Argument) -> str:
        if isinstance(argument.value, str):
            return argument.value
        if not isinstance(argument.value, Name):
            self._fail("expected a table first: a quoted path, or the name of a table or view", argument.start)
        named = named_tables(self._spark, argument.value.text)
        if named is None:
            self._fail(f"there is no table or view `{argument.value.text}`", argument.start, "put a path in quotes")
        if not named.urls and named.unclear is None:
            self._fail(f"`{argument.value.text}` is not a table of this format", argument.start)
        if len(named.urls) != 1 or not named.is_whole:
            self._fail(
                f"`{argument.value.text}` is a view that does not select a whole table unchanged",
                argument.start,
                "give the path of the table in quotes, and use `search` and `where`",
            )
        return named.urls[0]

    def _fail(self, reason: str, start: int, hint: str | None = None) -> NoReturn:
        raise QueryError(
            f"cannot call `{self._call.function}` because {reason}, at {draw_place(self._text, start)}", hint=hint
        ) from None


def _open(spark: Any, url: str, given: dict[str, Any]) -> Table:
    options = with_session(spark, url, {})
    return Table.open(url, version=given.pop("version", None), timestamp=given.pop("timestamp", None), options=options)


def _frame(spark: Any, rows: pa.Table) -> DataFrame:
    # With a schema, because Connect cannot create a frame without rows otherwise.
    frame: DataFrame = spark.createDataFrame(rows, schema=to_spark_schema(rows.schema))
    return frame


def _rows(spark: Any, url: str, given: dict[str, Any]) -> DataFrame:
    return read(spark, url, **given)


def _count(spark: Any, url: str, given: dict[str, Any]) -> DataFrame:
    number = _open(spark, url, given).count(given.get("search"), where=given.get("where"))
    return _frame(spark, pa.table({"count": pa.array([number], pa.int64())}))


def _by(method: Callable[..., pa.Table]) -> Callable[[Any, str, dict[str, Any]], DataFrame]:
    """Return a function that runs a method of a table and returns its rows as a frame."""

    def run(spark: Any, url: str, given: dict[str, Any]) -> DataFrame:
        table = _open(spark, url, given)
        names = {name.lower(): name for name in table.schema.names}  # Spark ignores case
        column = names.get(given["column"].lower(), given["column"])
        asked = {("query" if name == "search" else name): value for name, value in given.items()}
        return _frame(spark, method(table, **{**asked, "column": column}))

    return run


_PICKED = {"columns": _NAMES, "limit": _WHOLE, "score": _TRUTH, "snippet": _COLUMN}
_BY_COLUMN = ("column",)
FUNCTIONS = {
    "indextables_table": _Function(_rows, {**_AT, **_OF, **_PICKED}),
    "indextables_count": _Function(_count, {**_OF, **_AT}),
    "indextables_terms": _Function(
        _by(Table.aggregate), {"column": _COLUMN, **_OF, "limit": _WHOLE, **_AT}, _BY_COLUMN
    ),
    "indextables_stats": _Function(_by(Table.stats), {"column": _COLUMN, **_OF, **_AT}, _BY_COLUMN),
    "indextables_date_histogram": _Function(
        _by(Table.date_histogram), {"column": _COLUMN, "interval": _TEXT, **_OF, **_AT}, _BY_COLUMN
    ),
    "indextables_histogram": _Function(
        _by(Table.histogram),
        {"column": _COLUMN, "interval": _NUMBER, "offset": _NUMBER, **_OF, **_AT},
        _BY_COLUMN,
        required=("interval",),
    ),
}
