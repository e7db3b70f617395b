"""`indextables sql`: commands on paths without Spark, everything else in a session."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.spark_runs import needs_spark, run_program

import indextables as it
from indextables.maintain.merge import merge_jobs


def test_people_see_a_line_per_fact(invoke, url):
    result = invoke("sql", f"checkpoint indextables '{url}';")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["table_path", url],
        ["status", "SUCCESS"],
        ["checkpoint_version", "4"],
        ["num_actions", "6"],
        ["num_files", "3"],
        ["protocol_version", "4"],
        ["is_multi_part", "false"],
    ]
    assert it.Table.open(url).state()["format"].to_pylist() == ["avro-state"]


@pytest.mark.parametrize(
    ("statement", "arguments"),
    [
        ("CHECKPOINT INDEXTABLES '{}'", ["checkpoint"]),
        ("COMPACT INDEXTABLES '{}'", ["compact"]),
        ("DESCRIBE INDEXTABLES STATE '{}'", ["state"]),
        ("DESCRIBE INDEXTABLES HISTORY '{}' LIMIT 2", ["history", "--limit", "2"]),
        ("DESCRIBE HISTORY indextables.`{}` LIMIT 2", ["history", "--limit", "2"]),
    ],
)
def test_json_is_that_of_the_command(invoke, url, statement, arguments):
    name, *options = arguments
    shown = invoke("sql", statement.format(url), "--json").stdout
    assert shown == invoke(name, url, *options, "--json").stdout
    assert shown


def test_words_of_other_formats(invoke, url):
    (purged,) = (json.loads(line) for line in invoke("sql", f"VACUUM '{url}' DRY RUN", "--json").stdout.splitlines())
    assert (purged["table_path"], purged["status"]) == (url, "DRY_RUN")
    (merged,) = (json.loads(line) for line in invoke("sql", f"OPTIMIZE '{url}'", "--json").stdout.splitlines())
    assert (merged["table_path"], merged["status"]) == (url, "NO_ACTION"), (
        "each of its splits is alone in its partition"
    )
    refused = invoke("sql", f"OPTIMIZE '{url}' ZORDER BY (id)")
    assert refused.exit_code != 0
    assert "MERGE SPLITS" in refused.stderr


def test_the_log(invoke, url):
    expected = [json.loads(line) for line in invoke("log", url, "--all", "--json").stdout.splitlines()]
    result = invoke("sql", f"DESCRIBE INDEXTABLES TRANSACTION LOG '{url}' INCLUDE ALL", "--json")
    shown = [json.loads(line) for line in result.stdout.splitlines()]
    assert [{name: value for name, value in row.items() if value is not None} for row in shown] == expected
    head, *lines = invoke("sql", f"DESCRIBE INDEXTABLES TRANSACTION LOG '{url}'").stdout.splitlines()
    assert head.split()[:3] == ["version", "log_file_path", "action_type"]
    assert "batch_id" not in head
    assert len(lines) == len(expected)


def test_control_characters_drive_no_terminal(invoke, url):
    result = invoke("sql", f"DESCRIBE INDEXTABLES STATE '{url}'")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout


def test_commands_without_a_table(invoke, tmp_path):
    result = invoke("-o", f"cache.disk.path={tmp_path}", "sql", "FLUSH INDEXTABLES SEARCHER CACHE", "--json")
    assert result.exit_code == 0, result.stderr
    assert [json.loads(line)["cache_type"] for line in result.stdout.splitlines()] == ["searchers", "indexes", "rows"]
    merge_jobs._jobs.forget()
    result = invoke("sql", "DESCRIBE INDEXTABLES MERGE JOBS")
    assert (result.exit_code, result.stdout.split()[:3]) == (0, ["job_id", "table_path", "status"])
    assert invoke("sql", "DESCRIBE INDEXTABLES MERGE JOBS", "--json").stdout == ""


def test_options(invoke, url):
    result = invoke("-o", "state.format=json", "sql", f"CHECKPOINT INDEXTABLES '{url}'")
    assert result.exit_code == 0, result.stderr
    assert it.Table.open(url).state()["format"].to_pylist() == ["json"]


def test_what_is_wrong_points_at_the_word(invoke, url):
    result = invoke("sql", f"CHECKPOINT INDEXTABLES '{url}' NOW")
    assert (result.exit_code, result.stdout) == (1, "")
    error, statement, caret = result.stderr.splitlines()[:3]
    assert error.startswith("error: cannot read the statement because `NOW` is found where the end is expected")
    assert statement[caret.index("^") :] == "NOW"
    assert "hint: it is written `CHECKPOINT INDEXTABLES t`" in result.stderr


def test_maintenance_answers_as_its_own_command_does(invoke, url):
    in_sql = invoke("sql", f"MERGE SPLITS '{url}' TARGET SIZE 1G DRY RUN", "--json")
    assert in_sql.stdout == invoke("merge", url, "--target-size", "1G", "--dry-run", "--json").stdout
    assert in_sql.exit_code == 0


def test_a_table_that_is_not_there(invoke, tmp_path):
    result = invoke("sql", f"DESCRIBE INDEXTABLES STATE '{tmp_path / 'x'}'")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "No transaction log found" in result.stderr


NO_JVM = """
import sys
from click.testing import CliRunner
from indextables.cli.main import cli

