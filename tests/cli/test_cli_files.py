"""`indextables files`: a row per live split, and a summary."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest

import indextables as it
from indextables.cli.output import count_text, map_text, plural_text, printable, size_text, time_text


def test_people_see_a_line_per_file_and_a_summary(invoke, url, odd_path):
    result = invoke("files", url)
    assert (result.exit_code, result.stderr) == (0, "")
    head, *files, summary = result.stdout.splitlines()
    assert head.split("  ")[0] == "path"
    assert [line.split("  ")[0] for line in files] == ["b.split", odd_path, "c.split"]
    assert "date=2026-01-01, größe=a=b%" in files[1]
    assert files[0].split() == ["b.split", "-", "100", "B", "-", "1"]
    assert files[2].split() == ["c.split", "-", "2.0", "KiB", "1,000", "3"]
    assert summary == "3 files, 2,000 records (not counting 1 file of unknown length), 4.1 KiB, version 4"


def test_columns_are_aligned_by_what_a_terminal_shows(invoke, tmp_path, new_add):
    table = it.Table.create(tmp_path, pa.schema([("a", pa.string())]))
    table.log.add_files([new_add("漢字.split"), new_add("ascii.split")])
    wide, narrow = invoke("files", tmp_path).stdout.splitlines()[1:3]
    assert narrow.index("2.0 KiB") - wide.index("2.0 KiB") == 2


def test_json_has_every_column_of_every_file(invoke, url):
    result = invoke("files", url, "--json")
    assert result.exit_code == 0
    files = [json.loads(line) for line in result.stdout.splitlines()]
    expected = it.Table.open(url).files()
    assert files == expected.to_pylist(maps_as_pydicts="strict")
    assert [list(file) for file in files] == [expected.column_names] * 3


def test_json_maps_are_objects_and_text_is_exact(invoke, url, odd_path, odd_values):
    files = {file["path"]: file for file in map(json.loads, invoke("files", url, "--json").stdout.splitlines())}
    assert files[odd_path]["partition_values"] == odd_values
    assert files["c.split"]["min_values"] == {"message": "a"}
    assert files["b.split"]["num_records"] is None


def test_an_earlier_version(invoke, url):
    result = invoke("files", url, "--version", 1)
    assert result.stdout.splitlines()[-1].endswith("2.1 KiB, version 1")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:-1]] == ["a.split", "b.split"]


def test_version_0_is_a_version(invoke, url):
    assert invoke("files", url, "--version", 0).stdout == "no files, version 0\n"


def test_the_time_that_the_history_shows_leads_to_its_version(invoke, url):
    moments = {row["version"]: row["timestamp"] for row in it.TransactionLog(url).history().to_pylist()}
    newest_at = max(version for version, moment in moments.items() if moment == moments[2])
    shown = [json.loads(line) for line in invoke("history", url, "--json").stdout.splitlines()]
    timestamp = next(row["timestamp"] for row in shown if row["version"] == 2)
    result = invoke("files", url, "--timestamp", timestamp)
    assert result.stdout.splitlines()[-1].endswith(f"version {newest_at}")


def test_version_and_timestamp_exclude_each_other(invoke, url):
    result = invoke("files", url, "--version", 1, "--timestamp", "2026-01-01")
    assert result.exit_code == 2
    assert "--version and --timestamp" in result.stderr


@pytest.mark.parametrize("version", ["-1", "x", "1.5", ""])
def test_a_version_is_a_whole_number(invoke, url, version):
    assert invoke("files", url, "--version", version).exit_code == 2


def test_a_version_that_is_not_there(invoke, url):
    result = invoke("files", url, "--version", 99)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: cannot read version 99")


@pytest.mark.parametrize("timestamp", ["yesterday", ""])
def test_a_timestamp_that_is_none(invoke, url, timestamp):
    result = invoke("files", url, "--timestamp", timestamp)
    assert result.exit_code == 1
    assert f"error: cannot read `{timestamp}` as a timestamp" in result.stderr
    assert "hint: write it as in" in result.stderr


def test_a_table_without_files(invoke, empty_url):
    result = invoke("files", empty_url)
    assert (result.exit_code, result.stdout) == (0, "no files, version 0\n")
    assert invoke("files", empty_url, "--json").stdout == ""


def test_tables_of_the_original_product(invoke, upstream):
    for table in sorted(place for place in upstream.iterdir() if place.is_dir()):
        result = invoke("files", table)
        assert (result.exit_code, result.stderr) == (0, "")
        assert ".split" in result.stdout


def test_a_table_whose_files_cannot_be_listed(invoke, upstream, tmp_path):
    shutil.copytree(upstream / "01_single_write", tmp_path / "t")
    (tmp_path / "t/_transaction_log/state-v00000000000000000001/_manifest.avro").write_bytes(b"Obj")
    result = invoke("files", tmp_path / "t")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: cannot read" in result.stderr


def test_a_long_path_is_one_line(run, tmp_path, new_add):
    path = "/".join(f"{letter}" * 80 for letter in "abcdefgh") + "/s.split"
    table = it.Table.create(tmp_path, pa.schema([("a", pa.string())]))
    table.log.add_files([new_add(path)])
    result = run("files", tmp_path, COLUMNS="40")
    assert path in result.stdout
    assert len(result.stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (None, ""),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (5 * 1024**3, "5.0 GiB"),
        (2**63 - 1, "8.0 EiB"),
        (2000 * 1024**6, "2000.0 EiB"),
    ],
)
def test_sizes(num_bytes, text):
    assert size_text(num_bytes) == text


def test_other_texts():
    assert [count_text(None), count_text(0), count_text(12345)] == ["", "0", "12,345"]
    assert [plural_text(1, "file"), plural_text(0, "file")] == ["1 file", "0 files"]
    assert [plural_text(1, "property", "properties"), plural_text(2, "property", "properties")] == [
        "1 property",
        "2 properties",
    ]
    assert [map_text(None), map_text({"a": "1", "b": "x=y"})] == ["", "a=1, b=x=y"]
    assert [time_text(None), time_text(0)] == [None, "1970-01-01T00:00:00.000Z"]
    assert time_text(10**17) == f"{10**17} ms since 1970"
    assert printable("grün\x1b[0m\n\x9b\u202e") == "grün\\x1b[0m\\n\\x9b\\u202e"
