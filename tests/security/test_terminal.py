"""Nothing that a table holds drives the terminal of whoever looks at it, not even the names of its columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import indextables as it
from indextables.cli.main import cli
from indextables.protocol.names import version_key

EVIL = "a\x1b]0;owned\x07\x1b[2Jb\x9b31m\u202ec"


@pytest.fixture
def url(tmp_path) -> str:
    schema = pa.schema([(EVIL, pa.int64()), ("message", pa.string()), ("day", pa.string())])
    table = it.Table.create(tmp_path / "t", schema, partition_by=("day",), name=EVIL, properties={"owner": EVIL})
    table.append(pa.table({EVIL: [1], "message": [f"words {EVIL}"], "day": [EVIL]}, schema=schema))
    return table.url


def is_harmless(output: str) -> bool:
    return not any(character in output for character in "\x1b\x07\x9b\u202e")


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "{url}", "*"],
        ["search", "{url}", "words"],
        ["search", "{url}", "nothing:\x1b[31m"],
        ["count", "{url}"],
        ["files", "{url}"],
        ["history", "{url}"],
        ["log", "{url}"],
        ["state", "{url}"],
        ["fsck", "{url}"],
        ["sql", "DESCRIBE INDEXTABLES TRANSACTION LOG '{url}' INCLUDE ALL"],
        ["files", "{url}", "--where", "`\x1b[31m` = 1"],
        ["files", "{url}\x1b[31m"],
        ["-v", "files", "{url}/\x9b31m"],
        ["-o", "\x1b[31m=1", "files", "{url}"],
    ],
    ids=lambda arguments: " ".join(arguments)[:30].encode("unicode_escape").decode(),
)
def test_control_characters_are_shown_escaped(url, arguments) -> None:
    result = CliRunner().invoke(cli, [part.replace("{url}", url) for part in arguments])
    assert result.exit_code in (0, 1, 2)
    assert is_harmless(result.output), ascii(result.output)


def test_a_damaged_log_is_not_quoted_raw(url) -> None:
    add = {"path": f"../{EVIL}", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    with open(f"{url}/{version_key(2)}", "w") as file:
        file.write(json.dumps({"add": add}) + "\n")
    for flags in ([], ["-v"]):
        result = CliRunner().invoke(cli, [*flags, "files", url])
        assert result.exit_code == 1
        assert is_harmless(result.output), ascii(result.output)


def test_json_escapes_by_itself(url) -> None:
    result = CliRunner().invoke(cli, ["search", url, "*", "--json"])
    assert "\x1b" not in result.output
    assert EVIL in json.loads(result.output)