class NoSpark:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoSpark())
for statement in sys.argv[1:]:
    result = CliRunner().invoke(cli, ["sql", statement])
    print(result.exit_code, result.stderr.splitlines()[:1])
"""


def test_commands_on_paths_need_no_spark(url):
    statements = [f"DESCRIBE INDEXTABLES STATE '{url}'", "DESCRIBE INDEXTABLES STATE logs", "SELECT 1"]
    command = [sys.executable, "-c", NO_JVM, *statements]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    missing = "1 ['error: cannot run the statement because `pyspark` is not installed']"
    assert done.stdout.splitlines() == ["0 []", missing, missing], done.stderr


@needs_spark
@pytest.mark.slow
def test_other_statements_run_in_spark(tmp_path, url):
    script = "; ".join(
        [
            "import sys",
            "from click.testing import CliRunner",
            "from indextables.cli.main import cli",
            "run = lambda *words: CliRunner().invoke(cli, ['-o', 'state.format=json', 'sql', *words])",
            "results = [run(*word.split('\\x1f')) for word in sys.argv[1:]]",
            "print(*[f'{result.exit_code}\\n{result.stdout}{result.stderr}' for result in results], sep='\\x1e')",
        ]
    )
    statements = [
        ["SELECT id, id * 1.5 AS half, map('a', id) AS m FROM range(2) ORDER BY id"],
        ["SELECT DATE '2026-01-31' AS d, array(1, 2) AS a", "--json"],
        [f"CREATE TEMPORARY VIEW logs USING indextables OPTIONS (path '{url}')"],
        ["CHECKPOINT INDEXTABLES logs", "--json"],
        ["CHECKPOINT INDEXTABLES nowhere"],
        ["SELECT 1 AS a, 2 AS a"],
        ["SELEKT 1"],
    ]
    done = run_program(
        [sys.executable, "-W", "ignore", "-c", script, *("\x1f".join(words) for words in statements)], tmp_path
    )
    assert done.returncode == 0, done.stderr
    rows, as_json, made, checkpoint, nowhere, doubled, wrong = (part.strip() for part in done.stdout.split("\x1e"))
    assert [line.split() for line in rows.splitlines()] == [
        ["0"],
        ["id", "half", "m"],
        ["0", "0.0", '{"a":0}'],
        ["1", "1.5", '{"a":1}'],
    ]
    assert json.loads(as_json.splitlines()[1]) == {"d": "2026-01-31", "a": [1, 2]}
    assert made.splitlines() == ["0", "done"]
    assert json.loads(checkpoint.splitlines()[1])["table_path"] == url
    assert it.Table.open(url).state()["format"].to_pylist() == ["json"]
    assert nowhere.startswith("1\nerror: cannot write a checkpoint because there is no table or view `nowhere`")
    assert doubled.startswith("1\nerror: cannot print the answer because several of its columns are called `a`")
    assert wrong.startswith("1\nerror: cannot run the statement: [PARSE_SYNTAX_ERROR]")
    assert "this should not happen" not in wrong
