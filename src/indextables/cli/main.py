"""The `indextables` command: global options, logging, and error messages.

Exit codes: 0 only if everything was done and printed; 1 for a failure, with an `error:` line and, if known, a `hint:`;
2 for wrong usage; 130 after Ctrl-C. If the reader closes the pipe, the command ends silently with 1. Only `--verbose`
shows a traceback.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import IO, Any

import click
from click.shell_completion import CompletionItem

from indextables._version import __version__
from indextables.cli.options import read_pairs
from indextables.clock import SYSTEM_CLOCK
from indextables.errors import IndexTablesError
from indextables_start import ending_on_interrupt

_INTERRUPTED = 130
_logger = logging.getLogger("indextables.cli")

_EXAMPLES = """\b
Examples:
  indextables ingest /data/logs app.log --create
  indextables search /data/logs 'timeout AND NOT debug'
  indextables files /data/logs
  indextables -o aws.region=eu-central-1 history s3://bucket/logs --limit 5
  indextables demo
"""


def main() -> None:
    """Run the `indextables` script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path must be printed even if the locale lacks one of its characters.
        sys.stdout.reconfigure(errors="backslashreplace")
    cli(prog_name="indextables")


_COMMANDS = {
    "checkpoint": ("maintain", "Write a compacted checkpoint of a table."),
    "compact": ("maintain", "The same as checkpoint."),
    "count": ("search", "Count the rows that a query finds."),
    "create": ("create", "Create an empty table."),
    "demo": ("demo", "Fill a table with Spark and show its features."),
    "drop-partitions": ("maintain", "Remove partitions of a table."),
    "files": ("describe", "List the live files of a table."),
    "fsck": ("check", "Check that a table is complete and undamaged."),
    "history": ("describe", "Show who changed a table, when and how."),
    "ingest": ("ingest", "Add the rows of files to a table."),
    "log": ("describe", "Show the actions of a table's log."),
    "merge": ("maintain", "Merge many small splits into few large ones."),
    "prewarm": ("maintain", "Fetch indexes into the local cache."),
    "purge": ("maintain", "Delete files that no retained version needs."),
    "reindex": ("maintain", "Index splits again by the table's settings."),
    "repair": ("check", "Check a log against its splits, and write a clean one."),
    "restore": ("maintain", "Make an earlier version the newest."),
    "search": ("search", "Show the rows that a query finds."),
    "sql": ("sql", "Run a statement of SQL."),
    "state": ("describe", "Show the newest state of a table."),
    "truncate": ("maintain", "Delete all versions of a table but the newest."),
}
"""Module and one-line help of each command, which the group shows without an import."""


class _Commands(click.Group):
    """A group that imports a command on its call, and turns errors into exit codes."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.commands = {name: click.Command(name, short_help=text) for name, (_, text) in _COMMANDS.items()}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        with ending_on_interrupt():
            module = import_module(f"indextables.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [
            *(CompletionItem(name, help=text) for name, (_, text) in _COMMANDS.items() if name.startswith(incomplete)),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            from indextables.cli.output import print_note
            from indextables.location import redact

            secrets = _secrets(ctx.params["options"])
            if ctx.params["verbose"]:
                print_note(redact("".join(traceback.format_exception(error)), secrets).rstrip("\n"))
            _drop_unwritten()
            raise _failure(error, secrets) from error


def _drop_unwritten() -> None:
    """Drop output that cannot be written.

    Python would write it again at exit, and change the exit code.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Failure(click.ClickException):
    """A failure of a command."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        from indextables.cli.output import print_error

        print_error(self.message, self.hint)


def _secrets(options: Mapping[str, str]) -> list[str]:
    from indextables.config import Setting, lookup
    from indextables.config.resolve import PREFIX

    found = {value: lookup.find(key.lower().removeprefix(PREFIX)) for key, value in options.items()}
    return [value for value, setting in found.items() if isinstance(setting, Setting) and setting.secret]


def _failure(error: Exception, secrets: list[str]) -> _Failure:
    """Return an error as a message, without secrets.

    The errors of other libraries may quote secrets.
    """
    from indextables.location import redact

    if isinstance(error, IndexTablesError):
        return _Failure(error.message, error.hint)
    if isinstance(error, OSError):
        return _Failure(redact(str(error), secrets))
    return _Failure(
        redact(f"{type(error).__name__}: {error}", secrets),
        "this should not happen; run it again with `indextables --verbose` and report what it shows",
    )


def _versions() -> tuple[str, str]:
    import platform

    import pyarrow as pa

    return platform.python_version(), pa.__version__


class _StderrHandler(logging.Handler):
    """Handler that prints log lines to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        from indextables.cli.output import printable

        lines = self.format(record).split("\n")
        click.echo(f"{record.levelname.lower()}: " + "\n".join(printable(line) for line in lines), err=True)


def _log_to_stderr(level: int) -> Callable[[], None]:
    """Print the library's log lines from a level up.

    Returns a function that ends it.
    """
    logger = logging.getLogger("indextables")
    handler, level_before = _StderrHandler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(level)

    def end() -> None:
        logger.removeHandler(handler)
        logger.setLevel(level_before)

    return end


@click.group(cls=_Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="indextables")
@click.option("-v", "--verbose", is_flag=True, help="Log to standard error, and show where an error comes from.")
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    callback=read_pairs,
    help="An option of the table, such as a credential or a region. Can be given several times.",
)
@click.pass_context
def cli(ctx: click.Context, options: dict[str, str], verbose: bool) -> None:
    """Create, fill, search and maintain tables of searchable splits in object storage.

    TABLE is a path or a URL such as s3://bucket/logs.
    """
    ctx.obj = options
    ctx.call_on_close(_log_to_stderr(logging.DEBUG if verbose else logging.WARNING))
    started = SYSTEM_CLOCK.monotonic()
    if verbose:
        _logger.debug("indextables %s, Python %s, pyarrow %s", __version__, *_versions())
    ctx.call_on_close(lambda: _logger.debug("ended after %.0f ms", (SYSTEM_CLOCK.monotonic() - started) * 1000))
