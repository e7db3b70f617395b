"""What a load may be given: options of the source, settings, and what is said of everything else."""

from __future__ import annotations

import datetime as dt
import logging
import os

import pytest
from tests.spark.conftest import rows_of

import indextables as it
from indextables.errors import (
    CheckpointError,
    ConfigError,
    CorruptLogError,
    QueryError,
    RetentionError,
    SchemaError,
    TableNotFoundError,
)
from indextables.spark.jvm.worker_errors import find_own_error
from indextables.spark.options.session_settings import over_session, session_settings
from indextables.spark.options.source_options import SourceOptions, names_as_option
from indextables.spark.scan.reading import read

KEY = "spark.indextables.read.maxPartitionBytes"


def parse(**options: str) -> SourceOptions:
    return SourceOptions.parse({"path": "/t", **{key.lower(): value for key, value in options.items()}})


def test_options_are_parsed_in_any_case() -> None:
    asked = parse(versionAsOf="0", columns='["a, b", "c"]', score="True", limit="7", search="x", where="a = 1")
    assert (asked.version, asked.columns, asked.score, asked.limit) == (0, ("a, b", "c"), True, 7)
    assert parse(columns="a, b").columns == ("a", "b")
    assert parse(columns=names_as_option(['x"y', "z,"])).columns == ('x"y', "z,")


def test_settings_stand_apart_from_options_and_are_not_shown() -> None:
    asked = SourceOptions.parse({"path": "/t", "aws.secretkey": "hush", "spark.indextables.read.minpartitions": "3"})
    assert dict(asked.settings) == {"aws.secretkey": "hush", "spark.indextables.read.minpartitions": "3"}
    assert "hush" not in repr(asked)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"serach": "x"}, "did you mean `search`?"),
        ({"versonAsOf": "1"}, "did you mean `versionAsOf`?"),
        ({"read.maxPartitionByte": "1"}, "did you mean `read.maxPartitionBytes`?"),
        ({"versionAsOf": "-1"}, "a whole number of at least 0"),
        ({"limit": "many"}, "a whole number of at least 0"),
        ({"score": "maybe"}, "`true` or `false`"),
        ({"columns": "[1]"}, "a JSON array of names"),
    ],
)
def test_a_bad_option_is_refused_and_the_nearest_is_named(options, message) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(**options)
    assert message in str(refused.value)


def test_a_load_without_a_path_is_refused() -> None:
    with pytest.raises(ConfigError, match="no path is given"):
        SourceOptions.parse({})


def test_what_a_load_says_of_a_bad_option_ends_with_our_own_words(spark, logs) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as refused:
        spark.read.format("indextables").option("serach", "x").load(logs.url)
    lines = str(refused.value).strip().splitlines()
    assert lines[-3:-1] == [
        "indextables.errors.ConfigError: cannot use the option `serach` because there is no such option",
        "hint: did you mean `search`?",
    ]


def test_what_a_load_says_of_a_bad_query_is_short(spark, logs, tmp_path) -> None:
    from pyspark.errors import AnalysisException

    for options, path in [({"search": "nosuch:1"}, logs.url), ({}, str(tmp_path / "nothing"))]:
        with pytest.raises(AnalysisException) as refused:
            spark.read.format("indextables").options(**options).load(path)
        assert len(str(refused.value).strip().splitlines()) < 16
        assert "hint: " in str(refused.value).strip().splitlines()[-2]


