"""`indextables log`: the actions as they were written, of any log whose version files can be read."""

from __future__ import annotations

import gzip
import json
import re

import pyarrow as pa
import pytest
from tests.maintain.checkpoint_files import damage_state

import indextables as it


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def test_people_see_a_line_per_action(invoke, url):
    result = invoke("log", url)
    assert (result.exit_code, result.stderr) == (0, "")
    head, *lines = result.stdout.splitlines()
    assert cells(head) == ["version", "time", "operation", "action", "path", "size", "partition", "detail"]
    assert [(line[0], line[3]) for line in map(cells, lines)] == [
        *[("0", "protocol"), ("0", "metadata")],
        *[("1", "commit_info"), ("1", "add"), ("1", "add")],
        *[("2", "commit_info"), ("2", "add")],
        *[("3", "commit_info"), ("3", "remove"), ("3", "add")],
        *[("4", "commit_info"), ("4", "skip")],
    ]


def test_details_say_what_matters_of_each_action(invoke, url, odd_path):
    lines = [cells(line) for line in invoke("log", url).stdout.splitlines()[1:]]
    assert re.fullmatch(r"reader \d+, writer \d+(; features .*)?", lines[0][-1])
    assert lines[1][-1] == "name tests; partitioned by date, größe; 1 property"
    assert re.fullmatch(r"mode=Append; on version 0; by indextables/\S+", lines[2][-1])
    assert lines[2][2] == "WRITE"
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", lines[2][1])
    assert lines[4] == ["1", "-", "-", "add", "b.split", "100 B", "-", "-"]
    assert lines[6] == ["2", "-", "-", "add", odd_path, "2.0 KiB", "date=2026-01-01, größe=a=b%", "1,000 records"]
    assert lines[8][4:] == ["a.split", "2.0 KiB", "-", "same rows"]
    assert lines[9][-1] == "1,000 records; same rows"
    assert lines[11][-1].startswith(r"merge: footer\nunreadable \x1b[31m[red]; until 20")


def test_a_second_skip_and_a_batch(invoke, url, new_add):
    log = it.TransactionLog(url)
    log.record_skipped_file("c.split", reason="again")
    log.add_files([new_add("d.split")], application_id="stream", batch_id=0)
    log.set_properties({"owner": None})
    assert "; 2 times; until" in invoke("log", url, "--version", 5).stdout
    assert "mode=Append; batch 0 of stream; on version 5" in invoke("log", url, "--version", 6).stdout
    assert 'properties=["owner"]' in invoke("log", url, "--version", 7).stdout


def test_one_version(invoke, url):
    lines = invoke("log", url, "--version", 3).stdout.splitlines()[1:]
    assert {cells(line)[0] for line in lines} == {"3"}
    assert len(lines) == 3
    assert len(invoke("log", url, "--version", 0).stdout.splitlines()) == 3


def test_json_has_every_field_that_has_a_value(invoke, url):
    actions = [json.loads(line) for line in invoke("log", url, "--json").stdout.splitlines()]
    expected = it.TransactionLog(url).describe().to_pylist(maps_as_pydicts="strict")
    assert actions == [{name: value for name, value in row.items() if value is not None} for row in expected]
    assert actions[0]["version"] == 0
    assert actions[-1]["reason"] == "footer\nunreadable \x1b[31m[red]"


def test_json_of_one_version(invoke, url, odd_values):
    actions = [json.loads(line) for line in invoke("log", url, "--version", 2, "--json").stdout.splitlines()]
    assert [action["action_type"] for action in actions] == ["commit_info", "add"]
    assert actions[1]["partition_values"] == odd_values
    assert json.loads(actions[0]["parameters"]) == {"mode": "Append"}


def test_the_newest_checkpoint_and_what_follows(invoke, url, new_add):
    log = it.TransactionLog(url)
    log.checkpoint()
    log.add_files([new_add("d.split")])
    result = invoke("log", url)
    assert (result.exit_code, result.stderr) == (0, "")
    *lines, last = result.stdout.splitlines()[1:]
    assert [(line[0], line[3]) for line in map(cells, lines)] == [
        *[("4", "protocol"), ("4", "metadata"), ("4", "add"), ("4", "add"), ("4", "add"), ("4", "skip")],
        *[("5", "commit_info"), ("5", "add")],
    ]
    assert last == (
        f"version 4 is in the checkpoint _transaction_log/state-v{4:020d}/_manifest.avro; "
        "--all shows every version file instead"
    )


def test_all_versions_whatever_stands_in_a_checkpoint(invoke, url):
    before = invoke("log", url).stdout
    it.TransactionLog(url).checkpoint()
    assert invoke("log", url, "--all").stdout == before
    assert invoke("log", url).stdout != before


def test_json_says_what_stands_in_a_checkpoint(invoke, url):
    table = it.Table.open(url)
    table.checkpoint()
    actions = [json.loads(line) for line in invoke("log", url, "--json").stdout.splitlines()]
    expected = table.describe_log().to_pylist(maps_as_pydicts="strict")
    assert actions == [{name: value for name, value in row.items() if value is not None} for row in expected]
    assert {action["is_checkpoint"] for action in actions} == {True}
    actions = [json.loads(line) for line in invoke("log", url, "--all", "--json").stdout.splitlines()]
    assert {action["is_checkpoint"] for action in actions} == {False}


def test_a_state_that_cannot_be_read_leaves_the_version_files(invoke, url):
    log = it.TransactionLog(url)
    log.checkpoint()
    damage_state(log, 4)
    result = invoke("log", url)
    assert result.exit_code == 0
    assert result.stdout == invoke("log", url, "--all").stdout
    assert result.stderr.startswith("warning: skipping the state of version 4")


def test_one_version_or_all_of_them(invoke, url):
    result = invoke("log", url, "--all", "--version", 1)
    assert result.exit_code == 2
    assert "--version and --all" in result.stderr


def test_a_version_that_is_not_there(invoke, url):
    result = invoke("log", url, "--version", 99)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: cannot read version 99" in result.stderr
    assert "hint: there are files of the versions 0 to 4" in result.stderr


def test_a_table_whose_protocol_is_too_new(invoke, tmp_path):
    it.Table.create(tmp_path, pa.schema([("a", pa.string())]))
    version_file = tmp_path / "_transaction_log" / f"{0:020d}.json"
    raw = version_file.read_bytes()
    text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode()
    version_file.write_text(re.sub(r'"minReaderVersion":\d+', '"minReaderVersion":99', text), encoding="utf-8")
    assert invoke("files", tmp_path).exit_code == 1
    result = invoke("log", tmp_path)
    assert result.exit_code == 0
    assert "reader 99" in result.stdout


def test_tables_whose_files_cannot_be_listed(invoke, upstream):
    for table in sorted(place for place in upstream.iterdir() if place.is_dir()):
        result = invoke("log", table, "--version", 0)
        assert result.exit_code == 0, result.stderr
        assert [cells(line)[3] for line in result.stdout.splitlines()[1:]] == ["protocol", "metadata"]
        actions = [json.loads(line) for line in invoke("log", table, "--version", 0, "--json").stdout.splitlines()]
        assert json.loads(actions[1]["schema_string"])["type"] == "struct"
        assert invoke("log", table).exit_code == 0
        assert invoke("log", table, "--json").exit_code == 0


@pytest.mark.parametrize("version", ["-1", "x"])
def test_a_version_is_a_whole_number(invoke, url, version):
    assert invoke("log", url, "--version", version).exit_code == 2
