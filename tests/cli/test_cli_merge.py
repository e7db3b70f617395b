"""`indextables merge`: for people, for programs, and with wrong options."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.cli.conftest import run_in_terminal

import indextables as it

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


@pytest.fixture
def url(tmp_path) -> str:
    """Three splits of day 1 and two of day 2."""
    url = str(tmp_path / "table")
    table = it.Table.create(url, SCHEMA, partition_by=("day",))
    for number in range(5):
        table.append(pa.table({"id": [number], "day": ["12"[number % 2]]}, SCHEMA))
    return url


def fields(text: str) -> dict[str, str]:
    return {line[:13].strip(): line[15:] for line in text.splitlines()}


def test_people_see_what_was_merged(invoke, url):
    result = invoke("merge", url)
    assert (result.exit_code, result.stderr) == (0, "")
    found = fields(result.stdout)
    assert found["table"] == url
    assert (found["status"], found["splits merged"], found["into"]) == ("SUCCESS", "5", "2")
    assert found["size before"].endswith("KiB")
    assert found["size after"].endswith("KiB")
    assert (found["skipped"], found["message"]) == ("0", "-")
    table = it.Table.open(url)
    assert (table.num_files, table.num_records) == (2, 5)
    again = fields(invoke("merge", url).stdout)
    assert (again["status"], again["message"]) == ("NO_ACTION", "there is nothing to merge")


def test_a_dry_run_changes_nothing(invoke, url):
    version = it.Table.open(url).version
    found = fields(invoke("merge", url, "--dry-run").stdout)
    assert (found["status"], found["splits merged"], found["size after"]) == ("DRY_RUN", "5", "-")
    assert it.Table.open(url).version == version


def test_json_is_the_row_of_the_command(invoke, url):
    result = invoke("merge", url, "--where", "day = '2'", "--target-size", "1G", "--json")
    (found,) = map(json.loads, result.stdout.splitlines())
    table = it.Table.open(url)
    sizes = [file["size"] for file in table.files(where="day = '2'").to_pylist()]
    assert found == {
        "table_path": url,
        "status": "SUCCESS",
        "merged_files": 2,
        "merge_groups": 1,
        "original_size_bytes": found["original_size_bytes"],
        "merged_size_bytes": sizes[0],
        "skipped_files": 0,
        "message": "",
    }
    assert len(sizes) == 1
    assert found["original_size_bytes"] > sizes[0]


def test_a_merge_that_leaves_something_out_is_no_success(invoke, url, tmp_path):
    lost = it.Table.open(url).files()["path"][0].as_py()
    (tmp_path / "table" / lost).unlink()
    result = invoke("merge", url)
    found = fields(result.stdout)
    assert (result.exit_code, found["status"], found["skipped"]) == (1, "PARTIAL", "1")
    assert lost in found["message"]
    assert invoke("merge", url).exit_code == 0


def test_limits_are_kept(invoke, url):
    result = invoke("merge", url, "--max-dest-splits", 1, "--max-source-splits-per-merge", 2, "--json")
    found = json.loads(result.stdout)
    assert (found["merge_groups"], found["merged_files"]) == (1, 2)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--target-size", "big"], 1, "targetSize"),
        (["--max-dest-splits", "0"], 2, "--max-dest-splits"),
        (["--max-source-splits-per-merge", "1"], 2, "--max-source-splits-per-merge"),
        (["--where", "id = 1"], 1, "`id` is not a partition column"),
        (["--where", "day ="], 1, "error:"),
        (["--unknown"], 2, "--unknown"),
    ],
)
def test_wrong_options_are_told(invoke, url, options, code, message):
    result = invoke("merge", url, *options)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert it.Table.open(url).num_files == 5


def test_a_place_without_a_table_is_told(invoke, tmp_path):
    result = invoke("merge", tmp_path / "nothing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: " in result.stderr


def test_the_help_has_examples(invoke):
    text = invoke("merge", "--help").stdout
    assert "indextables merge /data/logs --dry-run" in text
    assert "merge" in invoke("--help").stdout


def test_a_terminal_sees_that_something_is_under_way(script, url):
    code, output = run_in_terminal([script, "merge", url])
    assert code == 0
    assert "merging splits" in output
