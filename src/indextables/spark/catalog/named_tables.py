"""The IndexTables tables behind a name in a session, found in its plan.

A classic session exposes its plans. Spark Connect only exposes their text, which contains no location. There, a scan of
the relation runs in a clone of the session, and the scan reports its location in an error.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException

from indextables.clock import SYSTEM_CLOCK
from indextables.errors import QueryError
from indextables.spark.hadoop.paths import absolute
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import own_errors
from indextables.spark.options.source_options import NAME, SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOT_THERE = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")
# Outside of the prefix of our settings, because this key would be an unknown setting there.
_ASK = "spark.indextablesPlace.asked"
_TOLD = "the place of the table is "
_NODE = re.compile(r"^[\s:+-]*(\w+)")
_OURS = re.compile(rf"^[\s:+-]*RelationV2\[.*\] {NAME}$")
# Views cast their columns to the types of the time of their creation.
_CAST = re.compile(r"cast\((\S+)#\d+L? as (?:[^()]|\([^()]*\))*\) AS \1#\d+L?")
_NAMED_ANEW = re.compile(r" AS \S*#\d+L?\b")
_SELECTING_NODES = frozenset({"SubqueryAlias", "View", "Project", "Filter", "RelationV2"})


class NamedTables(NamedTuple):
    """The tables behind a name.

    `is_whole` is true if the name selects all rows of one table unchanged.
    """

    urls: list[str]
    is_whole: bool = False
    unclear: str | None = None
    """Reason why the tables are unknown; None if they are known."""


def named_tables(spark: Any, name: str) -> NamedTables | None:
    """Return the tables behind a table or view; None if the name does not exist."""
    if not gateway.is_classic(spark):
        return _told_by_scan(spark, name)
    frame = named_frame(spark, name)
    if frame is None:
        return None
    if not gateway.is_known(spark):
        return NamedTables([], unclear=f"Spark {spark.version} is not one whose plans are known")
    told = json.loads(gateway.bridge(spark).sources(frame._jdf, NAME))
    return NamedTables([absolute(place) for place in told["places"]], told["isWhole"])


def named_frame(spark: Any, name: str) -> DataFrame | None:
    """Return the DataFrame of a name, analysed; None if no such table or view exists."""
    try:
        with own_errors():
            frame: DataFrame = spark.table(name)
            frame.schema  # noqa: B018 - over Connect, only this sends the plan for analysis
            return frame
    except AnalysisException as error:
        if str(error.getCondition()).startswith(_NOT_THERE):
            return None
        raise


def tell_if_asked(asked: SourceOptions) -> None:
    """Raise an error with the location of a scan if the session asks for it.

    The session reads the location from the error, so the scan reads no row.
    """
    context = TaskContext.get()
    token = None if context is None else context.getLocalProperty(_ASK)
    if token:
        is_part = not (asked.search is None and asked.where is None and asked.limit is None)
        raise QueryError(f"{_TOLD}{token}{json.dumps({'url': asked.url, 'is_part': is_part})}{token}")


def _told_by_scan(spark: Any, name: str) -> NamedTables | None:
    with _copy_of(spark) as copy:
        copy.conf.set("spark.sql.debug.maxToStringFields", "100000")
        frame = named_frame(copy, name)
        if frame is None:
            return None
        lines = _analysed_plan(frame)
        leaves = [line for line in lines if _OURS.match(line)]
        if not leaves:
            return NamedTables([])
        nodes = {found[1] for line in lines if (found := _NODE.match(line)) is not None}
        if len(leaves) > 1 or not nodes <= _SELECTING_NODES:
            return NamedTables([], unclear="Spark Connect only shows the table of selections from one table")
        told = _ask(copy, frame)
    if told is None:
        return NamedTables([], unclear="none of its rows is read from a table")
    is_renamed = any(_NAMED_ANEW.search(_CAST.sub("", line)) for line in lines)
    is_whole = not told["is_part"] and not is_renamed and "Filter" not in nodes
    return NamedTables([told["url"]], is_whole)


def _analysed_plan(frame: DataFrame) -> list[str]:
    text: str = frame._explain_string(extended=True)  # type: ignore[operator]
    analysed = text.split("== Analyzed Logical Plan ==\n")[1].split("\n== ", maxsplit=1)[0]
    return analysed.splitlines()[1:]


def _ask(copy: Any, frame: DataFrame) -> Mapping[str, Any] | None:
    """Run the scan of a frame and return its report; None if no scan runs.

    No scan runs for a cached frame.
    """
    token = SYSTEM_CLOCK.uuid()
    copy.conf.set(_ASK, token)
    try:
        frame.limit(1).collect()
    except PySparkException as error:
        parts = str(error).split(token)
        if len(parts) < 3:
            raise
        told: Mapping[str, Any] = json.loads(parts[1])
        return told
    return None


@contextlib.contextmanager
def _copy_of(spark: Any) -> Iterator[Any]:
    """Yield a clone of a session, with its views and settings and no running queries."""
    copy = spark.cloneSession()
    try:
        yield copy
    finally:
        copy.client.release_session()
        copy.client.close()
