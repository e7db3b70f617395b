"""`indextables history`: a line per version, the newest first."""

from __future__ import annotations

import json
import re

import pytest

import indextables as it


def test_people_see_a_line_per_version(invoke, url):
    result = invoke("history", url)
    assert (result.exit_code, result.stderr) == (0, "")
    head, *lines = result.stdout.splitlines()
    assert re.split(r"\s{2,}", head.strip()) == [
        *("version", "time", "operation", "parameters", "read version", "added", "removed", "records", "engine")
    ]
    assert [line.split()[0] for line in lines] == ["4", "3", "2", "1", "0"]
    assert [line.split()[2] for line in lines] == ["SKIP", "MERGE", "WRITE", "WRITE", "CREATE"]
    assert re.split(r"\s{2,}", lines[3].strip())[3:8] == ["mode=Append", "0", "2", "0", "1,000"]


def test_json_has_every_column(invoke, url):
    versions = [json.loads(line) for line in invoke("history", url, "--json").stdout.splitlines()]
    expected = it.TransactionLog(url).history().to_pylist(maps_as_pydicts="strict")
    for row in expected:
        row["timestamp"] = row["timestamp"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert versions == expected
    assert versions[2]["parameters"] == {"mode": "Append"}
    assert versions[-1]["txn_id"] is None


@pytest.mark.parametrize(("limit", "versions"), [(1, [4]), (2, [4, 3]), (99, [4, 3, 2, 1, 0])])
def test_a_limit(invoke, url, limit, versions):
    shown = invoke("history", url, "--limit", limit, "--json").stdout.splitlines()
    assert [json.loads(line)["version"] for line in shown] == versions
    assert len(invoke("history", url, "--limit", limit).stdout.splitlines()) == 1 + len(versions)


@pytest.mark.parametrize("limit", ["0", "-1", "x"])
def test_a_limit_is_at_least_1(invoke, url, limit):
    result = invoke("history", url, "--limit", limit)
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_table_whose_commits_stand_in_states(invoke, upstream):
    result = invoke("history", upstream / "01_single_write")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["version", "1", "0"]
    assert lines[1].split()[-3:] == ["0", "3", "-"]
