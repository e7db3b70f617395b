"""Damage anywhere in a split is found when that part is used, or does no harm; hostile splits do none either."""

from __future__ import annotations

import os
import struct

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.split.split_examples import FILES, KEY, FarStore, open_split, read_rows, small_table, store_at, write_split

from indextables.errors import CorruptSplitError
from indextables.split.format import layout
from indextables.split.format.layout import Directory
from indextables.split.split_file import FinishedSplit, SplitFile


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Where a small split stands, what was said of it, and its bytes."""
    root = tmp_path_factory.mktemp("damage")
    finished = write_split(str(root), small_table())
    return root, finished, (root / KEY).read_bytes()


def use_everything(root, into, finished: FinishedSplit | None, far: bool) -> None:
    """Open the split and use every part of it; all must be right, or it must be called damaged."""
    into.mkdir(exist_ok=True)
    for path in into.iterdir():
        path.unlink()
    store = FarStore(store_at(root)) if far else store_at(root)
    split = SplitFile.open(store, KEY) if finished is None else open_split(root, finished, store=store)
    assert split.num_rows == 5
    assert split.schema.equals(small_table().schema)
    for terms in (split.term_filter(), split.fine_filter()):
        assert terms is not None
        assert terms.may_contain("f0", "one")
        assert not terms.may_contain("f0", "three")
    assert read_rows(split).equals(small_table())
    assert read_rows(split, [4, 1], ["text"]).equals(small_table().take(pa.array([4, 1])).select(["text"]))
    split.extract_index(str(into))
    assert {path.name: path.read_bytes() for path in into.iterdir()} == FILES


def is_noticed(root, into, finished: FinishedSplit | None, data: bytes, *, far: bool = False) -> bool:
    (root / KEY).write_bytes(data)
    try:
        use_everything(root, into, finished, far)
    except CorruptSplitError as error:
        return KEY in error.message
    return False


@pytest.mark.slow
@pytest.mark.parametrize(("knows_offsets", "far"), [(True, False), (True, True), (False, False)])
def test_every_flipped_byte_is_noticed(written, tmp_path, knows_offsets, far) -> None:
    root, finished, data = written
    assert not is_noticed(root, tmp_path / "into", finished, data)
    harmless = [
        position
        for position in range(len(data))
        if not is_noticed(
            root,
            tmp_path / "into",
            finished if knows_offsets else None,
            data[:position] + bytes([data[position] ^ (1 << position % 8)]) + data[position + 1 :],
            far=far,
        )
    ]
    assert harmless == [0, 1, 2, 3]  # the first four bytes say that it is Parquet, and nobody reads them here


@pytest.mark.slow
def test_every_cut_is_noticed(written, tmp_path) -> None:
    root, finished, data = written
    for length in range(len(data)):
        assert is_noticed(root, tmp_path / "into", finished, data[:length])
        assert is_noticed(root, tmp_path / "into", finished, data[:length], far=True)
        assert is_noticed(root, tmp_path / "into", None, data[:length])
    for position in range(4, len(data), 7):
        assert is_noticed(root, tmp_path / "into", finished, data[:position] + data[position + 1 :])
        assert is_noticed(root, tmp_path / "into", None, data[:position] + data[position + 1 :])


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damage_in_many_places_is_noticed(written, tmp_path_factory, data) -> None:
    root, finished, whole = written
    into = tmp_path_factory.mktemp("into")
    start = data.draw(st.integers(4, len(whole) - 1))
    end = data.draw(st.integers(start + 1, len(whole)))
    other = data.draw(st.binary(min_size=1, max_size=64))
    damaged = whole[:start] + other + whole[end:]
    if damaged != whole:
        known, far = data.draw(st.sampled_from([finished, None])), data.draw(st.booleans())
        assert is_noticed(root, into, known, damaged, far=far)


def test_a_split_that_grew_is_read_as_it_was(written, tmp_path) -> None:
    root, finished, data = written
    assert not is_noticed(root, tmp_path / "into", finished, data + b"more")
    assert not is_noticed(root, tmp_path / "into", finished, data + b"more", far=True)
    assert is_noticed(root, tmp_path / "into", None, data + b"more")


def test_another_split_of_the_same_length_is_noticed(written) -> None:
    root, finished, data = written
    (root / KEY).write_bytes(data)
    again = write_split(str(root), small_table(), key="other.split")
    assert again.num_bytes == finished.num_bytes
    other = (root / "other.split").read_bytes()
    mixed = data[: finished.footer_start_offset + 72] + other[finished.footer_start_offset + 72 :]
    (root / KEY).write_bytes(mixed)
    with pytest.raises(CorruptSplitError, match="does not fit its seal"):
        open_split(root, finished)


def test_a_file_that_a_parquet_tool_has_rewritten_is_noticed(written) -> None:
    root, finished, data = written
    (root / KEY).write_bytes(data)
    path = os.path.join(root, KEY)
    kept = pq.read_metadata(path).metadata
    table = pq.ParquetFile(path).read().replace_schema_metadata(kept)
    pq.write_table(table, path)
    assert layout.KEY.encode() in pq.read_metadata(path).metadata
    with pytest.raises(CorruptSplitError, match=r"another tool has rewritten it|behind its end"):
        SplitFile.open(store_at(root), KEY)
    with pytest.raises(CorruptSplitError):
        open_split(root, finished)


def test_no_parquet_and_no_split_are_told_apart(tmp_path) -> None:
    (tmp_path / "text").write_bytes(b"only some text, and no Parquet")
    with pytest.raises(CorruptSplitError, match="cannot read the split `text` because it does not end like"):
        SplitFile.open(store_at(tmp_path), "text")
    pq.write_table(small_table(), tmp_path / "plain")
    with pytest.raises(CorruptSplitError, match=r"has no `indextables.split`"):
        SplitFile.open(store_at(tmp_path), "plain")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(CorruptSplitError, match="too short"):
        SplitFile.open(store_at(tmp_path), "empty")


def forge(root, change) -> FinishedSplit:
    """A split whose directory says something else, under a seal that fits."""
    finished = write_split(str(root), small_table())
    data = (root / KEY).read_bytes()
    directory = open_split(root, finished).directory
    old = layout.encode_directory(directory).encode()
    new = msgspec.json.encode(change(directory), order="sorted")
    start = data.index(old)
    room = len(old)
    assert len(new) <= room
    behind = data[:start] + new + b" " * (room - len(new)) + data[start + room :]
    tail = behind[finished.footer_start_offset + layout.SEAL_BYTES :]
    seal = layout.make_seal(directory.split_id, len(data), tail)
    (root / KEY).write_bytes(behind[: finished.footer_start_offset] + seal + tail)
    return finished


def with_first(directory: Directory, **changes) -> Directory:
    first = directory.members[0]
    of_piece = {name: changes.pop(name) for name in ("length", "raw_length") if name in changes}
    first = msgspec.structs.replace(first, pieces=[msgspec.structs.replace(first.pieces[0], **of_piece)], **changes)
    return msgspec.structs.replace(directory, engine="", engine_version="", members=[first, *directory.members[1:]])


def test_a_forged_directory_that_changes_nothing_is_read(tmp_path) -> None:
    assert open_split(tmp_path, forge(tmp_path, lambda directory: directory)).num_rows == 5


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/b", "a\\b", "x\0", "", ".", "..", "s.term", "S.TERM", "ü"])
def test_hostile_names_are_refused(tmp_path, name) -> None:
    finished = forge(tmp_path, lambda directory: with_first(directory, name=name))
    with pytest.raises(CorruptSplitError, match=r"name|understood"):
        open_split(tmp_path, finished)


@pytest.mark.parametrize(
    "changes", [{"raw_length": 319}, {"raw_length": 321}, {"raw_length": 0}, {"length": 5, "raw_length": 5}]
)
def test_members_that_unpack_to_another_length_are_refused(tmp_path, changes) -> None:
    finished = forge(tmp_path, lambda directory: with_first(directory, **changes))
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(CorruptSplitError, match=r"cannot be unpacked|lengths|checksum"):
        open_split(tmp_path, finished).extract_index(str(into))


@pytest.mark.parametrize("changes", [{"offset": 3}, {"offset": -1}, {"length": 9**8, "raw_length": 9**8}])
def test_members_in_impossible_places_are_refused(tmp_path, changes) -> None:
    finished = forge(tmp_path, lambda directory: with_first(directory, **changes))
    with pytest.raises(CorruptSplitError, match=r"has an impossible offset|unpack to far more"):
        open_split(tmp_path, finished)


def test_bombs_are_refused_before_anything_is_unpacked(tmp_path) -> None:
    finished = forge(tmp_path, lambda directory: with_first(directory, raw_length=200_000_000))
    with pytest.raises(CorruptSplitError, match="unpack to far more"):
        open_split(tmp_path, finished)


def test_a_footer_that_claims_to_be_huge_is_refused(tmp_path) -> None:
    (tmp_path / "huge").write_bytes(b"x" * 100 + struct.pack("<I4s", 2**32 - 1, b"PAR1"))
    with pytest.raises(CorruptSplitError, match="longer than it can be"):
        SplitFile.open(store_at(tmp_path), "huge")
