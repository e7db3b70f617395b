"""Commands of SQL, run for a Spark session.

The name of a view or table means the table that its plan reads. The calling process runs the command with the settings
of its session, on Spark Connect too, so the process must be able to reach the table. The session's workers run the
distributed part. The answer is small, and becomes a DataFrame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException

from indextables.commands import COMMANDS, Command, Target
from indextables.errors import QueryError, TableNotFoundError
from indextables.location import redact
from indextables.maintain.workers import working_with
from indextables.predicate.source import show_place
from indextables.spark.catalog.cached_tables import table_changed
from indextables.spark.catalog.named_tables import named_tables
from indextables.spark.options.arrow_types import to_spark_schema
from indextables.spark.options.session_settings import with_session
from indextables.spark.scan.planned_scan import open_log
from indextables.spark.workers import SparkWorkers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_CHANGING_ROWS = ("drop_partitions", "restore")


def run_command(spark: Any, command: Command) -> DataFrame:
    """Run a command and return its answer as a DataFrame."""
    spec = COMMANDS[command.name]
    url = None if command.target is None else _url(spark, command, command.target)
    with working_with(SparkWorkers(spark)):
        answer = spec.run(url, command.arguments, with_session(spark, url, {}))
    if url is not None and command.name in _CHANGING_ROWS:
        table_changed(spark, url)
    if command.name == "invalidate_cache":
        open_log.cache_clear()
    # Connect infers no columns without rows.
    frame: DataFrame = spark.createDataFrame(answer, to_spark_schema(answer.schema))
    return frame


def is_ours(spark: Any, command: Command) -> bool:
    """Return whether the table of a command is, or may be, a table of this format."""
    target = command.target
    if target is None:
        return False
    try:
        if target.is_path:
            open_log(target.text, tuple(sorted(with_session(spark, target.text, {}).items()))).reader.head()
            return True
        named = named_tables(spark, target.text)
    except (TableNotFoundError, AnalysisException):
        return False
    return named is not None and (bool(named.urls) or named.unclear is not None)


def _url(spark: Any, command: Command, target: Target) -> str:
    if target.is_path:
        return target.text
    deed, place = COMMANDS[command.name].deed, redact(show_place(command.text, target.place))
    try:
        named = named_tables(spark, target.text)
    except ParseException as error:
        raise QueryError(
            f"cannot {deed} because `{target.text}` is not the name of a table, at {place}", hint="put a path in quotes"
        ) from error
    if named is None:
        raise TableNotFoundError(
            f"cannot {deed} because there is no table or view `{target.text}`, at {place}",
            hint="put a path in quotes, as in `'s3://bucket/logs'`",
        )
    urls = named.urls
    if named.unclear is not None:
        raise QueryError(
            f"cannot {deed} because the table behind `{target.text}` is unknown: {named.unclear}, at {place}",
            hint="give the path of the table in quotes",
        )
    if not urls:
        raise QueryError(
            f"cannot {deed} because `{target.text}` is not a table of this format, at {place}",
            hint="name the table itself, or its path in quotes",
        )
    if len(urls) > 1:
        raise QueryError(
            f"cannot {deed} because `{target.text}` has columns of several tables "
            f"({', '.join(f'`{url}`' for url in urls)}), at {place}",
            hint="give the path of one of them in quotes",
        )
    return urls[0]
