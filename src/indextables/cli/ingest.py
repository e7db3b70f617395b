"""`indextables ingest`: add the rows of local files to a table, in one commit."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_scalar, to_table
from indextables.cli.create import with_columns
from indextables.cli.options import (
    column_indexing,
    columns_option,
    index_option,
    input_format_options,
    make_input_options,
    partition_option,
    property_option,
    text_columns,
)
from indextables.cli.output import (
    json_option,
    plural_text,
    print_json,
    print_line,
    print_note,
    print_warning,
    printable,
    progress,
    size_text,
)
from indextables.clock import SYSTEM_CLOCK
from indextables.errors import TableNotFoundError
from indextables.ingest.bad_lines import OnBadLine
from indextables.ingest.column_types import NamedColumn
from indextables.ingest.input_files import InputFiles
from indextables.ingest.input_source import STDIN
from indextables.log.files import exact_sum
from indextables.table import Table

if TYPE_CHECKING:
    from rich.progress import Progress

_THOUSAND = 1000
_INTERRUPT_WIDTH = 3
_NO_TEXT = (
    "no column is indexed as text: a search needs `column:value`. For single words, create the table with "
    "`--index COLUMN=text`"
)

_EXAMPLES = """\b
Examples:
  indextables ingest /data/logs app.log app.log.1.gz --create --join-lines
  indextables ingest /data/events events.jsonl --create --index message=text --partition-by day
  indextables ingest /data/sales *.csv --on-bad-line skip
  journalctl -o short-iso | indextables ingest /data/journal - --format log --create
"""


@click.command(epilog=_EXAMPLES, short_help="Add the rows of files to a table.")
@click.argument("url", metavar="TABLE")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@input_format_options
@click.option("--create", "create_new", is_flag=True, help="Create the table like the first file, if it is missing.")
@columns_option
@partition_option
@index_option
@property_option
@click.option(
    "--on-bad-line",
    type=click.Choice(list(map(str, OnBadLine))),
    default=str(OnBadLine.FAIL),
    show_default=True,
    help="On a bad line: fail, skip the line, or set values that do not fit to null.",
)
@click.option("--ignore-unknown", is_flag=True, help="Ignore columns that the table does not have.")
@click.option("--join-lines", is_flag=True, help="In logs, join lines of stack traces to the line before them.")
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    help="Processes that parse large files; 0 for none. Default: none, but for logs all cores but one, at most four.",
)
@click.option("--overwrite", is_flag=True, help="Replace all rows of the table.")
@json_option
@click.pass_obj
def ingest(
    options: dict[str, str],
    url: str,
    paths: tuple[str, ...],
    format_: str,
    delimiter: str | None,
    create_new: bool,
    columns: list[NamedColumn],
    partition_by: tuple[str, ...],
    indexing: dict[str, str],
    properties: dict[str, str],
    on_bad_line: str,
    ignore_unknown: bool,
    join_lines: bool,
    workers: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Add the rows of local files to TABLE, a path or a URL, in one commit.

    Either all rows are added or none.

    Files are CSV with a header, JSON lines, Parquet, or plain logs, optionally compressed by gzip, Zstandard or bzip2;
    `-` is standard input. Columns are matched by name and read as the table's types; a column that a file lacks is
    null.

    A log has a row a line: its text as `message`, with `file` and `line`, and with `timestamp` and `level` if the line
    starts with them. The table keeps those that it has a column for. Blank lines are skipped, and bytes that are not
    UTF-8 are escaped; the summary counts both. A binary file is refused.
    """
    if not create_new and (columns or partition_by or indexing or properties):
        raise click.UsageError("--column, --partition-by, --index and --property are for a new table: add --create.")
    _check_stdin(paths, format_)
    read = make_input_options(
        format_,
        delimiter,
        on_bad_line=on_bad_line,
        ignore_unknown=ignore_unknown,
        join_lines=join_lines,
        workers=workers,
    )
    started = SYSTEM_CLOCK.monotonic()
    files = InputFiles(paths, read)
    with contextlib.closing(files):
        table = _existing(url, options, create_new)
        is_new = table is None
        if table is None:
            guessed = with_columns(files.guess_schema(), columns)
            indexing = column_indexing(columns, {**files.guess_indexing(), **indexing})
            batches = _begun(files, guessed)
            table = Table.create(
                url, guessed, partition_by=partition_by, indexing=indexing, properties=properties, options=options
            )
        else:
            if columns or partition_by or indexing or properties:
                print_warning("the table exists already: --column, --partition-by, --index and --property do nothing")
            batches = files.batches(table.schema)
        with _told_if_empty(table, is_new=is_new), _watched(files, batches) as watched:
            version = table.overwrite(watched) if overwrite else table.append(watched)
    seconds = SYSTEM_CLOCK.monotonic() - started
    result = _result(table, version, files, seconds, is_new=is_new)
    if as_json:
        print_json(result)
    else:
        _print_text(result)
        if is_new and not text_columns(table):
            print_note(_NO_TEXT)


