"""The tables of this format behind the names of a session, by the relations in the plan of a name.

A classic session shows its plans. Spark Connect shows their text alone, which names no place: there the scan of the
relation is asked for it, in a copy of the session that nothing else runs in.
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
from indextables.spark import jvm
from indextables.spark.options import NAME, SourceOptions
from indextables.spark.places import absolute
from indextables.spark.worker_errors import own_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOT_THERE = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")
# Outside of the prefix of settings, among which it would be an unknown one.
_ASK = "spark.indextablesPlace.asked"
_TOLD = "the place of the table is "
_NODE = re.compile(r"^[\s:+-]*(\w+)")
_OURS = re.compile(rf"^[\s:+-]*RelationV2\[.*\] {NAME}$")
# Views cast their columns to the types that they were made with.
_CAST = re.compile(r"cast\((\S+)#\d+L? as (?:[^()]|\([^()]*\))*\) AS \1#\d+L?")
_NAMED_ANEW = re.compile(r" AS \S*#\d+L?\b")
_SELECTING_NODES = frozenset({"SubqueryAlias", "View", "Project", "Filter", "RelationV2"})


class NamedTables(NamedTuple):
    """The tables that the columns of a name come from. `is_whole` if it gives all rows of one as they are."""

    urls: list[str]
    is_whole: bool = False
    unclear: str | None = None
    """Why the tables are not known, where they are not."""


def named_tables(spark: Any, name: str) -> NamedTables | None:
    """The tables behind a table or view; None where there is no table or view of that name."""
    if not jvm.is_classic(spark):
        return _told_by_scan(spark, name)
    frame = named_frame(spark, name)
    if frame is None:
        return None
    if not jvm.is_known(spark):
        return NamedTables([], unclear=f"Spark {spark.version} is not one whose plans are known")
    told = json.loads(jvm.bridge(spark).sources(frame._jdf, NAME))
    return NamedTables([absolute(place) for place in told["places"]], told["isWhole"])


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


def tell_if_asked(asked: SourceOptions) -> None:
    """In a task: say which table a scan is of instead of reading it, where a session asks for that."""
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
            return NamedTables([], unclear="Spark Connect tells that of selections from one table alone")
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
    """What the scan of a frame says; None where nothing is scanned, as where it is cached."""
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
    """A session with the views and settings of another one, and nothing that runs in it."""
    copy = spark.cloneSession()
    try:
        yield copy
    finally:
        copy.client.release_session()
        copy.client.close()
