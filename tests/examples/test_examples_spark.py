"""The examples with Spark run as they are, check their own results, and leave nothing behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.spark_runs import needs_spark, run_program

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = [needs_spark, pytest.mark.slow]


def run_example(name: str, place: Path) -> str:
    done = run_program([sys.executable, EXAMPLES / name], place)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert os.listdir(place / "work") == []
    assert [left for left in os.listdir(place / "tmp") if left.startswith(name.removesuffix(".py")[:4])] == []
    return done.stdout


def test_the_log_pipeline(tmp_path) -> None:
    output = run_example("log_pipeline.py", tmp_path)
    assert "|2026-03-02|  600|  344.3|       6|" in output
    assert "|2026-03-02|  600| 3040.4|      60|" in output
    assert output.index("344.3") < output.index("3040.4")
    assert "'predicate': \"day = '2026-03-02'\"} +1 -1 splits" in output


def test_the_security_search(tmp_path) -> None:
    output = run_example("security_search.py", tmp_path)
    assert "<b>mimikatz</b>" in output
    assert "|mallory|vault-1|data |scanner            |50      |" in output
    assert "|2026-04-02|vault-1|mallory|50           |mimikatz started" in output


def test_streaming(tmp_path) -> None:
    output = run_example("streaming.py", tmp_path)
    assert "| gateway|    10|" in output
    assert "|payments|    15|" in output


def test_the_sql_search(tmp_path) -> None:
    output = run_example("sql_search.py", tmp_path)
    assert "search: body TEXTSEARCH 'timeout'" in output
    assert "<b>timeout</b>" in output
