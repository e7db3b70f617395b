"""The `indextables` command: global options, logging, and how failures look.

Exit codes: 0 only where everything was done and printed; 1 for a failure, told in an `error:` line with a `hint:` where
there is one; 2 for wrong usage; 130 after Ctrl-C. A reader that closes the pipe ends the command silently, with 1. A
traceback is shown with `--verbose` only.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import platform
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import IO, Any

import click
import pyarrow as pa

from indextables._version import __version__
from indextables.cli.checkpoint import checkpoint, compact
from indextables.cli.count import count
from indextables.cli.create import create
from indextables.cli.demo import demo
from indextables.cli.drop_partitions import drop_partitions
from indextables.cli.files import files
from indextables.cli.fsck import fsck
from indextables.cli.history import history
from indextables.cli.ingest import ingest
from indextables.cli.log import log
from indextables.cli.merge import merge
from indextables.cli.options import read_pairs
from indextables.cli.output import print_error, print_note, printable
from indextables.cli.purge import purge
from indextables.cli.reindex import reindex
from indextables.cli.repair import repair
from indextables.cli.restore import restore
from indextables.cli.search import search
from indextables.cli.sql import sql
from indextables.cli.state import state
from indextables.cli.truncate import truncate
from indextables.clock import SYSTEM_CLOCK
from indextables.config import Setting, lookup
from indextables.config.resolve import PREFIX
from indextables.errors import IndexTablesError
from indextables.store.redact import redact

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
    """The entry point of the `indextables` script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A locale without a character of a path must not keep the path from being shown.
        sys.stdout.reconfigure(errors="backslashreplace")
    cli(prog_name="indextables")


class _Commands(click.Group):
    """A group that turns what goes wrong in a command into an exit code and a message."""

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
            secrets = _secrets(ctx.params["options"])
            if ctx.params["verbose"]:
                print_note(redact("".join(traceback.format_exception(error)), secrets).rstrip("\n"))
            _drop_unwritten()
            raise _failure(error, secrets) from error


def _drop_unwritten() -> None:
    """Let go of output that cannot be written: Python would try again at its end, and exit with a code of its own."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Failure(click.ClickException):
    """A command that did not work."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        print_error(self.message, self.hint)


def _secrets(options: Mapping[str, str]) -> list[str]:
    found = {value: lookup.find(key.lower().removeprefix(PREFIX)) for key, value in options.items()}
    return [value for value, setting in found.items() if isinstance(setting, Setting) and setting.secret]


def _failure(error: Exception, secrets: list[str]) -> _Failure:
    """What went wrong in words. Errors that are not ours may quote a secret."""
    if isinstance(error, IndexTablesError):
        return _Failure(error.message, error.hint)
    if isinstance(error, OSError):
        return _Failure(redact(str(error), secrets))
    return _Failure(
        redact(f"{type(error).__name__}: {error}", secrets),
        "this should not happen; run it again with `indextables --verbose` and report what it shows",
    )


class _StderrHandler(logging.Handler):
    """Log lines for people, beside the errors."""

    def emit(self, record: logging.LogRecord) -> None:
        lines = self.format(record).split("\n")
        click.echo(f"{record.levelname.lower()}: " + "\n".join(printable(line) for line in lines), err=True)


def _log_to_stderr(level: int) -> Callable[[], None]:
    """Show the library's log lines from a level on. Answers with the way to end it."""
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
    """Make, fill, search and look after tables of searchable splits in object storage.

    TABLE is a path or a URL such as s3://bucket/logs.
    """
    ctx.obj = options
    ctx.call_on_close(_log_to_stderr(logging.DEBUG if verbose else logging.WARNING))
    started = SYSTEM_CLOCK.monotonic()
    _logger.debug("indextables %s, Python %s, pyarrow %s", __version__, platform.python_version(), pa.__version__)
    ctx.call_on_close(lambda: _logger.debug("ended after %.0f ms", (SYSTEM_CLOCK.monotonic() - started) * 1000))


for _command in (
    demo,
    create,
    ingest,
    search,
    count,
    files,
    history,
    log,
    state,
    checkpoint,
    compact,
    merge,
    reindex,
    drop_partitions,
    restore,
    fsck,
    repair,
    purge,
    truncate,
    sql,
):
    cli.add_command(_command)
