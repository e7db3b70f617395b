"""Plain log files: a line becomes a row, and `message` is the whole line.

A moment and a level are read where a line begins with them in a standard form: ISO 8601, as most loggers of Java and
Python write it, syslog, `ctime`, and access logs of web servers. A level stands at the beginning, or behind the moment
and fields such as a thread, a logger or a process; a word in the middle of a sentence is none. A moment without a zone
is in UTC, one without a year is the last before the file was written, and one in a zone of unknown offset is null.

What a file loses or what is assumed is counted: blank lines are left out, and bytes that are not UTF-8 are escaped. A
binary file is refused.
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
_LEVEL_WITHIN = 240
_HEAD_BYTES = 8 << 10
_MOST_CONTROLS = 0.1
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))

# Offsets of zone names that mean one thing everywhere. Other names, such as IST, stand for several zones.
_OFFSETS = {
    "Z": "Z", "UTC": "Z", "GMT": "Z", "WET": "Z", "WEST": "+01:00", "CET": "+01:00", "CEST": "+02:00",
    "EET": "+02:00", "EEST": "+03:00", "MSK": "+03:00", "JST": "+09:00", "KST": "+09:00",
    "EST": "-05:00", "EDT": "-04:00", "CDT": "-05:00", "MDT": "-06:00", "PST": "-08:00", "PDT": "-07:00",
}  # fmt: skip
_UNKNOWN_ZONES = (
    "AST|ADT|BST|CST|IST|MST|HST|AKST|AKDT|SGT|HKT|PHT|WIB|PKT|AEST|AEDT|ACST|ACDT|AWST|NZST|NZDT|SAST|EAT|WAT|CAT|BRT"
    "|ART|CLT|TRT|(?:UTC|GMT)[+-][\\d:]+|[A-Z][a-z]+(?:/[A-Z][A-Za-z_]+)+"
)
_UNREAD = "unread"
_ZONE = (
    r"(?:\s?(?P<offset>[+-]\d\d:?\d\d)(?![\w:])|(?P<hours>[+-]\d\d)(?![\w:])"
    rf"|\s?(?P<named>{'|'.join(_OFFSETS)})(?![\w/:+-])|\s?(?P<unknown>{_UNKNOWN_ZONES})(?![\w/:+-]))?"
)
_MOMENT = re.compile(
    r"(?:<(?P<priority>\d{1,3})>(?:1 )?)?[\[(]?"
    r"(?:(?P<day>\d{4}[-/]\d\d[-/]\d\d)[T ](?P<time>\d\d:\d\d:\d\d(?:[.,]\d+)?)"
    r"|(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?"
    r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?P<date>[ \d]\d),? (?:(?P<year>\d{4}),? )?"
    rf"(?P<clock>\d\d:\d\d:\d\d(?:[.,]\d+)?)){_ZONE}"
    r"(?: (?P<late_year>(?:19|20)\d\d)(?![\w:.-]))?"
)
_ACCESS = re.compile(
    r"\S+ \S+ .{1,200}?\[(?P<date>\d\d)/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4}):(?P<clock>\d\d:\d\d:\d\d)"
    r" (?P<zone>[+-]\d{4})\] \""
)
_WORDS = "TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|SEVERE|CRITICAL|CRIT|FATAL|ALERT|EMERG|PANIC"
_LEVEL_WORD = (
    rf"(?:(?P<word>{_WORDS})(?=$|[\s|:,;\])>]|-+(?:\s|$))"
    rf"|[\[<(](?:\w*:)?\s*(?P<bracketed>(?i:{_WORDS}))\s*[\])>]"
    r'|(?:[\w.]{1,40}=(?:"[^"]{0,120}"|[^\s"]{0,120})\s+){0,8}?'
    rf'(?:level|severity|lvl)="?(?P<named>(?i:{_WORDS}))\b)'
)
_BRACKETS = r"(?:\[[^\[\]]{0,80}\]|\([^()]{0,80}\))"
_NAME = r"[\w.$/@#*][\w.$/@#*+-]{0,79}(?=\s+[-|]+\s)"
_LEVEL_FIRST = re.compile(rf"(?:{_BRACKETS}\s*){{0,4}}?{_LEVEL_WORD}")
_LEVEL_BEHIND_MOMENT = re.compile(
    r"[\s\])>:,;|-]*(?:\S{1,100} [\w./()@-]{1,80}\[\d+\]:\s+)?"
    rf"(?:(?:{_BRACKETS}|<[^<>]{{0,80}}>|\d+|{_NAME})[\s:,;|-]+){{0,6}}?{_LEVEL_WORD}"
)
_LEVEL_IN_SYSLOG = re.compile(
    r"[\s\])>:,;|-]*(?:\S{1,100} [\w./()@-]{1,80}(?:\[\d+\])?:\s+)?"
    rf"(?:{_BRACKETS}[\s:,;|-]+){{0,4}}?{_LEVEL_WORD}"
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
    has_assumed_year: bool = False


class LogCounts:
    """What the log files of an ingest lost, and what was assumed about them."""

    def __init__(self) -> None:
        self.blank_lines = 0
        self.escaped_lines = 0
        self.assumed_years = 0
        self.unread_moments = 0


def read_log_lines(
    source: InputSource, schema: pa.Schema, counts: LogCounts, *, join_lines: bool, now: datetime.datetime
) -> Iterator[pa.RecordBatch]:
    """The entries of a source in batches of those log columns that the table has. A moment without a year is taken to
    be the last one before `now`."""
    if "message" not in schema.names:
        raise SchemaError(
            f"cannot read `{source.name}` as a log because the table has no column `message` for its lines",
            hint="let `--create` make a table for logs, or name another `--format`",
        )
    _refuse_binary(source)
    entries = _entries(source, counts, now)
    for batch in _batches(_joined(entries) if join_lines else entries):
        yield _batch(source, batch, schema, counts)


def parse_line(text: str, number: int, now: datetime.datetime) -> LogEntry:
    """What the beginning of a line says."""
    found = _MOMENT.match(text)
    if found is None:
        access = _ACCESS.match(text)
        if access is None:
            return LogEntry(number, text, None, _level(_LEVEL_FIRST, text))
        return LogEntry(number, text, _access_moment(access), None)
    pattern = _LEVEL_BEHIND_MOMENT if found["day"] else _LEVEL_IN_SYSLOG
    level = _level(pattern, text[found.end() : found.end() + _LEVEL_WITHIN])
    if level is None and found["priority"]:
        level = _SEVERITIES[int(found["priority"]) % _SEVERITY_BITS]
    has_assumed_year = not (found["day"] or found["year"] or found["late_year"])
    return LogEntry(number, text, _moment(found, now), level, has_assumed_year)


def _refuse_binary(source: InputSource) -> None:
    head = source.begins_with(_HEAD_BYTES)
    num_controls = len(head) - len(head.translate(None, _CONTROLS))
    if b"\0" in head or num_controls > len(head) * _MOST_CONTROLS:
        raise SchemaError(
            f"cannot read `{source.name}` as a log because it is a binary file",
            hint="name its own `--format`, or unpack it first; nothing was written",
        )


def _entries(source: InputSource, counts: LogCounts, now: datetime.datetime) -> Iterator[LogEntry]:
    for number, line in enumerate(source.lines(), 1):
        if not line or line.isspace():
            counts.blank_lines += 1
            continue
        try:
            text = line.decode()
        except UnicodeDecodeError:
            counts.escaped_lines += 1
            text = line.decode("utf-8", "backslashreplace")
        entry = parse_line(text, number, now)
        counts.assumed_years += entry.has_assumed_year
        yield entry


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


def _batch(source: InputSource, entries: list[LogEntry], schema: pa.Schema, counts: LogCounts) -> pa.RecordBatch:
    moments = _moments(entries)
    counts.unread_moments += moments.null_count - sum(entry.moment is None for entry in entries)
    columns: dict[str, pa.Array[Any]] = {
        "line": pa.array([entry.line for entry in entries], pa.int64()),
        "file": pa.array([source.name] * len(entries), pa.string()),
        "level": pa.array([entry.level for entry in entries], pa.string()),
        "message": pa.array([entry.message for entry in entries], pa.string()),
        "timestamp": moments,
    }
    return pa.RecordBatch.from_pydict(
        {name: _as(column, schema.field(name).type) for name, column in columns.items() if name in schema.names}
    )


def _moments(entries: Iterable[LogEntry]) -> pa.Array[Any]:
    """What looks like a moment and is none, as the 30th of February, is null; and so is one in an unknown zone."""
    texts = [None if entry.moment is _UNREAD else entry.moment for entry in entries]
    return from_text(pa.array(texts, pa.string()), pa.timestamp("us", tz="UTC")).column


def _as(column: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Moments as the table has them; everything else as it is."""
    return pc.cast(column, kind) if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(kind) else column


