"""`indextables purge`."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

import indextables as it
from indextables.maintain.workers import InlineWorkers, working_with
from indextables.store.local.disk import Disk

OLD = (1_000_000_000, 1_000_000_000)


@pytest.fixture
def purgeable(url) -> str:
    """A table whose files are old, with a split that was replaced and one that was never committed."""
    for name in ("a.split", "b.split", "c.split", "orphan.split"):
        Path(url, name).write_bytes(b"x" * 500_000)
    for path in Path(url).rglob("*"):
        if path.is_file():
            os.utime(path, OLD)
    return url


def splits(url: str) -> set[str]:
    return {path.name for path in Path(url).glob("*.split")}


def test_people_see_what_was_deleted(invoke, purgeable):
    result = invoke("purge", purgeable, "--older-than", "7 days", "--log-retention", "30 days")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [[part.strip() for part in line.split("  ", 1)] for line in result.stdout.splitlines()]
    assert lines[:6] == [
        ["table", purgeable],
        ["status", "SUCCESS"],
        ["splits found", "2"],
        ["splits deleted", "2"],
        ["size", "1.00 MB"],
        ["retention", "168 hours"],
    ]
    assert [title for title, _ in lines[6:]] == [
        "versions",
        "states found",
        "states deleted",
        "manifests",
        "time",
        "message",
    ]
    assert splits(purgeable) == {"b.split", "c.split"}


def test_json_is_the_row_of_the_command(invoke, purgeable):
    result = invoke("purge", purgeable, "--dry-run", "--json")
    (row,) = map(json.loads, result.stdout.splitlines())
    expected = it.Table.open(purgeable).purge(dry_run=True).to_pylist()[0]
    assert {**row, "duration_ms": 0} == {**expected, "duration_ms": 0}
    assert (row["status"], row["orphaned_files_found"], row["dry_run"]) == ("DRY_RUN", 2, True)
    assert len(splits(purgeable)) == 4


@pytest.mark.parametrize("option", ["--older-than", "--log-retention"])
@pytest.mark.parametrize("age", ["soon", "-3 days", "1.5 hours"])
def test_a_wrong_age_is_an_error(invoke, purgeable, option, age):
    result = invoke("purge", purgeable, option, age)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"error: cannot purge because `{age}` is not an age" in result.stderr
    assert "hint: as in `7 days`" in result.stderr
    assert len(splits(purgeable)) == 4


def test_a_short_retention_is_refused_and_allowed_by_a_setting(invoke, purgeable):
    result = invoke("purge", purgeable, "--older-than", "1 hours")
    assert result.exit_code == 1
    assert "the shortest retention is 24 hours" in result.stderr
    assert "purge.retentionCheckEnabled" in result.stderr
    result = invoke("-o", "purge.retentionCheckEnabled=false", "purge", purgeable, "--older-than", "1 hours")
    assert result.exit_code == 0


def test_what_could_not_be_deleted_ends_in_a_failure(invoke, purgeable, monkeypatch):
    unlink = Disk.unlink

    def refuse(disk: Disk, path: str) -> None:
        if path.endswith("orphan.split"):
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(disk, path)

    monkeypatch.setattr(Disk, "unlink", refuse)
    with working_with(InlineWorkers()):
        result = invoke("-o", "purge.deleteRetries=0", "purge", purgeable)
    assert result.exit_code == 1
    assert "PARTIAL" in result.stdout
    assert "1 data files could not be deleted: cannot delete `orphan.split`: Permission denied" in result.stdout
    assert splits(purgeable) == {"b.split", "c.split", "orphan.split"}


def test_a_table_that_is_not_there_is_an_error(invoke, tmp_path):
    result = invoke("purge", tmp_path / "nowhere")
    assert result.exit_code == 1
    assert "error: No transaction log found" in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_the_help_has_examples(invoke):
    text = " ".join(invoke("purge", "--help").stdout.split())
    assert "indextables purge /data/logs --dry-run" in text
    assert "are not readable afterwards" in text
