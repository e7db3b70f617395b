"""File tables: every field of an add goes into Arrow and comes back."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.protocol_examples import ACTIONS

from indextables.protocol.actions import Add
from indextables.protocol.file_table import FILES_SCHEMA, AddedFile, adds_of, files_table

longs = st.integers(-(2**63), 2**63 - 1)


def test_there_is_a_column_for_every_field() -> None:
    assert FILES_SCHEMA.names == [*Add.__struct_fields__, "added_at_version", "added_at_timestamp"]


@given(st.lists(st.builds(AddedFile, ACTIONS["add"], longs, longs), max_size=4))
def test_adds_come_back_equal(entries) -> None:
    table = files_table(entries)
    table.validate(full=True)
    assert table.schema == FILES_SCHEMA
    assert adds_of(table) == [entry.add for entry in entries]
    assert table["added_at_version"].to_pylist() == [entry.version for entry in entries]
    assert table["added_at_timestamp"].to_pylist() == [entry.timestamp_ms for entry in entries]


def test_no_file_is_a_table_too() -> None:
    assert files_table([]).equals(pa.Table.from_pylist([], schema=FILES_SCHEMA))
