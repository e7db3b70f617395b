"""The examples in the docstrings of functions that need Spark are true."""

from __future__ import annotations

import doctest
import inspect

import pytest
from tests.table.logs_table import make_logs

import indextables as it


def test_a_frame_of_spark_is_written(spark, tmp_path) -> None:
    frame = spark.range(3).selectExpr("id", "concat('disk ', id) AS message", "timestamp'2026-01-01 00:00:00' AS at")
    table = it.write(tmp_path / "t", frame, text=["message"])
    assert table.append(frame) == 2
    assert (len(table), table.count("disk"), table.schema.field("at").type.tz) == (6, 6, "UTC")


@pytest.mark.parametrize("name", ["enable", "read", "sql", "Table.to_spark"])
def test_examples_are_true(name, enabled, tmp_path, monkeypatch, capsys) -> None:
    url = make_logs(tmp_path / "logs").url
    member = it.Table.to_spark if name == "Table.to_spark" else getattr(it, name)
    text = inspect.getdoc(member).replace("'logs'", f"'{url}'").replace('"logs"', f'"{url}"')
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(text, {"it": it, "spark": enabled}, name, None, 0))
    assert runner.tries
    assert not runner.failures, capsys.readouterr().out