@pytest.mark.parametrize(
    ("asked", "kind", "message"),
    [
        ({"search": "nosuch:1"}, QueryError, "there is no field `nosuch`"),
        ({"search": "error AND"}, QueryError, "nothing behind `AND`"),
        ({"where": "nosuch = 1"}, QueryError, "nosuch"),
        ({"where": "id ="}, QueryError, "id ="),
        ({"columns": ["nosuch"]}, SchemaError, "the table has no such column"),
        ({"columns": []}, ConfigError, "no columns at all"),
        ({"columns": "id"}, ConfigError, "give a list of names"),
        ({"snippet": "level"}, SchemaError, "not indexed as `text`"),
        ({"limit": 0}, ConfigError, "at least 1"),
        ({"version": 99}, (RetentionError, ConfigError, CorruptLogError, CheckpointError), "99"),
        ({"version": 1, "timestamp": "2026-01-01T00:00:00Z"}, ConfigError, "give one of them"),
        ({"timestamp": "yesterday"}, ConfigError, "yesterday"),
        ({"options": {"serach": "x"}}, ConfigError, "did you mean `search`"),
        ({"options": {"read.maxPartitionBytes": "lots"}}, ConfigError, "lots"),
        ({"search": "x", "options": {"Search": "y"}}, ConfigError, "an argument and an option"),
    ],
)
def test_read_fails_at_once_with_the_librarys_own_error(spark, logs, asked, kind, message) -> None:
    with pytest.raises(kind) as refused:
        read(spark, logs.url, **asked)
    assert message in str(refused.value)


def test_an_error_is_the_one_that_the_table_itself_raises(spark, logs, tmp_path) -> None:
    for asked in [{"query": "nosuch:1 OR ok"}, {"where": "nosuch > 1"}]:
        with pytest.raises(it.errors.IndexTablesError) as own:
            logs.search(**asked)
        query = asked.get("query")
        with pytest.raises(type(own.value)) as read_error:
            read(spark, logs.url, search=query, where=asked.get("where"))
        assert str(read_error.value) == str(own.value)
    with pytest.raises(TableNotFoundError):
        read(spark, tmp_path / "nothing")


def test_only_errors_of_the_library_are_taken_out_of_a_traceback() -> None:
    text = "Traceback\n  x\nindextables.errors.ConfigError: one\ntwo\nhint: three\n SQLSTATE: 38000\n\tat java"
    error = find_own_error(text)
    assert isinstance(error, ConfigError)
    assert (error.message, error.hint) == ("one\ntwo", "three")
    assert find_own_error("Traceback\nValueError: one") is None
    assert find_own_error("indextables.errors.annotations: one") is None


def test_relative_paths_and_path_objects_are_read(spark, logs, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(os.path.dirname(logs.url))
    assert read(spark, "table", columns=["id"]).count() == 180
    assert read(spark, f"file://{logs.url}", columns=["id"], limit=3).count() == 3


def test_versions_and_moments(spark, logs) -> None:
    counts = [60, 120, 180]
    assert [read(spark, logs.url, version=version).count() for version in (1, 2, 3)] == counts
    assert spark.read.format("indextables").option("versionAsOf", 0).load(logs.url).count() == 0
    times = {row["version"]: row["timestamp"] for row in logs.history().to_pylist()}
    moment = times[2]
    assert isinstance(moment, dt.datetime)
    for timestamp in (moment, moment.isoformat(), int(moment.timestamp() * 1000)):
        assert read(spark, logs.url, timestamp=timestamp).count() == 120
    loaded = spark.read.format("indextables").option("timestampAsOf", moment.isoformat()).load(logs.url)
    assert loaded.count() == 120


def test_settings_of_a_session_reach_a_load_and_options_win(spark, logs, caplog) -> None:
    spark.conf.set(KEY, "1M")
    spark.conf.set("spark.indextables.no.such.key", "1")
    try:
        with caplog.at_level(logging.WARNING):
            assert session_settings(spark) == {KEY: "1M"}
        assert "no.such.key" in caplog.text
        assert _num_tasks(read(spark, logs.url)) == 6
        options = {"read.maxPartitionBytes": "128M", "read.minPartitions": 1}
        assert _num_tasks(read(spark, logs.url, options=options)) == 1
        assert rows_of(read(spark, logs.url, options=options)) == rows_of(logs.search())
    finally:
        spark.conf.unset(KEY)
        spark.conf.unset("spark.indextables.no.such.key")


def test_an_option_hides_the_sessions_setting_however_it_is_spelt() -> None:
    session = {"spark.indextables.aws.accessKey": "session", "spark.indextables.aws.region": "here"}
    assert over_session({"aws_access_key_id": "option", "search": "x"}, session) == {
        "aws_access_key_id": "option",
        "search": "x",
        "spark.indextables.aws.region": "here",
    }


def _num_tasks(frame) -> int:
    return frame.rdd.getNumPartitions()
