"""`sql`: SQL with our commands, search operators and table functions.

It works on every kind of session. Text without our words passes to Spark unchanged. In enabled sessions, `spark.sql`
does the same, and `filter`, `where` and `selectExpr` accept the operators in their text.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from indextables.clock import SYSTEM_CLOCK
from indextables.commands import is_borrowed, parse_command
from indextables.errors import QueryError
from indextables.predicate.words import Token
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import own_errors
from indextables.spark.options.source_options import NAME
from indextables.spark.statements.calls import Parameters, TableCall, find_calls, find_paths
from indextables.spark.statements.commands import is_ours, run_command
from indextables.spark.statements.operators import (
    OPERATORS,
    Edit,
    apply_edits,
    draw_place,
    operator_edits,
    rewrite_condition,
    search_calls,
    split_words,
)
from indextables.spark.statements.table_functions import FUNCTIONS, make_frame

_OWN_WORDS = re.compile("|".join((*OPERATORS, *FUNCTIONS, rf"\b{NAME}`?\s*\.")), re.IGNORECASE)
_sql = SparkSession.sql
_filter = ClassicDataFrame.filter
_select_expr = ClassicDataFrame.selectExpr


def sql(spark: Any, text: str, /, args: Any = None, **frames: Any) -> DataFrame:
    """Run a statement of SQL, which may be a command of this library.

    It may use search operators in enabled sessions, and table functions such as
    `indextables_table('/data/logs', search => 'error')` in every session. ``FROM indextables.`/data/logs` `` reads a
    table by its path.

    Args:
        spark: the session, classic or of Spark Connect.
        text: the statement.
        args: values of its parameters, as `SparkSession.sql` takes them.
        frames: values of names in braces, as `SparkSession.sql` takes them.

    Example:
        >>> it.sql(spark, "SELECT count(*) AS n FROM indextables_table('logs', search => 'timeout')").first().n
        2
    """
    if isinstance(text, str) and is_borrowed(text):
        return _run_borrowed(spark, text, args, frames)
    command = parse_command(text) if isinstance(text, str) else None
    with own_errors(), contextlib.ExitStack() as until_analysed:
        if command is None:
            return _run(spark, _read(spark, text, args, frames, until_analysed))
        if args or frames:
            raise QueryError("cannot give parameters to a command of this library: write their values in its text")
        return run_command(spark, command)


def install() -> None:
    """Replace `sql`, `filter` and `selectExpr`; they act in enabled sessions only."""
    SparkSession.sql = _sql_enabled  # type: ignore[method-assign]
    ClassicDataFrame.filter = _filter_enabled  # type: ignore[method-assign]
    ClassicDataFrame.selectExpr = _select_expr_enabled  # type: ignore[method-assign]


class _Statement(NamedTuple):
    """Statement and arguments for Spark."""

    text: str
    args: Any
    frames: Mapping[str, Any]


def _run(spark: Any, statement: _Statement) -> DataFrame:
    if not gateway.is_classic(spark):
        remote: DataFrame = spark.sql(statement.text, args=statement.args, **statement.frames)
        return remote
    return _sql(spark, statement.text, statement.args, **statement.frames)


def _run_borrowed(spark: Any, text: str, args: Any, frames: Mapping[str, Any]) -> DataFrame:
    """Run a statement in other formats' words, in Spark if the table is not ours.

    If Spark cannot parse it either, the error shows how to write it for our tables.
    """
    try:
        command = parse_command(text)
        if command is not None and is_ours(spark, command):
            return run_command(spark, command)
        refusal = None
    except QueryError as error:
        refusal = error
    with own_errors():
        try:
            return _run(spark, _Statement(text, args, frames))
        except ParseException:
            if refusal is not None:
                raise refusal from None
            if command is not None:
                return run_command(spark, command)
            raise


def _read(
    spark: Any, text: Any, args: Any, frames: Mapping[str, Any], until_analysed: contextlib.ExitStack
) -> _Statement:
    """Translate a statement for Spark.

    Text that cannot be split into words stays unchanged, for Spark to refuse.
    """
    asked = _Statement(text, args, frames)
    tokens = split_words(text) if isinstance(text, str) and _OWN_WORDS.search(text) else None
    if tokens is None:
        return asked
    parameters = Parameters(args, frames)
    calls = sorted([*find_calls(text, tokens, FUNCTIONS, parameters), *find_paths(text, tokens)], key=_start)
    _check_is_not_kept(text, tokens, calls)
    edits = operator_edits(text, tokens, is_template=bool(frames))
    _check_can_search(spark, text, tokens, edits)
    found = [make_frame(spark, call, text) for call in calls]
    if _is_enabled(spark):
        kept = [_kept(spark, frame, until_analysed) for frame in found]
        edits += [Edit(call.start, call.end, name) for call, name in zip(calls, kept, strict=True)]
        return _Statement(apply_edits(text, edits), parameters.left(), frames)
    made = {_free_name(number, frames): frame for number, frame in enumerate(found)}
    placed = [Edit(call.start, call.end, f"{{{name}}}") for name, call in zip(made, calls, strict=True)]
    rewritten = apply_edits(text, [*edits, *placed], doubles_braces=bool(calls) and not frames)
    return _Statement(rewritten, parameters.left(), {**frames, **made})


def _start(call: TableCall) -> int:
    return call.start


def _is_enabled(spark: Any) -> bool:
    return gateway.is_known(spark) and spark in gateway.enabled_sessions


def _kept(spark: Any, frame: DataFrame, until_analysed: contextlib.ExitStack) -> str:
    """Return the name of a frame in a statement, valid until Spark has analysed it.

    A classic session analyses a statement at once.
    """
    bridge, name = gateway.bridge(spark), SYSTEM_CLOCK.uuid()
    until_analysed.callback(bridge.dropFrame, name)
    return str(bridge.keepFrame(name, frame._jdf))


def _free_name(number: int, frames: Mapping[str, Any]) -> str:
    name = f"__indextables_{number}"
    while name in frames:
        name += "_"
    return name


def _check_is_not_kept(text: str, tokens: Sequence[Token], calls: Sequence[TableCall]) -> None:
    """Refuse a view or a cached query.

    Spark parses it again at each use, and the frame is gone then.
    """
    if calls and _keeps_text(tokens):
        raise QueryError(
            f"cannot keep `{calls[0].function}` in a view because it is a frame of this statement alone, "
            f"at {draw_place(text, calls[0].start)}",
            hint='make one of the frame, as in `indextables.sql(spark, "SELECT ...").createOrReplaceTempView("hits")`',
        )


def _keeps_text(tokens: Sequence[Token]) -> bool:
    words = [token.text.upper() for token in tokens[:6] if token.kind == "word"]
    starts = {"CREATE": ("VIEW", "FUNCTION"), "ALTER": ("VIEW",), "CACHE": ("TABLE",)}
    return any(kept in words for kept in starts.get(words[0] if words else "", ()))


def _check_can_search(spark: Any, text: str, tokens: Sequence[Token], edits: Sequence[Edit]) -> None:
    """Refuse a search in a session without search functions."""
    if _is_enabled(spark):
        return
    starts = [token.start for token in search_calls(tokens)] + [edit.start for edit in edits]
    if not starts:
        return
    if gateway.is_classic(spark):
        raise QueryError(
            f"cannot search in this session because it is not enabled, at {draw_place(text, min(starts))}",
            hint="call `indextables.enable(spark)` first",
        )
    raise QueryError(
        f"cannot search by an operator over Spark Connect, at {draw_place(text, min(starts))}",
        hint="`FROM indextables_table('path', search => '...')` searches there, and so does `indextables.read`",
    )


@functools.wraps(_sql)
def _sql_enabled(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803
    if self in gateway.enabled_sessions:
        return sql(self, sqlQuery, args, **kwargs)
    return _sql(self, sqlQuery, args, **kwargs)


@functools.wraps(_filter)
def _filter_enabled(self: ClassicDataFrame, condition: Any) -> DataFrame:
    if isinstance(condition, str) and self.sparkSession in gateway.enabled_sessions:
        condition = rewrite_condition(condition)
    return _filter(self, condition)


@functools.wraps(_select_expr)
def _select_expr_enabled(self: ClassicDataFrame, *expr: Any) -> DataFrame:
    if self.sparkSession in gateway.enabled_sessions:
        given = expr[0] if len(expr) == 1 and isinstance(expr[0], list) else expr
        expr = tuple(rewrite_condition(one) if isinstance(one, str) else one for one in given)
    selected: DataFrame = _select_expr(self, *expr)
    return selected
