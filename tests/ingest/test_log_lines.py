"""Plain logs: the whole line is kept, and its moment and level are seen where they have a standard form."""

from __future__ import annotations

import datetime as dt
import time

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from indextables.errors import SchemaError
from indextables.ingest.input_files import InputFiles, InputOptions
from indextables.ingest.log_lines import LOG_SCHEMA, parse_line

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def entries(tmp_path, data: bytes, schema: pa.Schema = LOG_SCHEMA, **options) -> list[dict]:
    (tmp_path / "a.log").write_bytes(data)
    files = InputFiles([str(tmp_path / "a.log")], InputOptions(**options))
    return pa.Table.from_batches(files.batches(schema), schema).to_pylist()


@pytest.mark.parametrize(
    ("line", "moment", "level"),
    [
        ("2026-01-01T12:00:00.123456789Z INFO started", "2026-01-01T12:00:00.123456+00:00", "INFO"),
        ("2026-01-01 12:00:00,123 - root - ERROR - boom", "2026-01-01T12:00:00.123+00:00", "ERROR"),
        ("2026-01-01 12:00:00.5 [main] WARN  c.acme.App - x", "2026-01-01T12:00:00.5+00:00", "WARN"),
        ("[2026-01-01 12:00:00 +0100] [info] x", "2026-01-01T11:00:00+00:00", "INFO"),
        ("2026-01-01T12:00:00-05:30 level=warning msg=x", "2026-01-01T17:30:00+00:00", "WARNING"),
        ("2026/01/01 12:00:00 [error] 7#0: *1 open() failed", "2026-01-01T12:00:00+00:00", "ERROR"),
        ("Jan  5 12:00:00 host sshd[1]: x", "2026-01-05T12:00:00+00:00", None),
        ("Mar  2 11:00:00 host sshd[1]: x", "2026-03-02T11:00:00+00:00", None),
        ("Dec 31 23:59:59 host CRON[1]: x", "2025-12-31T23:59:59+00:00", None),
        ("<34>1 2003-10-11T22:14:15.003Z host su - - x", "2003-10-11T22:14:15.003+00:00", "CRIT"),
        ("<13>Jan  5 12:00:00 host app: x", "2026-01-05T12:00:00+00:00", "NOTICE"),
        ('::1 - frank [10/Oct/2000:13:55:36 -0700] "GET /ERROR HTTP/1.0" 200 1', "2000-10-10T20:55:36+00:00", None),
        ("ERROR:root:boom", None, "ERROR"),
        ("2026-02-30 12:00:00 INFO no such day", None, "INFO"),
        ("2026-01-01 12:00:00 an informational text of ERRORS", "2026-01-01T12:00:00+00:00", None),
        ("    at com.acme.App.main(App.java:1)", None, None),
        # Words in the middle of a sentence are no levels.
        ("2026-01-01 12:00:00 the user pressed the ERROR button", "2026-01-01T12:00:00+00:00", None),
        ("2026-01-01 12:00:00 status: ERROR was shown", "2026-01-01T12:00:00+00:00", None),
        ("2026-01-01 12:00:00 ERROR-prone code", "2026-01-01T12:00:00+00:00", None),
        ("2026-01-01 12:00:00 he set level=error in the file", "2026-01-01T12:00:00+00:00", None),
        ("nothing to see, no ERROR here", None, None),
        ("We saw [error] in the output", None, None),
        ("42 ERROR codes are known", None, None),
        ("Jan  5 12:00:00 host the WARNING sign is red", "2026-01-05T12:00:00+00:00", None),
        # Levels behind a thread, a logger, a process, or pairs.
        ("2026-01-01T12:00:00.000Z  INFO 1234 --- [main] c.a.App : x", "2026-01-01T12:00:00+00:00", "INFO"),
        ("2026-01-01 12:00:00,1 [pool-1-thread-2] [req 7] DEBUG a.B - x", "2026-01-01T12:00:00.1+00:00", "DEBUG"),
        ("2026-01-01T12:00:00+0100 host app[12]: ERROR x", "2026-01-01T11:00:00+00:00", "ERROR"),
        ("Jan  5 12:00:00 host kernel: WARNING: x", "2026-01-05T12:00:00+00:00", "WARNING"),
        ('time="12:00" caller=a.go:1 level=info msg="no ERROR"', None, "INFO"),
        ("[ERROR] Failed to execute goal", None, "ERROR"),
        ("[main] WARN x", None, "WARN"),
        # The year that stands there, and the zone.
        ("[Sat Nov 01 12:00:00.123456 2025] [core:error] [pid 1] x", "2025-11-01T12:00:00.123456+00:00", "ERROR"),
        ("Sat Nov  1 12:00:00 CET 2025 x", "2025-11-01T11:00:00+00:00", None),
        ("Nov  1 2024 12:00:00 host x: y", "2024-11-01T12:00:00+00:00", None),
        ("Nov  1 12:00:00 2024 host x: y", "2024-11-01T12:00:00+00:00", None),
        ("2026-01-01 12:00:00.5 EST [7] LOG: x", "2026-01-01T17:00:00.5+00:00", None),
        ("2026-01-01 12:00:00 CEST ERROR x", "2026-01-01T10:00:00+00:00", "ERROR"),
        ("2026-01-01 12:00:00+02 x", "2026-01-01T10:00:00+00:00", None),
        ("2026-01-01 12:00:00 GMT x", "2026-01-01T12:00:00+00:00", None),
        ("2026-01-01 12:00:00 -12 degrees", "2026-01-01T12:00:00+00:00", None),
        ("", None, None),
    ],
)
def test_standard_forms(line, moment, level) -> None:
    entry = parse_line(line, 3, NOW)
    assert (entry.line, entry.message, entry.level) == (3, line, level)
    if moment is not None:
        assert entry.moment is not None
        assert dt.datetime.fromisoformat(entry.moment).replace(
            tzinfo=dt.datetime.fromisoformat(entry.moment).tzinfo or dt.UTC
        ) == dt.datetime.fromisoformat(moment)