def _check_stdin(paths: tuple[str, ...], format_: str) -> None:
    if STDIN in paths and format_ == "auto":
        raise click.UsageError("name the --format of standard input.")
    if paths.count(STDIN) > 1:
        raise click.UsageError("standard input can be read only once.")


def _existing(url: str, options: dict[str, str], create_new: bool) -> Table | None:
    """Return the table, or None if it has to be created."""
    try:
        return Table.open(url, options=options)
    except TableNotFoundError as error:
        if create_new:
            return None
        raise TableNotFoundError(
            error.message, hint="create it with `--create`, or first with `indextables create`"
        ) from error


def _begun(files: InputFiles, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
    """Return the batches after reading the first, so that a failure creates no table."""
    batches = files.batches(schema)
    with progress(f"reading {files.current}"):
        first = next(batches, None)

    def all_of_them() -> Generator[pa.RecordBatch, None, None]:
        with contextlib.closing(batches):
            if first is not None:
                yield first
                yield from batches

    return all_of_them()


@contextlib.contextmanager
def _told_if_empty(table: Table, *, is_new: bool) -> Iterator[None]:
    """Warn that a new table exists without rows if its first write fails."""
    try:
        yield
    except BaseException:
        if is_new:
            print_warning(f"the table `{table.url}` exists, and is empty")
        raise


@contextlib.contextmanager
def _watched(files: InputFiles, batches: Generator[pa.RecordBatch, None, None]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the batches, with a progress bar on standard error if it is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    with contextlib.closing(batches):
        if not sys.stderr.isatty():
            yield batches
            return
        console = Console(stderr=True, emoji=False, highlight=False)
        # A `^C` after the bar must not wrap its line, or the bar could not be erased.
        console.width -= _INTERRUPT_WIDTH
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[rows]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        with bar:
            yield _moving(bar, files, batches)


def _moving(bar: Progress, files: InputFiles, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from rich.markup import escape

    started = SYSTEM_CLOCK.monotonic()
    task = bar.add_task(escape(printable(files.current)), total=files.num_bytes or None, rows="")
    for batch in batches:
        speed = _speed_text(files.num_rows, SYSTEM_CLOCK.monotonic() - started)
        bar.update(
            task,
            description=escape(printable(files.current)),
            completed=files.bytes_read,
            rows=f"{_bytes_text(files)}, {plural_text(files.num_rows, 'row')}, {speed}",
        )
        yield batch
    bar.update(task, description="writing the last splits", completed=files.num_bytes or files.bytes_read)


def _bytes_text(files: InputFiles) -> str:
    read = size_text(files.bytes_read)
    return read if files.num_bytes is None else f"{read} of {size_text(files.num_bytes)}"


def _result(table: Table, version: int, files: InputFiles, seconds: float, *, is_new: bool) -> pa.Table:
    added = table.files()
    added = added.filter(pc.equal(added["added_at_version"], to_scalar(version)))
    row: dict[str, Any] = {
        "table": table.url,
        "version": version,
        "created": is_new,
        "files": files.num_files,
        "rows": files.num_rows,
        "skipped_lines": files.bad.skipped,
        "nulled_values": files.bad.nulled,
        "blank_lines": files.log_counts.blank_lines,
        "escaped_lines": files.log_counts.escaped_lines,
        "assumed_years": files.log_counts.assumed_years,
        "unread_moments": files.log_counts.unread_moments,
        "splits": added.num_rows,
        "bytes": exact_sum(added["size"]),
        "seconds": round(seconds, 3),
    }
    return to_table([row])


_LOG_NOTES = {
    "blank_lines": "{} without text skipped",
    "escaped_lines": "{} held bytes that are not UTF-8, which are escaped, as in `\\xff`",
    "assumed_years": "{} had a date without a year, taken to be the last one before the file was written",
    "unread_moments": "{} had a date that does not exist, or a zone of unknown offset: `timestamp` is null there",
}


def _print_text(result: pa.Table) -> None:
    (row,) = result.to_pylist()
    if row["created"]:
        print_line(f"created {row['table']}")
    print_line(
        f"{plural_text(row['rows'], 'row')} from {plural_text(row['files'], 'file')} in "
        f"{_time_text(row['rows'], row['seconds'])} → version {row['version']}, "
        f"{plural_text(row['splits'], 'split')}, {size_text(row['bytes'])}"
    )
    if row["skipped_lines"]:
        print_warning(f"{plural_text(row['skipped_lines'], 'bad line')} skipped")
    if row["nulled_values"]:
        print_warning(f"{plural_text(row['nulled_values'], 'value')} did not fit, and became null")
    for count, text in _LOG_NOTES.items():
        if row[count]:
            print_warning(text.format(plural_text(row[count], "line")))


def _time_text(rows: int, seconds: float) -> str:
    """Return a time such as `40 ms` or, if long enough, `2.1 s (100k rows/s)`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s ({_speed_text(rows, seconds)})"


def _speed_text(rows: int, seconds: float) -> str:
    """Return a speed such as `100k rows/s`."""
    speed = rows / seconds if seconds > 0 else 0
    return f"{speed / _THOUSAND:.0f}k rows/s" if speed >= _THOUSAND else f"{speed:.0f} rows/s"
