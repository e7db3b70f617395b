"""The partitions of the new files replaced, as they stand at the commit; and files that must fit what they were made
for."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.conftest import live_paths, make_add
from tests.log.test_log_overwrite_where import in_the_middle

import indextables as it
from indextables.errors import CommitConflictError, ConfigError
from indextables.log.commit.operations import Plan
from indextables.log.snapshot import Head
from indextables.protocol.actions import Add, CommitInfo, Metadata, Remove

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("at", pa.timestamp("us", "UTC")), ("x", pa.float64())])
COLUMNS = ("a", "b")

_numbers = itertools.count()


def add(name: str, **values: str | None) -> Add:
    return make_add(name, partition_values={key: text for key, text in values.items() if text is not None})


@pytest.fixture
def log(tmp_path) -> it.TransactionLog:
    log = it.TransactionLog(tmp_path / "table")
    log.initialize(SCHEMA, partition_columns=COLUMNS)
    return log


PARTITIONS = st.fixed_dictionaries(
    {"a": st.sampled_from(["1", "2", None]), "b": st.sampled_from(["", "1", "x y", None])}
)


@settings(max_examples=150)
@given(st.lists(st.lists(PARTITIONS, max_size=4), max_size=5), st.lists(PARTITIONS, max_size=3))
def test_the_log_holds_what_a_plain_model_holds(steps, between) -> None:
    url = f"memory://dynamic-{next(_numbers)}/table"
    it.TransactionLog(url).initialize(SCHEMA, partition_columns=COLUMNS)
    live: dict[str, tuple[str | None, str | None]] = {}

    def named(partitions) -> dict[str, tuple[str | None, str | None]]:
        return {f"{next(_numbers)}.split": (values["a"], values["b"]) for values in partitions}

    def others() -> None:
        new = named(between)
        it.TransactionLog(url).add_files([add(path, a=a, b=b) for path, (a, b) in new.items()])
        live.update(new)

    for partitions in steps:
        new = named(partitions)
        version = it.TransactionLog(url).snapshot().version
        handle = in_the_middle(url, others)
        handle.overwrite_files([add(path, a=a, b=b) for path, (a, b) in new.items()], dynamic=True)
        live = {path: values for path, values in live.items() if values not in new.values()} | new
        assert live_paths(it.TransactionLog(url)) == sorted(live)
        assert it.TransactionLog(url).snapshot().version == version + (2 if partitions else 0)


def test_the_history_says_so_and_each_file_is_removed_by_name(log) -> None:
    log.add_files([add("old.split", a="1", b="x"), add("stays.split", a="1", b="y")])
    assert log.overwrite_files([add("new.split", a="1", b="x")], dynamic=True) == 2
    info, *actions = log.read_version(2)
    assert isinstance(info, CommitInfo)
    assert info.parameters == {"mode": "Overwrite", "partitionOverwriteMode": "dynamic"}
    assert [(type(action), action.path) for action in actions] == [(Remove, "old.split"), (Add, "new.split")]
    assert live_paths(log) == ["new.split", "stays.split"]


def test_without_files_there_is_no_version(log) -> None:
    log.add_files([add("old.split", a="1", b="x")])
    assert log.overwrite_files([], dynamic=True) == 1
    assert live_paths(log) == ["old.split"]


def test_a_table_without_partition_columns_is_replaced_as_a_whole(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "plain")
    log.initialize(SCHEMA)
    log.add_files([make_add("old.split")])
    assert log.overwrite_files([make_add("new.split")], dynamic=True) == 2
    assert live_paths(log) == ["new.split"]
    assert log.overwrite_files([], dynamic=True) == 3
    assert live_paths(log) == []


@pytest.mark.parametrize(
    ("column", "old", "new", "is_same"),
    [
        ("a", "1", "01", True),
        ("a", "1", "10", False),
        ("a", "one", "one", True),
        ("a", "one", "1", False),
        ("a", "9223372036854775807", "9223372036854775807", True),
        ("a", "9223372036854775807", "9223372036854775806", False),
        ("b", "1", "01", False),
        ("b", "", None, False),
        ("at", "2026-01-01 00:00:00Z", "2026-01-01T01:00:00+01:00", True),
        ("at", "2026-01-01 00:00:00Z", "2026-01-01 00:00:00.000001Z", False),
        ("x", "NaN", "nan", True),
        ("x", "NaN", None, False),
        ("x", "1.0E1", "10", True),
    ],
)
def test_partitions_are_compared_by_value(tmp_path, column, old, new, is_same) -> None:
    log = it.TransactionLog(tmp_path / "table")
    log.initialize(SCHEMA, partition_columns=(column,))
    log.add_files([add("old.split", **{column: old})])
    log.overwrite_files([add("new.split", **{column: new})], dynamic=True)
    assert live_paths(log) == (["new.split"] if is_same else ["new.split", "old.split"])


def test_a_predicate_and_dynamic_partitions_are_not_for_one_overwrite(log) -> None:
    with pytest.raises(ConfigError, match="at once"):
        log.overwrite_files([], where="a = 1", dynamic=True)


def test_a_version_that_was_asked_for_must_be_there(log) -> None:
    log.add_files([add("old.split", a="1", b="x")])
    with pytest.raises(CommitConflictError, match="not at version 0"):
        log.overwrite_files([add("new.split", a="1", b="x")], dynamic=True, if_version=0)


class NewSchema:
    """Gives the table another schema, as a writer of another kind might."""

    name = "ALTER"
    needs_files = False

    def plan(self, start: Head, now: Head, timestamp_ms: int) -> Plan:
        fields = {name: getattr(now.metadata, name) for name in now.metadata.__struct_fields__}
        schema = now.metadata.schema_string.replace('"name":"x"', '"name":"y"')
        return Plan([Metadata(**{**fields, "schema_string": schema})])


@pytest.mark.parametrize("verb", ["add_files", "overwrite_files"])
def test_files_must_fit_what_they_were_made_for(log, verb) -> None:
    made_for = log.reader.head()[1]
    new = [add("new.split", a="1", b="x")]
    log.commit(NewSchema())
    assert log.schema().names[-1] == "y"
    with pytest.raises(CommitConflictError, match="the schema was changed by version 1"):
        getattr(log, verb)(new, made_for=made_for)
    assert live_paths(log) == []
    assert getattr(log, verb)(new, made_for=log.reader.head()[1]) == 2


def test_other_properties_are_no_reason_to_refuse_files(log) -> None:
    made_for = log.reader.head()[1]
    log.set_properties({"spark.indextables.checkpoint.interval": "7"})
    assert log.add_files([add("new.split", a="1", b="x")], made_for=made_for) == 2
