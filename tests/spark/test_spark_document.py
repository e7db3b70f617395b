"""docs/spark.md is true: its examples run, one after the other."""

from __future__ import annotations

from unittest import mock

import pytest
from tests.test_documents import blocks

import indextables as it

pytestmark = pytest.mark.slow


def test_the_examples_run(spark, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    enabled = it.enable(spark.newSession())
    code = blocks("python", "docs/spark.md")
    assert len(code) >= 3
    with mock.patch("indextables.spark.sessions.session", return_value=enabled):
        exec(compile("\n".join(code), "docs/spark.md", "exec"), {})
