"""`VACUUM`, `OPTIMIZE` and `DESCRIBE HISTORY` are read as the commands of ours that do the same."""

from __future__ import annotations

import pytest

from indextables.commands import is_borrowed, parse_command
from indextables.errors import QueryError


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("VACUUM '/data/logs'", "PURGE INDEXTABLES '/data/logs'"),
        ("vacuum logs RETAIN 168 HOURS DRY RUN", "PURGE INDEXTABLES logs OLDER THAN 168 HOURS DRY RUN"),
        ("VACUUM indextables.`/data/logs`", "PURGE INDEXTABLES '/data/logs'"),
        ("OPTIMIZE logs;", "MERGE SPLITS logs"),
        ("OPTIMIZE a.b WHERE day = '2026-01-01'", "MERGE SPLITS a.b WHERE day = '2026-01-01'"),
        ("DESCRIBE HISTORY logs LIMIT 3", "DESCRIBE INDEXTABLES HISTORY logs LIMIT 3"),
        ("desc history '/data/logs'", "DESCRIBE INDEXTABLES HISTORY '/data/logs'"),
    ],
)
def test_words_of_other_formats(theirs, ours) -> None:
    assert is_borrowed(theirs)
    assert not is_borrowed(ours)
    read, expected = parse_command(theirs), parse_command(ours)
    assert read is not None
    assert expected is not None
    assert (read.name, read.arguments) == (expected.name, expected.arguments)
    assert (read.target.text, read.target.is_path) == (expected.target.text, expected.target.is_path)


@pytest.mark.parametrize("text", ["DESCRIBE history", "DESCRIBE TABLE history", "OPTIMIZE", "VACUUM;", "SELECT vacuum"])
def test_statements_that_are_not_borrowed(text) -> None:
    assert not is_borrowed(text)
    assert parse_command(text) is None


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        ("OPTIMIZE logs ZORDER BY (id)", "MERGE SPLITS"),
        ("VACUUM logs LITE", "PURGE INDEXTABLES"),
        ("DESCRIBE HISTORY logs LIMIT x", "DESCRIBE INDEXTABLES HISTORY"),
    ],
)
def test_what_to_write_instead(text, usage) -> None:
    with pytest.raises(QueryError) as raised:
        parse_command(text)
    assert f"it is written `{usage}" in str(raised.value.hint) or f"It is written `{usage}" in str(raised.value.hint)
