"""What documents say of Spark is true: their examples run, one after the other."""

from __future__ import annotations

from unittest import mock

import pytest
from tests.test_documents import blocks

import indextables as it


@pytest.mark.parametrize(
    ("document", "language", "least"),
    [
        ("docs/spark.md", "python", 3),
        ("docs/sql.md", "python", 3),
        ("docs/streaming.md", "python", 3),
        ("README.md", "py", 1),
    ],
)
def test_the_examples_run(spark, tmp_path, monkeypatch, document, language, least) -> None:
    monkeypatch.chdir(tmp_path)
    enabled = it.enable(spark.newSession())
    code = blocks(language, document)
    assert len(code) >= least
    with mock.patch("indextables.spark.sessions.local.session", return_value=enabled):
        exec(compile("\n".join(code), document, "exec"), {})
