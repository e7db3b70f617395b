"""The examples of docs/query-language.md find what the document says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.split.query.query_oracle import Table

from indextables.errors import QueryError

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "query-language.md").read_text()
READERS = {"status": int, "seconds": float, "ok": json.loads, "attrs": json.loads, "tags": json.loads}


def rows() -> list[dict]:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TEXT.splitlines() if line.startswith("| ")]
    names, *cells = lines
    return [
        {name: READERS.get(name, str)(value) for name, value in zip(names[1:], row[1:], strict=True) if value}
        for row in cells
    ]


def examples() -> list[tuple[str, str]]:
    blocks = re.findall(r"```query\n(.*?)```", TEXT, re.DOTALL)
    return [tuple(line.split(" =>")) for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def table() -> Table:
    return Table(rows())


def test_there_are_examples() -> None:
    assert len(rows()) == 6
    assert len(examples()) > 90


@pytest.mark.parametrize(("query", "answer"), examples())
def test_an_example_finds_what_the_document_says(table, query, answer) -> None:
    query, answer = query.strip(), answer.strip()
    if not answer.startswith("error: "):
        assert " ".join(str(row + 1) for row in table.search(query)) == answer
        return
    with pytest.raises(QueryError, match=re.escape(answer.removeprefix("error: "))):
        table.search(query)
