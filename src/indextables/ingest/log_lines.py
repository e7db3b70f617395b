"""Read plain log files: each line becomes a row, and `message` is the whole line.

Time and level are read if a line begins with them in a standard form: ISO 8601, as in most Java and Python loggers,
syslog, `ctime`, and access logs of web servers. The level is at the beginning, or behind the time and fields such as a
thread, a logger or a process; a word inside a sentence is not a level. A time without a zone is UTC. A time without a
year is the last such time before the file was written. A time in a zone of unknown offset is null.

Losses and assumptions are counted: blank lines are left out, and bytes that are not UTF-8 are escaped. A binary file is
refused.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.errors import SchemaError
from indextables.ingest.bad_lines import BadLines, LogCounts
from indextables.ingest.input_source import Block, InputSource
from indextables.ingest.text_values import from_text

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
_LINES_LOOKED_AT = 1_000
_HEAD_BYTES = 8 << 10
_MOST_CONTROLS = 0.1
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))

# Offsets of zone names with one meaning everywhere. Other names, such as IST, are used for several zones.
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
    """A line, or several joined lines, with its time and level."""

    line: int
    message: str
    moment: str | None
    level: str | None
    has_assumed_year: bool = False


class LogParser(NamedTuple):
    """Parser of log lines into batches of the table's log columns.

    A time without a year is the last such time before `now`.
    """

    source: str
    schema: pa.Schema
    now: datetime.datetime
    join_lines: bool = False

    @property
    def is_slow(self) -> bool:
        return True

    def batches(self, block: Block, bad: BadLines, counts: LogCounts) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a block."""
        return self.entries([block], counts)

    def entries(self, blocks: Iterable[Block], counts: LogCounts) -> Iterator[pa.RecordBatch]:
        """Yield the entries of blocks that follow each other."""
        entries = _entries(blocks, counts, self.now)
        for batch in _batches(_joined(entries) if self.join_lines else entries):
            yield _batch(self.source, batch, self.schema, counts)


def open_log(
    source: InputSource, schema: pa.Schema, *, join_lines: bool, now: datetime.datetime
) -> tuple[LogParser, Iterator[Block]]:
    """Check source and table; return the parser of the lines, and the lines in blocks."""
    if "message" not in schema.names:
        raise SchemaError(
            f"cannot read `{source.name}` as a log because the table has no column `message` for its lines",
            hint="let `--create` make a table for logs, or name another `--format`",
        )
    _refuse_binary(source)
    return LogParser(source.name, schema, now, join_lines), source.blocks()


class EntryBlocks:
    """Blocks that end where an entry of several lines ends for certain.

    They end early if that is unknown for a whole block; `rest` are the blocks that are left.
    """

    def __init__(self, blocks: Iterator[Block], now: datetime.datetime) -> None:
        self._blocks = blocks
        self._now = now
        self.rest: Iterator[Block] = iter(())

    def __iter__(self) -> Iterator[Block]:
        held = b""
        for block in self._blocks:
            data = held + block.data
            first_line = block.first_line - held.count(b"\n")
            end = _last_beginning(data, self._now)
            if not end:
                self.rest = itertools.chain([Block(data, first_line)], self._blocks)
                return
            yield Block(data[:end], first_line)
            held = data[end:]
            last = first_line + data.count(b"\n", 0, end)
        if held:
            yield Block(held, last)


def _last_beginning(data: bytes, now: datetime.datetime) -> int:
    """Return the start of the last line that begins with a time; 0 if unknown."""
    end = len(data)
    for _ in range(_LINES_LOOKED_AT):
        start = data.rfind(b"\n", 0, max(0, end - 1)) + 1
        if start == 0:
            return 0
        text = data[start:end].rstrip(b"\r\n").decode("utf-8", "backslashreplace")
        if text and not text[0].isspace() and parse_line(text, 0, now).moment is not None:
            return start
        end = start
    return 0


def parse_line(text: str, number: int, now: datetime.datetime) -> LogEntry:
    """Parse time and level at the beginning of a line."""
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


def _entries(blocks: Iterable[Block], counts: LogCounts, now: datetime.datetime) -> Iterator[LogEntry]:
    for number, line in itertools.chain.from_iterable(block.lines() for block in blocks):
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
    """Join entries with their continuation lines.

    A line continues an entry if it begins with space, or if it has no time and the entry has one.
    """
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


def _batch(source: str, entries: list[LogEntry], schema: pa.Schema, counts: LogCounts) -> pa.RecordBatch:
    moments = _moments(entries)
    counts.unread_moments += moments.null_count - sum(entry.moment is None for entry in entries)
    columns: dict[str, pa.Array[Any]] = {
        "line": to_array([entry.line for entry in entries], pa.int64()),
        "file": to_array([source] * len(entries), pa.string()),
        "level": to_array([entry.level for entry in entries], pa.string()),
        "message": to_array([entry.message for entry in entries], pa.string()),
        "timestamp": moments,
    }
    return pa.RecordBatch.from_pydict(
        {name: _as(column, schema.field(name).type) for name, column in columns.items() if name in schema.names}
    )


def _moments(entries: Iterable[LogEntry]) -> pa.Array[Any]:
    """Convert times; impossible dates and unknown zones become null."""
    texts = [None if entry.moment is _UNREAD else entry.moment for entry in entries]
    return from_text(to_array(texts, pa.string()), pa.timestamp("us", tz="UTC")).column


def _as(column: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Cast times to the table's type; return other columns unchanged."""
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
    # A clock that is slightly ahead must not move a line by a year.
    soon = (now + datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{this_year}{zone}" if this_year <= soon else f"{now.year - 1:04d}-{day}T{found['clock']}{zone}"


def _zone(found: re.Match[str]) -> str:
    """Return the offset of a time; empty if it has no zone."""
    if found["hours"]:
        return f"{found['hours']}:00"
    return found["offset"] or _OFFSETS.get(found["named"], "")


def _access_moment(found: re.Match[str]) -> str | None:
    month = _MONTHS.get(found["month"])
    return None if month is None else f"{found['year']}-{month}-{found['date']}T{found['clock']}{found['zone']}"
