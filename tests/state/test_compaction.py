"""The layout of compacted states: a stable sort by the types of the partition columns, whatever the parts were."""

from __future__ import annotations

import datetime
import shutil
import tempfile

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given
from tests.conftest import make_add

import indextables as it
from indextables.config import Config
from indextables.errors import CheckpointWriteError
from indextables.protocol.avro.state_manifest import ManifestInfo, StateManifest
from indextables.protocol.file_table import FILES_SCHEMA, AddedFile, files_table
from indextables.state.changes import Changes
from indextables.state.compaction import is_compact, laid_out, needs_compaction

INT, DATE, TEXT = pa.int32(), pa.date32(), pa.string()


def files(values: list[dict[str, str]]) -> pa.Table:
    """A file for each of these partition values, numbered in their order."""
    adds = (make_add(f"{at}.split", partition_values=value, size=at) for at, value in enumerate(values))
    return files_table(AddedFile(add, 1, 1) for add in adds)


def parts_of(table: pa.Table, lengths: list[int]):
    """The table in parts of these lengths, over and over, read as often as asked."""

    def read(columns):
        chosen = table if columns is None else table.select(columns)
        start, turn = 0, 0
        while start < table.num_rows:
            yield chosen.slice(start, lengths[turn % len(lengths)])
            start, turn = start + lengths[turn % len(lengths)], turn + 1

    return read


def order(values: list[dict[str, str]], types, size: int, lengths: list[int]) -> list[int]:
    chunks = list(laid_out(parts_of(files(values), lengths), types, size))
    assert all(chunk.schema.equals(FILES_SCHEMA) for chunk in chunks)
    assert [chunk.num_rows for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
    assert all(0 < chunk.num_rows <= size for chunk in chunks)
    return [number for chunk in chunks for number in chunk["size"].to_pylist()]


days = st.dates(datetime.date(1990, 1, 1), datetime.date(2030, 1, 1)).map(str)
rows = st.lists(
    st.fixed_dictionaries({}, optional={"n": st.integers(-200, 200).map(str), "d": days, "t": st.sampled_from("aäzZ")}),
    max_size=60,
)


@given(rows, st.integers(1, 20), st.lists(st.integers(1, 15), min_size=1, max_size=4))
def test_files_are_sorted_by_type_and_otherwise_keep_their_order(values, size, lengths) -> None:
    def key(at: int):
        number, day, text = (values[at].get(name) for name in "ndt")
        return (
            (number is None, int(number or 0)),
            (day is None, day or ""),
            (text is None, (text or "").encode()),
        )

    found = order(values, {"n": INT, "d": DATE, "t": TEXT}, size, lengths)
    assert found == sorted(range(len(values)), key=key)


@given(rows, st.integers(1, 20), st.lists(st.integers(1, 15), min_size=1, max_size=4))
def test_without_partitions_files_keep_their_order(values, size, lengths) -> None:
    assert order(values, {}, size, lengths) == list(range(len(values)))


def test_numbers_are_sorted_as_numbers() -> None:
    values = [{"n": text} for text in ("10", "9", "-1", "100", "2")]
    assert order(values, {"n": INT}, 2, [5]) == [2, 4, 1, 0, 3]


def test_a_column_with_an_unreadable_value_is_sorted_as_text() -> None:
    values = [{"n": text} for text in ("10", "9", "many")]
    assert order(values, {"n": INT}, 2, [5]) == [0, 1, 2]
    assert order(values, {"n": pa.list_(INT)}, 2, [5]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        (pa.float64(), ["-1.5", "2", "1.0E2", "Infinity", "NaN"]),
        (pa.decimal128(6, 2), ["-3.00", "2.5", "10.25"]),
        (pa.bool_(), ["false", "true"]),
        (pa.timestamp("us"), ["2024-01-02 00:00:00", "2024-01-10 00:00:00.5"]),
        (pa.timestamp("us", "UTC"), ["2024-01-02 00:00:00", "2024-01-10 00:00:00.5"]),
        (pa.int64(), ["-9223372036854775808", "7", "07", "9223372036854775807"]),
    ],
)
def test_every_type_of_partition_has_its_order(type_, texts) -> None:
    values = [{"p": text} for text in reversed(texts)]
    found = order(values, {"p": type_}, 100, [2])
    assert [values[at]["p"] for at in found] == (texts if "07" not in texts else [texts[0], "07", "7", texts[-1]])


