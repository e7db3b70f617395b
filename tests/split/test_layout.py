"""The directory of a split: what is written is read back, and nothing else is believed."""

from __future__ import annotations

import msgspec
import pytest

from indextables.errors import CorruptSplitError
from indextables.split.format.layout import (
    Directory,
    Member,
    Piece,
    Pieces,
    Segment,
    check_seal,
    decode_directory,
    encode_directory,
    make_seal,
)

ID = "01234567-89ab-cdef-0123-456789abcdef"


def member(**changes) -> Member:
    facts = {"name": "a.term", "offset": 10, "pieces": [piece()], "raw_crc32": 7}
    return Member(**{**facts, **changes})


def piece(length: int = 20, raw_length: int = 50) -> Piece:
    return Piece(length=length, raw_length=raw_length, crc32=7)


def directory(**changes) -> Directory:
    facts = {
        "layout_version": 1,
        "split_id": ID,
        "num_rows": 5,
        "footer_start_offset": 100,
        "engine": "tantivy",
        "engine_version": "0.27",
        "doc_mapping": "[]",
        "tokenizers": {"default": {"lower": True}},
        "segments": [Segment(name="b", first_row=3, num_rows=2), Segment(name="a", first_row=0, num_rows=3)],
        "members": [member(), member(name="meta.json", offset=30)],
        "page_table": member(name="page-table", offset=164, pieces=[piece(8, 8)]),
        "term_filter": member(name="term-filter", offset=180, pieces=[piece(20, 20)]),
    }
    return Directory(**{**facts, **changes})


def test_a_directory_is_read_back() -> None:
    assert decode_directory(encode_directory(directory()), "k") == directory()
    assert decode_directory(encode_directory(directory(term_filter=None, members=[])), "k").members == []


def test_what_a_newer_writer_adds_is_passed_over() -> None:
    text = encode_directory(directory()).replace('{"', '{"new":[1],"', 1)
    assert decode_directory(text, "k") == directory()


def test_a_newer_layout_is_named() -> None:
    with pytest.raises(CorruptSplitError, match="its layout version is `3`, and this library knows `1` and `2`"):
        decode_directory('{"layout_version": 3}', "k")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"layout_version": 1}', b"\xff", '{"layout_version": "1"}'])
def test_what_is_no_directory_is_refused(text) -> None:
    with pytest.raises(CorruptSplitError, match="cannot read the split `k` because its directory"):
        decode_directory(text, "k")


@pytest.mark.parametrize(
    "changes",
    [
        {"split_id": "x"},
        {"num_rows": -1},
        {"num_rows": 6},
        {"footer_start_offset": 3},
        {"footer_start_offset": 49},
        {"segments": [Segment(name="a", first_row=1, num_rows=4)]},
        {"segments": [Segment(name="a", first_row=0, num_rows=-5), Segment(name="b", first_row=0, num_rows=10)]},
        {"members": [member(), member()]},
        {"members": [member(), member(name="b", offset=29)]},
        {"members": [member(name="../x")]},
        {"members": [member(name="A.TERM"), member(offset=30)]},
        {"members": [member(pieces=[piece(20, 19)])]},
        {"members": [member(pieces=[piece(), piece(-1, 5)])]},
        {"members": [member(pieces=[piece(20, 1 << 40)])]},
        {"members": [member(pieces=[piece(20, 200 << 20)])]},
        {"members": [member(name=str(number), pieces=[]) for number in range(10_001)]},
        {"term_filter": member(offset=90)},
        {"fine_filter": member(name="fine-filter", offset=40, pieces=[piece(20, 20)])},
        {"fine_filter": member(name="fine-filter", offset=90, pieces=[piece(20, 20)])},
        {"term_filter": member(name="term-filter", offset=171, pieces=[piece(20, 20)])},
        {"page_table": member(name="page-table", offset=163, pieces=[piece(8, 8)])},
    ],
)
def test_impossible_directories_are_refused(changes) -> None:
    with pytest.raises(CorruptSplitError, match="cannot read the split `some/key`"):
        decode_directory(msgspec.json.encode(directory(**changes)), "some/key")


def test_a_seal_proves_what_stands_behind_it() -> None:
    seal = make_seal(ID, 1_000, b"behind")
    assert check_seal(seal + b"behind", "k", size=1_000) == ID
    with pytest.raises(CorruptSplitError, match="written with 1000 bytes and has 1001"):
        check_seal(seal + b"behind", "k", size=1_001)
    with pytest.raises(CorruptSplitError, match="does not fit its seal"):
        check_seal(seal + b"behinf", "k", size=1_000)
    with pytest.raises(CorruptSplitError, match="no seal"):
        check_seal(b"x" + seal[1:] + b"behind", "k", size=1_000)
    with pytest.raises(CorruptSplitError, match="before its seal"):
        check_seal(seal[:-1], "k", size=1_000)


def pieces(**changes) -> Pieces:
    facts = {"offset": 10, "tails_offset": 40, "table": member(name="piece-table", offset=50, pieces=[piece(9, 9)])}
    return Pieces(**{**facts, **changes})


def in_pieces(**changes) -> Directory:
    return directory(**{"layout_version": 2, "members": [], "pieces": pieces(), **changes})


def test_an_index_in_pieces_is_read_back() -> None:
    assert decode_directory(encode_directory(in_pieces()), "k") == in_pieces()
    assert in_pieces().index_range == (10, 59)


@pytest.mark.parametrize(
    "changes",
    [
        {"layout_version": 1},
        {"pieces": None},
        {"members": [member()]},
        {"pieces": pieces(offset=3)},
        {"pieces": pieces(offset=41)},
        {"pieces": pieces(tails_offset=51)},
        {"pieces": pieces(table=member(name="piece-table", offset=95, pieces=[piece(9, 9)]))},
    ],
)
def test_an_index_in_impossible_pieces_is_refused(changes) -> None:
    with pytest.raises(CorruptSplitError):
        decode_directory(encode_directory(in_pieces(**changes)), "k")
