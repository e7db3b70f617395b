"""`indextables sql`: run commands of SQL without Spark, and other SQL with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import click
import pyarrow as pa

from indextables.cli.output import (
    Column,
    Row,
    json_option,
    print_fields,
    print_json,
    print_line,
    print_table,
    progress,
    value_text,
)
from indextables.commands import COMMANDS, parse_command
from indextables.config.resolve import PREFIX
from indextables.errors import ConfigError, QueryError

_EXAMPLES = """\b
Examples:
  indextables sql "DESCRIBE INDEXTABLES STATE '/data/logs'"
  indextables sql "CHECKPOINT INDEXTABLES 's3://bucket/logs'" --json
  indextables sql "SELECT count(*) FROM parquet.`/data/users`"
"""


@click.command(epilog=_EXAMPLES, short_help="Run a statement of SQL.")
@click.argument("statement")
@json_option
@click.pass_obj
def sql(options: dict[str, str], statement: str, as_json: bool) -> None:
    """Run STATEMENT and print its answer.

    A command on tables named by their paths, or on no table, runs without Spark. Any other statement starts its own
    Spark session; -o sets options for it.
    """
    command = parse_command(statement)
    if command is None or (command.target is not None and not command.target.is_path):
        with progress("running Spark"):
            rows = _run_in_spark(statement, options)
        _print_rows(rows, as_json=as_json)
        return
    url = None if command.target is None else command.target.text
    with progress("working"):
        answer = COMMANDS[command.name].run(url, command.arguments, options)
    if answer.num_rows == 1 and not as_json:
        print_fields(answer, [_column(name) for name in answer.column_names])
    else:
        _print_rows(answer if as_json else _without_empty_columns(answer), as_json=as_json)


def _run_in_spark(statement: str, options: Mapping[str, str]) -> pa.Table:
    try:
        import pyspark  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(
            "cannot run the statement because `pyspark` is not installed",
            hint="install it with `pip install 'indextables[spark]'`; a command on a path in quotes needs no Spark",
        ) from error
    from pyspark.errors import PySparkException

    from indextables.spark import session
    from indextables.spark.statements.run import sql as run

    settings = {key if key.lower().startswith(PREFIX) else f"{PREFIX}{key}": value for key, value in options.items()}
    spark = session(config=settings, progress=False)
    try:
        answer: pa.Table = run(spark, statement).toArrow()
    except PySparkException as error:
        raise QueryError(f"cannot run the statement: {str(error).strip()}") from error
    doubled = [name for name, count in Counter(answer.column_names).items() if count > 1]
    if doubled:
        raise QueryError(
            f"cannot print the answer because several of its columns are called `{doubled[0]}`",
            hint="give each a name of its own with `AS`",
        )
    return answer


def _print_rows(answer: pa.Table, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    elif answer.num_columns:
        print_table(answer, [_column(name) for name in answer.column_names])
    else:
        print_line("done")


def _column(name: str) -> Column:
    def text(row: Row) -> str:
        return value_text(row[name])

    return Column(name, text, fold=True)


def _without_empty_columns(answer: pa.Table) -> pa.Table:
    """Drop empty columns: most columns of a log belong to one kind of action."""
    filled = [name for name in answer.column_names if answer[name].null_count < answer.num_rows]
    return answer.select(filled) if answer.num_rows else answer
