"""The Java sources are compiled without a session, and what is wrong with one is said."""

from __future__ import annotations

import pyspark
import pytest
from tests.spark_runs import needs_spark

from indextables.errors import ConfigError
from indextables.spark.jvm import java_sources
from indextables.spark.jvm.java_runtime import Java

GOOD = b"package indextables.spark; final class Good { int two() { return 1 + 1; } }"
BAD = b"package indextables.spark; final class Bad { org.apache.spark.sql.Nothing none() { return null; } }"


@needs_spark
def test_a_source_that_does_not_compile_is_named(monkeypatch, capsys) -> None:
    monkeypatch.setattr(java_sources, "read_sources", lambda _: {"Good.java": GOOD, "Bad.java": BAD})
    assert java_sources.main() == 1
    said = capsys.readouterr()
    assert said.out == f"compiled 1 of 2 Java sources for Spark {pyspark.__version__}\n"
    assert "Bad.java" in said.err
    assert "Line 1, Column" in said.err


@needs_spark
def test_all_sources_compile(capsys) -> None:
    assert java_sources.main() == 0, capsys.readouterr().err
    assert f"compiled {len(java_sources.read_sources(pyspark.__version__))} of" in capsys.readouterr().out


def test_another_spark_is_named_by_its_directory(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(java_sources, "find_java", lambda: Java("java", 17))
    with pytest.raises(SystemExit, match="there is no Spark in"):
        java_sources.main(["--spark-home", str(tmp_path)])
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-catalyst_2.13-4.1.4.jar").touch()
    monkeypatch.setattr(java_sources, "_compile_all", lambda program, jars, sources: {})
    assert java_sources.main(["--spark-home", str(tmp_path)]) == 0
    assert "Java sources for Spark 4.1.4\n" in capsys.readouterr().out


def test_without_java_a_line_says_so(monkeypatch, capsys) -> None:
    def nowhere() -> None:
        raise ConfigError("cannot find a Java")

    monkeypatch.setattr(java_sources, "find_java", nowhere)
    assert java_sources.main() == 0
    assert capsys.readouterr().out == "Java sources are not compiled because there is no Java: cannot find a Java\n"
