"""Protocol versions and features: who may read, who may write, and that nothing is ever lowered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.errors import ProtocolError
from indextables.protocol.actions import Protocol
from indextables.protocol.features import (
    KNOWN_FEATURES,
    LEGACY_PROTOCOL,
    NEW_TABLE_PROTOCOL,
    check_readable,
    check_writable,
    highest,
    protocol_for,
)

CHECKS = {"reader": check_readable, "writer": check_writable}


def protocol(reader: int = 4, writer: int = 4, reader_features=None, writer_features=None) -> Protocol:
    return Protocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=reader_features,
        writer_features=writer_features,
    )


def test_the_features_known_here() -> None:
    assert {
        "avroState",
        "multiPartCheckpoint",
        "schemaDeduplication",
        "footerOffsets",
        "tantivy4java",
        "conditionalWrites",
        "checkpoints",
        "checkpoint",
        "skippedFiles",
        "extendedMetadata",
        "optimizeWrite",
        "parquetSplits",
    } == KNOWN_FEATURES
    assert (
        protocol(4, 4, ("avroState", "schemaDeduplication"), ("avroState", "schemaDeduplication")) == NEW_TABLE_PROTOCOL
    )
    assert protocol(1, 1) == LEGACY_PROTOCOL


@pytest.mark.parametrize("features", [None, (), tuple(KNOWN_FEATURES)])
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_known_versions_and_features_are_read_and_written(version, features) -> None:
    for check in CHECKS.values():
        check(protocol(version, version, features, features), "t")


@pytest.mark.parametrize("version", [5, 99, 2**31 - 1])
@pytest.mark.parametrize("role", CHECKS)
def test_newer_versions_are_refused(role, version) -> None:
    with pytest.raises(ProtocolError) as caught:
        CHECKS[role](protocol(version, version), "s3://b/t")
    assert f"`s3://b/t` because it needs {role} version {version}, and 4 is the newest known here" in str(caught.value)
    assert "hint: upgrade indextables" in str(caught.value)


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("role", CHECKS)
def test_unknown_features_are_refused_by_name(role, version) -> None:
    features = ("zap", "avroState", "AvroState")
    with pytest.raises(ProtocolError, match=f"needs the {role} features `AvroState`, `zap`, which are not known here"):
        CHECKS[role](protocol(version, version, features, features), "t")


@pytest.mark.parametrize("newer", [protocol(4, 99), protocol(3, 3, None, ("telepathy",)), protocol(1, 5, (), None)])
def test_a_table_too_new_to_write_stays_readable(newer) -> None:
    check_readable(newer, "t")
    with pytest.raises(ProtocolError, match="cannot write `t`"):
        check_writable(newer, "t")


def test_a_table_too_new_to_read_is_not_judged_by_its_writers() -> None:
    with pytest.raises(ProtocolError, match="cannot read `t`"):
        check_readable(protocol(99, 4), "t")
    check_writable(protocol(99, 4), "t")


features = st.none() | st.lists(st.sampled_from([*sorted(KNOWN_FEATURES), "later"]), unique=True, max_size=4).map(tuple)
protocols = st.builds(protocol, st.integers(0, 9), st.integers(0, 9), features, features)


def facts(one: Protocol) -> tuple:
    return (
        one.min_reader_version,
        one.min_writer_version,
        frozenset(one.reader_features or ()),
        frozenset(one.writer_features or ()),
    )


@given(protocols, protocols)
def test_the_highest_of_two_never_lowers_either(left, right) -> None:
    both = highest(left, right)
    assert facts(both) == facts(highest(right, left))
    for one in (left, right):
        assert facts(highest(both, one)) == facts(both)
        assert all(mine >= theirs for mine, theirs in zip(facts(both), facts(one), strict=True))


@given(protocols, protocols)
def test_what_is_satisfied_already_stays_as_it_is(left, right) -> None:
    both = highest(left, right)
    assert highest(both, left) == highest(both, right) == both
    assert highest(left, left) == left


def test_features_are_united_in_a_stable_order() -> None:
    both = highest(
        protocol(3, 3, ("checkpoints", "avroState"), None), protocol(4, 2, ("tantivy4java",), ("avroState",))
    )
    assert both == protocol(4, 3, ("avroState", "checkpoints", "tantivy4java"), ("avroState",))
    assert highest(protocol(4, 4, ("b", "a")), protocol(1, 1, ("a",))).reader_features == ("b", "a")


def test_the_protocol_of_given_versions() -> None:
    assert protocol_for(4, 4) == NEW_TABLE_PROTOCOL
    assert protocol_for(1, 1) == LEGACY_PROTOCOL
    assert protocol_for(2, 4) == protocol(2, 4, None, ("avroState", "schemaDeduplication"))


@pytest.mark.parametrize(("reader", "writer"), [(0, 1), (1, 0), (5, 4), (4, 5), (-1, 4), (99, 99)])
def test_versions_that_nobody_knows_are_refused(reader, writer) -> None:
    with pytest.raises(ProtocolError, match=f"reader version `{reader}` and writer version `{writer}`"):
        protocol_for(reader, writer)
