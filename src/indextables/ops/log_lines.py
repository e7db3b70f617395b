"""Plain log files: a line becomes a row, and nothing of it is lost, since `message` is the whole line.

A moment and a level are taken from the beginning of a line where it has a standard form: ISO 8601, as most loggers of
Java and Python write it, syslog, and access logs of web servers. A moment without a zone is in UTC. Blank lines are
passed over, and bytes that are not UTF-8 are shown escaped.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import SchemaError
from indextables.ops.input_source import InputSource
from indextables.ops.text_values import from_text

LOG_SCHEMA = pa.schema(
    [
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("message", pa.string()),
    ]
)

_MOST_ROWS = 65_536
_MOST_BYTES = 16 << 20
_MOST_ENTRY_BYTES = 1 << 20
_LEVEL_WITHIN = 80

_MOMENT = re.compile(
    r"(?:<(?P<priority>\d{1,3})>(?:1 )?)?[\[(]?"
    r"(?:(?P<day>\d{4}[-/]\d\d[-/]\d\d)[T ](?P<time>\d\d:\d\d:\d\d(?:[.,]\d+)?)(?:\s?(?P<zone>Z|[+-]\d\d:?\d\d)\b)?"
    r"|(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?P<date>[ \d]\d) (?P<clock>\d\d:\d\d:\d\d))"
)
_ACCESS = re.compile(
    r"\S+ \S+ .{1,200}?\[(?P<date>\d\d)/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4}):(?P<clock>\d\d:\d\d:\d\d)"
    r" (?P<zone>[+-]\d{4})\] \""
)
_WORDS = "TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|SEVERE|CRITICAL|CRIT|FATAL|ALERT|EMERG|PANIC"
_LEVEL = re.compile(
    rf"(?:^|[\s|:\[(<-])(?P<word>{_WORDS})(?=$|[\s|:,;\])>-])"
    rf"|[\[<(](?:\w*:)?(?P<bracketed>(?i:{_WORDS}))[\])>]"
    rf"|\b(?:level|severity|lvl)=\"?(?P<named>(?i:{_WORDS}))\b"
)
_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: f"{number:02d}" for number, name in enumerate(_MONTH_NAMES, 1)}
_SEVERITIES = ("EMERG", "ALERT", "CRIT", "ERR", "WARNING", "NOTICE", "INFO", "DEBUG")
_SEVERITY_BITS = 8


class LogEntry(NamedTuple):
    """A line, or several that belong together, with what its beginning says."""

    line: int
    message: str
    moment: str | None
    level: str | None


def read_log_lines(
    source: InputSource, schema: pa.Schema, *, join_lines: bool, now: datetime.datetime
) -> Iterator[pa.RecordBatch]:
    """The entries of a source in batches of those log columns that the table has. Moments of syslog have no year, and
    are taken to be the last ones before `now`."""
    if "message" not in schema.names:
        raise SchemaError(
            f"cannot read `{source.name}` as a log because the table has no column `message` for its lines",
            hint="let `--create` make a table for logs, or name another `--format`",
        )
    entries = _entries(source, now)
    for batch in _batches(_joined(entries) if join_lines else entries):
        yield _batch(source, batch, schema)


def parse_line(text: str, number: int, now: datetime.datetime) -> LogEntry:
    """What the beginning of a line says."""
    found = _MOMENT.match(text)
    if found is None:
        access = _ACCESS.match(text)
        if access is None:
            return LogEntry(number, text, None, _level(text))
        return LogEntry(number, text, _access_moment(access), None)
    level = _level(text[found.end() : found.end() + _LEVEL_WITHIN])
    if level is None and found["priority"]:
        level = _SEVERITIES[int(found["priority"]) % _SEVERITY_BITS]
    return LogEntry(number, text, _moment(found, now), level)


def _entries(source: InputSource, now: datetime.datetime) -> Iterator[LogEntry]:
    for number, line in enumerate(source.lines(), 1):
        if line and not line.isspace():
            yield parse_line(line.decode("utf-8", "backslashreplace"), number, now)


def _joined(entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
    """Entries with the lines that follow them: those that begin with space, and, after a moment, those without one."""
    first: LogEntry | None = None
    lines: list[str] = []
    size = 0
    for entry in entries:
        follows = entry.message[0].isspace() or (
            entry.moment is None and first is not None and first.moment is not None
        )
        if first is not None and follows and size < _MOST_ENTRY_BYTES:
            lines.append(entry.message)
            size += len(entry.message)
            continue
        if first is not None:
            yield first._replace(message="\n".join(lines))
        first, lines, size = entry, [entry.message], len(entry.message)
    if first is not None:
        yield first._replace(message="\n".join(lines))


def _batches(entries: Iterable[LogEntry]) -> Iterator[list[LogEntry]]:
    batch: list[LogEntry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.message)
        if len(batch) >= _MOST_ROWS or size >= _MOST_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _batch(source: InputSource, entries: list[LogEntry], schema: pa.Schema) -> pa.RecordBatch:
    columns: dict[str, pa.Array[Any]] = {
        "line": pa.array([entry.line for entry in entries], pa.int64()),
        "file": pa.array([source.name] * len(entries), pa.string()),
        "level": pa.array([entry.level for entry in entries], pa.string()),
        "message": pa.array([entry.message for entry in entries], pa.string()),
        "timestamp": _moments(entries),
    }
    return pa.RecordBatch.from_pydict(
        {name: _as(column, schema.field(name).type) for name, column in columns.items() if name in schema.names}
    )


def _moments(entries: Iterable[LogEntry]) -> pa.Array[Any]:
    """What looks like a moment and is none, as the 30th of February, is null."""
    return from_text(pa.array([entry.moment for entry in entries], pa.string()), pa.timestamp("us", tz="UTC")).column


def _as(column: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Moments as the table has them; everything else as it is."""
    return pc.cast(column, kind) if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(kind) else column


def _level(text: str) -> str | None:
    found = _LEVEL.search(text[:_LEVEL_WITHIN])
    return None if found is None or found.lastgroup is None else found[found.lastgroup].upper()


def _moment(found: re.Match[str], now: datetime.datetime) -> str:
    if found["day"]:
        return f"{found['day'].replace('/', '-')}T{found['time']}{found['zone'] or ''}"
    day = f"{_MONTHS[found['month']]}-{found['date'].replace(' ', '0')}"
    this_year = f"{now.year:04d}-{day}T{found['clock']}"
    # A clock that is a little ahead must not move a line by a year.
    soon = (now + datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
    return this_year if this_year <= soon else f"{now.year - 1:04d}-{day}T{found['clock']}"


def _access_moment(found: re.Match[str]) -> str | None:
    month = _MONTHS.get(found["month"])
    return None if month is None else f"{found['year']}-{month}-{found['date']}T{found['clock']}{found['zone']}"
