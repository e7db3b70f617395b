"""`indextables ingest`: files into a table, all in one commit or not at all."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import run_in_terminal

import indextables as it

LOG = "2026-01-01 12:00:00 ERROR connection timeout\n    at acme.Main\n2026-01-01 12:00:01 INFO ok\n"


@pytest.fixture
def target(tmp_path) -> str:
    """A table of three columns."""
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("note", pa.string())])
    it.Table.create(tmp_path / "t", schema, partition_by=("day",), indexing={"note": "text"})
    return str(tmp_path / "t")


def splits(url: str) -> list[str]:
    return [name for _, _, names in os.walk(url) for name in names if name.endswith(".split")]


def rows(url: str) -> list[dict]:
    return sorted(it.Table.open(url).search().to_pylist(), key=str)


def test_files_of_every_format_in_one_commit(invoke, target, tmp_path) -> None:
    (tmp_path / "a.csv").write_text('id,note\n1,"one, and ""more"""\n')
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"id":2,"day":"2026-01-02"}\n'))
    pq.write_table(pa.table({"note": ["three"]}), tmp_path / "c.parquet")
    result = invoke("ingest", target, tmp_path / "a.csv", tmp_path / "b.jsonl.gz", tmp_path / "c.parquet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("3 rows from 3 files in ")
    assert " → version 1, 2 splits, " in result.stdout
    assert [(row["id"], str(row["day"]), row["note"]) for row in rows(target)] == [
        (1, "None", 'one, and "more"'),
        (2, "2026-01-02", None),
        (None, "None", "three"),
    ]


def test_json_is_one_object(invoke, target, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\nx\n2\n")
    (result,) = map(
        json.loads,
        invoke("ingest", target, tmp_path / "a.csv", "--on-bad-line", "skip", "--json").stdout.splitlines(),
    )
    size = it.Table.open(target).files()["size"].to_pylist()
    assert result.pop("seconds") >= 0
    assert result == {
        "table": target,
        "version": 1,
        "created": False,
        "files": 1,
        "rows": 2,
        "skipped_lines": 1,
        "nulled_values": 0,
        "blank_lines": 0,
        "escaped_lines": 0,
        "assumed_years": 0,
        "unread_moments": 0,
        "splits": 1,
        "bytes": sum(size),
    }


def test_a_bad_file_leaves_the_table_as_it_was(invoke, target, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "b.csv").write_text("id\n2\nx\n")
    result = invoke("ingest", target, tmp_path / "a.csv", tmp_path / "b.csv")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0] == (
        f"error: cannot read line 3 of `{tmp_path / 'b.csv'}` because `x` in the column `id` is not a `long`"
    )
    assert it.Table.open(target).version == 0
    assert splits(target) == []
    for policy, shown, expected in (
        ("skip", "warning: 1 bad line skipped\n", [1, 2]),
        ("null", "warning: 1 value did not fit, and became null\n", [1, 2, None]),
    ):
        result = invoke(
            "ingest", target, tmp_path / "a.csv", tmp_path / "b.csv", "--overwrite", "--on-bad-line", policy
        )
        assert (result.exit_code, result.stderr) == (0, shown)
        assert [row["id"] for row in rows(target)] == expected


def test_the_summary_of_a_log_says_what_was_dropped_or_changed(invoke, tmp_path) -> None:
    url = str(tmp_path / "logs")
    (tmp_path / "app.log").write_bytes(b"Jan  5 12:00:00 host x\n\n\n\xff\n2026-01-01 12:00:00 IST x\n")
    result = invoke("ingest", url, tmp_path / "app.log", "--create", "--format", "log")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "warning: 2 lines without text skipped",
        "warning: 1 line held bytes that are not UTF-8, which are escaped, as in `\\xff`",
        "warning: 1 line had a date without a year, taken to be the last one before the file was written",
        "warning: 1 line had a date that does not exist, or a zone of unknown offset: `timestamp` is null there",
    ]


def test_a_binary_file_is_no_log(invoke, tmp_path) -> None:
    (tmp_path / "app.log").write_bytes(b"\x7fELF\0\0\0")
    result = invoke("ingest", tmp_path / "logs", tmp_path / "app.log", "--create", "--format", "log")
    assert result.exit_code == 1
    assert f"error: cannot read `{tmp_path / 'app.log'}` as a log because it is a binary file" in result.stderr
    assert not (tmp_path / "logs").exists()


def test_a_log_makes_its_table(invoke, tmp_path) -> None:
    url = str(tmp_path / "logs")
    (tmp_path / "app.log").write_text(LOG)
    result = invoke("ingest", url, tmp_path / "app.log", "--create", "--join-lines")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == f"created {url}"
    table = it.Table.open(url)
    assert table.schema.names == ["timestamp", "level", "file", "line", "message"]
    (found,) = table.search("timeout AND acme").to_pylist()
    assert (found["level"], found["line"], found["timestamp"].isoformat()) == ("ERROR", 1, "2026-01-01T12:00:00+00:00")
    assert result.stderr == ""
    again = invoke("ingest", url, tmp_path / "app.log", "--create")
    assert "created" not in again.stdout
    assert again.stderr == ""
    assert it.Table.open(url).count() == 5