def _read(tmp_path, data: bytes) -> tuple[list[dict], InputFiles]:
    (tmp_path / "a.log").write_bytes(data)
    files = InputFiles([str(tmp_path / "a.log")], InputOptions())
    return pa.Table.from_batches(files.batches(LOG_SCHEMA), LOG_SCHEMA).to_pylist(), files


@pytest.mark.parametrize("zone", ["IST", "BST", "CST", "Europe/Berlin", "America/Argentina/Salta", "UTC+2"])
def test_a_moment_in_an_unknown_zone_is_null_and_counted(tmp_path, zone) -> None:
    lines = f"2026-01-01 12:00:00 {zone} INFO one\n2026-02-30 12:00:00 INFO two\n2026-01-01 12:00:00 INFO three\n"
    found, files = _read(tmp_path, lines.encode())
    moment = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    assert [(row["timestamp"], row["level"]) for row in found] == [(None, "INFO"), (None, "INFO"), (moment, "INFO")]
    assert files.log_counts.unread_moments == 2
    joined = InputFiles([str(tmp_path / "a.log")], InputOptions(join_lines=True))
    assert sum(batch.num_rows for batch in joined.batches(LOG_SCHEMA)) == 3


def test_what_is_lost_or_assumed_is_counted(tmp_path) -> None:
    found, files = _read(
        tmp_path, b"one\n\n  \t\ntwo \xff\xfe\nJan  5 12:00:00 host x\nJan  5 2020 12:00:00 host x\n\n"
    )
    counts = files.log_counts
    assert (counts.blank_lines, counts.escaped_lines, counts.assumed_years, counts.unread_moments) == (3, 1, 1, 0)
    assert [row["message"] for row in found][:2] == ["one", r"two \xff\xfe"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01\x00\x00\x00",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"PK\x03\x04\x14\x00\x08\x00",
        b"a line\n" + bytes(100),
        bytes(range(1, 32)) * 10,
    ],
)
def test_binary_files_are_refused(tmp_path, data) -> None:
    with pytest.raises(SchemaError, match="as a log because it is a binary file"):
        _read(tmp_path, data)


@pytest.mark.parametrize("data", [b"\x1b[31mred\x1b[0m\n", "größe 🎉\n".encode(), b"latin \xe9\xe8\n", b""])
def test_colours_and_other_letters_are_no_binary_files(tmp_path, data) -> None:
    assert len(_read(tmp_path, data)[0]) == data.count(b"\n")


@pytest.mark.parametrize("part", ["- ", "[", "[a] ", "a=1 ", "a - ", "1 ", '"', "x.y", "(", "<", "level="])
def test_the_time_for_a_line_does_not_grow_with_its_length(part) -> None:
    """A line that is almost a level at every place."""
    start = time.perf_counter()
    for head in ("", "2026-01-01 12:00:00 ", "Jan  5 12:00:00 "):
        parse_line(head + part * 20_000, 1, NOW)
    assert time.perf_counter() - start < 2


def test_a_line_is_a_row_and_nothing_is_lost(tmp_path) -> None:
    found = entries(tmp_path, b"2026-01-01 12:00:00 WARN \xff x\r\n\n  two\n2026-02-30 12:00:00 INFO y")
    file = str(tmp_path / "a.log")
    moment = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    assert found == [
        {"timestamp": moment, "level": "WARN", "file": file, "line": 1, "message": r"2026-01-01 12:00:00 WARN \xff x"},
        {"timestamp": None, "level": None, "file": file, "line": 3, "message": "  two"},
        {"timestamp": None, "level": "INFO", "file": file, "line": 4, "message": "2026-02-30 12:00:00 INFO y"},
    ]


def test_the_table_keeps_what_it_has_columns_for(tmp_path) -> None:
    schema = pa.schema([("message", pa.string()), ("timestamp", pa.timestamp("us")), ("other", pa.int64())])
    (found,) = entries(tmp_path, b"2026-01-01 12:00:00+01:00 x\n", schema)
    assert found["timestamp"] == dt.datetime(2026, 1, 1, 11)  # noqa: DTZ001 - the column has no zone
    assert found["other"] is None


def test_lines_that_belong_together_are_joined(tmp_path) -> None:
    boom = b"2026-01-01 12:00:00 ERROR boom\n  at a\n\nCaused by: b\n"
    data = b"  head\nno moment\n  more\n" + boom + b"2026-01-01 12:00:01 INFO ok\n"
    joined = entries(tmp_path, data, join_lines=True)
    assert [(entry["line"], entry["message"]) for entry in joined] == [
        (1, "  head"),
        (2, "no moment\n  more"),
        (4, "2026-01-01 12:00:00 ERROR boom\n  at a\nCaused by: b"),
        (8, "2026-01-01 12:00:01 INFO ok"),
    ]
    assert len(entries(tmp_path, data)) == 7


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), max_size=8), st.booleans())
def test_messages_are_the_lines_of_the_file(tmp_path_factory, lines, join) -> None:
    place = tmp_path_factory.mktemp("log")
    found = entries(place, "\n".join(lines).encode(), join_lines=join)
    written = [line for line in lines if line.encode() and not line.encode().isspace()]
    mark = "\ufeff" if written and lines[0].startswith("\ufeff") else ""
    assert mark + "\n".join(entry["message"] for entry in found) == "\n".join(written)