def _level(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.match(text[:_LEVEL_WITHIN])
    return None if found is None or found.lastgroup is None else found[found.lastgroup].upper()


def _moment(found: re.Match[str], now: datetime.datetime) -> str:
    if found["unknown"]:
        return _UNREAD
    zone = _zone(found)
    if found["day"]:
        return f"{found['day'].replace('/', '-')}T{found['time']}{zone}"
    day = f"{_MONTHS[found['month']]}-{found['date'].replace(' ', '0')}"
    if year := found["year"] or found["late_year"]:
        return f"{year}-{day}T{found['clock']}{zone}"
    this_year = f"{now.year:04d}-{day}T{found['clock']}"
    # A clock that is a little ahead must not move a line by a year.
    soon = (now + datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{this_year}{zone}" if this_year <= soon else f"{now.year - 1:04d}-{day}T{found['clock']}{zone}"


def _zone(found: re.Match[str]) -> str:
    """Offset of a moment; empty if it has no zone."""
    if found["hours"]:
        return f"{found['hours']}:00"
    return found["offset"] or _OFFSETS.get(found["named"], "")


def _access_moment(found: re.Match[str]) -> str | None:
    month = _MONTHS.get(found["month"])
    return None if month is None else f"{found['year']}-{month}-{found['date']}T{found['clock']}{found['zone']}"
