"""`indextables truncate`."""

from __future__ import annotations

import json
import os

import indextables as it


def test_people_see_what_was_deleted(invoke, url):
    result = invoke("truncate", url)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [[part.strip() for part in line.split("  ", 1)] for line in result.stdout.splitlines()] == [
        ["table", url],
        ["status", "SUCCESS"],
        ["checkpoint", "4"],
        ["versions", "4"],
        ["checkpoints", "0"],
        ["files kept", "3"],
        ["message", "deleted 4 versions and 0 states and checkpoints before version 4"],
    ]
    assert it.TransactionLog(url).versions() == [4]
    assert it.Table.open(url).num_files == 3


def test_json_is_the_row_of_the_command(invoke, url):
    (row,) = map(json.loads, invoke("truncate", url, "--dry-run", "--json").stdout.splitlines())
    assert row == it.Table.open(url).truncate_time_travel(dry_run=True).to_pylist()[0]
    assert (row["status"], row["versions_deleted"]) == ("DRY_RUN", 4)
    assert it.TransactionLog(url).versions() == [0, 1, 2, 3, 4]


def test_a_log_with_a_hole_is_refused(invoke, url):
    os.remove(os.path.join(url, "_transaction_log", f"{2:020d}.json"))
    result = invoke("truncate", url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: cannot write to " in result.stderr


def test_the_help_has_examples(invoke):
    text = invoke("truncate", "--help").stdout
    assert "indextables truncate /data/logs --dry-run" in text
    assert "Splits stay" in text