def test_a_new_table_has_what_was_asked_for(invoke, tmp_path) -> None:
    (tmp_path / "a.jsonl").write_text('{"day":"2026-01-01","n":1,"note":"a b","tags":["x"]}\n')
    arguments = [
        "--create",
        "--partition-by",
        "day",
        "--index",
        "note=text",
        "--column",
        "n:double",
        "--property",
        "a=b",
    ]
    assert invoke("ingest", tmp_path / "t", tmp_path / "a.jsonl", *arguments).exit_code == 0
    table = it.Table.open(tmp_path / "t")
    assert (table.partition_columns, table.metadata.configuration["a"]) == (("day",), "b")
    assert table.count("b") == 1
    assert table.search().to_pylist()[0]["n"] == 1.0
    assert table.search().to_pylist()[0]["tags"] == ["x"]


def test_what_a_new_table_would_have_got_is_not_lost_in_silence(invoke, target, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id,note\n1,a\n")
    result = invoke("ingest", target, tmp_path / "a.csv", "--create", "--index", "note=string")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: the table exists already: --column,")


def test_people_are_told_that_words_cannot_be_searched(invoke, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id,note\n1,a\n")
    assert "`--index COLUMN=text`" in invoke("ingest", tmp_path / "t", tmp_path / "a.csv", "--create").stderr
    assert invoke("ingest", tmp_path / "u", tmp_path / "a.csv", "--create", "--json").stderr == ""
    with_text = invoke("ingest", tmp_path / "v", tmp_path / "a.csv", "--create", "--index", "note=text")
    assert (with_text.exit_code, with_text.stderr) == (0, "")


def test_a_table_is_made_only_for_a_file_that_begins_well(invoke, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("indextables.ingest.csv_rows._BLOCK_BYTES", 12)
    (tmp_path / "bad.csv").write_text("id\n1\n2,2\n")
    (tmp_path / "later.csv").write_text("id\n1\n2\n3\n4\n5,5\n")
    result = invoke("ingest", tmp_path / "t", tmp_path / "bad.csv", "--create")
    assert (result.exit_code, "is there" in result.stderr) == (1, False)
    assert not os.path.exists(tmp_path / "t")
    result = invoke("ingest", tmp_path / "t", tmp_path / "later.csv", "--create")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == f"warning: the table `{tmp_path / 't'}` exists, and is empty"
    assert it.Table.open(tmp_path / "t").version == 0
    (tmp_path / "many.csv").write_text("id\n" + "1\n" * 100)
    assert invoke("ingest", tmp_path / "u", tmp_path / "many.csv", "--create").exit_code == 0
    assert it.Table.open(tmp_path / "u").count() == 100


def test_standard_input(script, target) -> None:
    arguments = [script, "ingest", target, "-", "--format", "csv"]
    done = subprocess.run(arguments, input=b"id,note\n7,x\n", capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert [row["id"] for row in rows(target)] == [7]
    done = subprocess.run(
        [script, "ingest", f"{target}2", "-", "--format", "log", "--create"],
        input=gzip.compress(LOG.encode()),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {row["file"] for row in rows(f"{target}2")} == {"standard input"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-"], 2, "name the --format"),
        (["-", "-", "--format", "csv"], 2, "only once"),
        ([], 2, "FILE..."),
        (["no.csv"], 1, "No such file"),
        (["a.csv", "--index", "a=text"], 2, "add --create"),
        (["a.csv", "--delimiter", "ab"], 2, "one ASCII character"),
        (["."], 1, "is a directory"),
    ],
)
def test_wrong_usage(invoke, target, tmp_path, monkeypatch, arguments, code, message) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("id\n1\n")
    result = invoke("ingest", target, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert it.Table.open(target).version == 0


def test_a_table_that_is_not_there(invoke, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    result = invoke("ingest", tmp_path / "t", tmp_path / "a.csv")
    assert result.exit_code == 1
    assert "hint: create it with `--create`" in result.stderr
    assert not os.path.exists(tmp_path / "t")


def test_no_rows_are_no_error(invoke, target, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id\n")
    result = invoke("ingest", target, tmp_path / "a.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("0 rows from 1 file in ")
    assert splits(target) == []


def test_a_terminal_shows_a_bar_and_then_the_result(script, target, tmp_path) -> None:
    place = tmp_path / "a\x1b[31m[b].csv"
    place.write_text("id\n" + "1\n" * 100)
    code, output = run_in_terminal([script, "ingest", target, str(place)], width=200)
    assert code == 0
    assert r"a\x1b[31m[b].csv" in output
    assert "100 rows from 1 file in " in output.splitlines()[-1]


def test_ctrl_c_leaves_nothing_behind(script, target, tmp_path) -> None:
    (tmp_path / "tmp").mkdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        subprocess.Popen(
            [script, "ingest", target, str(pipe), "--format", "csv"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        ) as process,
        open(pipe, "w") as writing,
    ):
        writing.write("id,note\n" + f"1,{'word ' * 200}\n" * 6000)
        writing.flush()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    assert (os.listdir(tmp_path / "tmp"), splits(target)) == ([], [])
    assert it.Table.open(target).version == 0
