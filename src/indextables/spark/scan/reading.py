"""`read`: a table or the hits of a search as a DataFrame, also over Connect.

The DataFrame reads one version. Each call is a separate load, and its options hold all its restrictions.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indextables.clock import SYSTEM_CLOCK
from indextables.errors import ConfigError
from indextables.location import parse_location
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import own_errors
from indextables.spark.options.session_settings import with_session
from indextables.spark.options.source_options import (
    LOAD_ID,
    NAME,
    SHOW_VERSION,
    SourceOptions,
    names_as_option,
    option_text,
)
from indextables.spark.scan.opening import open_frame
from indextables.spark.scan.planned_scan import VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def read(
    spark: Any,
    url: str | os.PathLike[str],
    *,
    search: str | None = None,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    score: bool = False,
    snippet: str | None = None,
    version: int | None = None,
    timestamp: str | datetime.datetime | int | None = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Find the rows that match a query and a predicate, as a Spark DataFrame.

    The rows are the same as of `Table.search`, in no order. Later commits are not visible.

    Args:
        spark: the session, classic or of Spark Connect.
        url: a path, or an address such as `s3://bucket/logs`.
        search: words and operators of the query language.
        where: a predicate in SQL.
        columns: the columns to return; all by default.
        limit: the most rows to return.
        score: add `_score`.
        snippet: a text column: add `_snippet`.
        version: the version to read; the newest by default.
        timestamp: a moment as ISO text, a datetime, or milliseconds since 1970.
        options: settings, which override the session's.

    Example:
        >>> it.read(spark, "logs", search="timeout", columns=["id"]).count()
        2
    """
    asked = {
        "search": search,
        "where": where,
        "columns": None if columns is None else names_as_option(_checked_names(columns)),
        "limit": limit,
        "score": "true" if score else None,
        "snippet": snippet,
        "versionAsOf": version,
        "timestampAsOf": None if timestamp is None else _moment(timestamp),
    }
    given = {name: str(value) for name, value in asked.items() if value is not None}
    settings = {key: option_text(value) for key, value in (options or {}).items() if value is not None}
    _check_once(given, settings)
    place = parse_location(os.fspath(url)).url
    loaded = with_session(spark, place, {**settings, **given, LOAD_ID: SYSTEM_CLOCK.uuid()})
    with own_errors():
        return _load(spark, place, loaded)


def _load(spark: Any, url: str, options: Mapping[str, str]) -> DataFrame:
    """Load a table at one version.

    A classic session fixes the version at once. Connect would resolve it at every use, so its version is read first.
    """
    if spark in gateway.enabled_sessions and gateway.is_known(spark):
        return open_frame(spark, SourceOptions.parse({**options, "path": url}))
    if _is_connect(spark):
        shown = spark.read.format(NAME).options(**options, **{SHOW_VERSION: "true"}).load(url).schema
        options = {key: value for key, value in options.items() if key.lower() != "timestampasof"}
        options["versionAsOf"] = str(shown.fields[0].metadata[VERSION])
    frame: DataFrame = spark.read.format(NAME).options(**options).load(url)
    return frame


def _is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _checked_names(columns: Sequence[str]) -> Sequence[str]:
    if isinstance(columns, str):
        raise ConfigError(f'cannot read the columns `{columns}`: give a list of names, as in `["{columns}"]`')
    return columns


def _moment(timestamp: str | datetime.datetime | int) -> str:
    if isinstance(timestamp, datetime.datetime):
        return timestamp.isoformat()
    if isinstance(timestamp, int):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return (epoch + datetime.timedelta(milliseconds=timestamp)).isoformat()
    return timestamp


def _check_once(given: Mapping[str, str], options: Mapping[str, str]) -> None:
    names = {name.lower() for name in given}
    doubled = next((key for key in options if key.lower() in names), None)
    if doubled is not None:
        raise ConfigError(f"cannot tell which `{doubled}` to use because it is an argument and an option")