def test_everything_that_a_file_has_survives_the_disk() -> None:
    full = make_add(
        "full.split",
        partition_values={"n": "1", "ü": ""},
        tags={"a": "b"},
        min_values={"c": "x" * 500},
        max_values={},
        split_tags=("s", ""),
        doc_mapping_ref="ref",
        num_merge_ops=3,
        footer_start_offset=1,
    )
    table = files_table([AddedFile(full, 7, 8), *(AddedFile(make_add(f"{at}"), 1, 1) for at in range(9))])
    chunks = list(laid_out(parts_of(table, [3]), {"n": INT}, 4))
    assert pa.concat_tables(chunks).to_pylist() == table.to_pylist()


def test_a_disk_that_fails_is_an_error_about_the_state(monkeypatch) -> None:
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    with pytest.raises(CheckpointWriteError, match="No space left"):
        order([{"n": "1"}], {"n": INT}, 5, [1])


def test_manifests_hold_ranges_of_numbers_that_do_not_overlap(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t", options={"state.entriesPerManifest": 10})
    log.initialize(pa.schema([("id", pa.int64()), ("n", pa.int32())]), partition_columns=("n",))
    for start in range(5):
        log.add_files([make_add(f"{n}", partition_values={"n": str(n)}) for n in range(start, 50, 5)])
    state = log._checkpointer._states.state_at(log.checkpoint().version)
    bounds = [info.partition_bounds["n"] for info in state.manifests]
    assert bounds == [("0", "9"), ("10", "19"), ("20", "29"), ("30", "39"), ("40", "49")]


def test_the_same_log_gives_the_same_manifests(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "a")
    log.initialize(pa.schema([("id", pa.int64()), ("n", pa.int32())]), partition_columns=("n",))
    for start in range(3):
        log.add_files([make_add(f"{n}", partition_values={"n": str(n % 4)}) for n in range(start, 40, 3)])
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    names = []
    for place in ("a", "b"):
        it.TransactionLog(tmp_path / place, options={"state.entriesPerManifest": 7}).checkpoint()
        names.append(sorted(path.name for path in (tmp_path / place / "_transaction_log" / "manifests").iterdir()))
    assert len(names[0]) == 6
    assert names[0] == names[1]


def state_of(num_manifests: int = 1, tombstones: int = 0, num_files: int = 100) -> StateManifest:
    info = ManifestInfo(
        path="manifests/m", num_entries=num_files // num_manifests, min_added_at_version=1, max_added_at_version=1
    )
    return StateManifest(
        state_version=1,
        created_at=1,
        num_files=num_files - tombstones,
        total_bytes=1,
        manifests=(info,) * num_manifests,
        tombstones=tuple(map(str, range(tombstones))),
    )


@pytest.mark.parametrize(
    ("state", "changes", "options", "expected"),
    [
        (state_of(), Changes({}), {}, False),
        (state_of(tombstones=10), Changes({}), {}, False),
        (state_of(tombstones=11), Changes({}), {}, True),
        (state_of(num_manifests=21), Changes({}), {}, False),
        (state_of(num_manifests=22), Changes({}), {}, True),
        (state_of(), Changes({}, most_removed_at_once=10**9), {}, False),
        (state_of(), Changes({}, most_removed_at_once=5), {"state.compaction.largeRemoveThreshold": 5}, False),
        (state_of(), Changes({}, most_removed_at_once=6), {"state.compaction.largeRemoveThreshold": 5}, True),
        (state_of(), Changes({}, has_merge=True), {}, True),
        (state_of(), Changes({}, has_merge=True), {"state.compaction.afterMerge": "false"}, False),
        (state_of(num_files=0), Changes({}), {}, False),
    ],
)
def test_when_a_state_is_compacted(state, changes, options, expected) -> None:
    assert needs_compaction(state, changes, Config.resolve(options=options)) is expected


def test_what_is_compact_already() -> None:
    config = Config.resolve(options={"state.entriesPerManifest": 50})
    assert is_compact(state_of(num_manifests=2), config)
    assert not is_compact(state_of(num_manifests=3), config)
    assert not is_compact(state_of(num_manifests=2, tombstones=1), config)
