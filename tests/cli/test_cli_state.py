"""`indextables state`: a line a fact for people, one JSON object for programs."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest
from tests.maintain.checkpoint_files import damage_state

import indextables as it


def facts(text: str) -> dict[str, str]:
    return dict(line.split("  ", 1) for line in text.partition("\n\n")[0].splitlines())


def shown(invoke, url) -> dict[str, str]:
    result = invoke("state", url)
    assert result.exit_code == 0, result.stderr
    return {title: value.strip() for title, value in facts(result.stdout).items()}


def test_people_see_a_line_per_fact(invoke, url):
    assert shown(invoke, url) == {
        "table": url,
        "format": "none",
        "version": "4",
        "files": "3",
        "size": "4.1 KiB",
        "manifests": "0",
        "tombstones": "0",
        "compaction": "not needed",
        "skipped files": "1",
        "status": "OK",
    }


def test_people_see_the_skipped_files_below(invoke, url, empty_url):
    head, row = invoke("state", url).stdout.partition("\n\n")[2].splitlines()
    assert head.split() == ["skipped", "times", "until", "reason"]
    assert row.startswith("c.split      1  20")
    assert row.endswith(r"Z  footer\nunreadable \x1b[31m[red]")
    assert "\n\n" not in invoke("state", empty_url).stdout


def test_tombstones_and_compaction(invoke, tmp_path, new_add):
    url = tmp_path / "t"
    log = it.Table.create(url, pa.schema([("a", pa.string())])).log
    log.add_files([new_add(f"{number}.split") for number in range(8)])
    log.checkpoint()
    log.replace_files(["3.split"], [])
    tolerant = it.TransactionLog(
        url, options={"state.compaction.tombstoneThreshold": 0.5, "state.compaction.afterMerge": "false"}
    )
    tolerant._checkpointer.write(2, tolerant.config)
    described = shown(invoke, url)
    assert (described["tombstones"], described["compaction"]) == ("1 (12.5% of the entries)", "needed")
    result = invoke("-o", "state.compaction.tombstoneThreshold=0.5", "state", url)
    assert "compaction     not needed" in result.stdout


def test_json_is_the_row_of_the_table(invoke, url):
    result = invoke("state", url, "--json")
    (state,) = map(json.loads, result.stdout.splitlines())
    expected = it.Table.open(url).state()
    assert list(state) == expected.column_names
    (row,) = expected.to_pylist()
    (skip,) = row["skipped_files"]
    skip["retry_after"] = skip["retry_after"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert state == row


def test_a_moment_that_no_calendar_holds(invoke, url):
    it.TransactionLog(url).record_skipped_file("b.split", reason="never again", cooldown_hours=10**11)
    skips = json.loads(invoke("state", url, "--json").stdout)["skipped_files"]
    assert {skip["path"]: skip["retry_after"] for skip in skips}["b.split"].endswith(" ms since 1970")
    assert " ms since 1970" in invoke("state", url).stdout


def test_a_damaged_state_is_told_and_no_failure(invoke, url):
    log = it.TransactionLog(url)
    log.checkpoint()
    damage_state(log, 4)
    result = invoke("state", url)
    assert result.exit_code == 0
    assert facts(result.stdout)["status"].strip() == "the state of version 4 is damaged and passed over"
    assert result.stderr.startswith("warning: skipping the state of version 4: cannot read ")
    assert len(result.stderr.splitlines()) == 1


def test_a_table_that_stands_in_a_damaged_state_alone(invoke, upstream, tmp_path):
    shutil.copytree(upstream / "05_many_transactions", tmp_path / "t")
    (tmp_path / "t/_transaction_log" / f"state-v{15:020d}/_manifest.avro").write_bytes(b"Obj")
    described = shown(invoke, tmp_path / "t")
    assert (described["format"], described["version"]) == ("avro-state", "14")
    assert "cannot read" in described["status"]


def test_tables_of_the_original_product(invoke, upstream):
    for table in sorted(place for place in upstream.iterdir() if place.is_dir()):
        described = shown(invoke, table)
        assert (described["format"], described["status"]) == ("avro-state", "OK")


@pytest.mark.parametrize("arguments", [["--version", "1"], ["--all"]])
def test_it_takes_no_version(invoke, url, arguments):
    assert invoke("state", url, *arguments).exit_code == 2
