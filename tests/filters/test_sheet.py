"""The format of filter sheets: what is written is read, and damaged bytes are never used."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.filters.columns import Geometry, choose_geometry, column_bits, cut_hashes, window_rows
from indextables.filters.sheet import (
    FIRST_READ,
    Block,
    Covered,
    Header,
    Kind,
    Sheet,
    SheetError,
    decode_sheet,
    encode_header,
    encode_window,
    header_end,
    pack_kinds,
    with_offsets,
)
from indextables.split.index.term_filter import TermFilterBuilder
from indextables.split.index.term_hashes import LOW_BITS, TermHashes, encode_hashes, hash_of, read_filter

_IDENTITY = bytes(range(16))


def header(num_entries: int = 3, mapping: str = "{}", **changes) -> Header:
    made = Header(
        manifests=(Covered("_transaction_log/manifests/a.avro", num_entries),),
        kinds=(Kind("tantivy", "0.27", mapping, ("f0",)),),
        kinds_of_entries=pack_kinds(bytes([1, 0, 1][:num_entries])),
        blocks=(Block(0, num_entries, 5, 26),),
    )
    return with_offsets(msgspec.structs.replace(made, **changes))


def hashes_of(terms: list[str]) -> TermHashes:
    builder = TermFilterBuilder()
    builder.add_terms("f0", terms)
    found = read_filter(encode_hashes(builder.distinct_crcs(), builder.fields))
    assert isinstance(found, TermHashes)
    return found


@pytest.mark.parametrize("mapping", ["{}", "x" * 40_000])
def test_a_header_is_read_back_and_the_blocks_start_behind_it(mapping) -> None:
    made = header(mapping=mapping)
    data = encode_header(made, _IDENTITY)
    assert len(data) % FIRST_READ == 0
    assert made.blocks[0].offset == len(data)
    assert header_end(data[:FIRST_READ]) <= len(data)
    assert decode_sheet(data, "key") == Sheet(made, _IDENTITY, "key")
    assert made.entry_kinds() == bytes([1, 0, 1])


def test_a_damaged_header_is_refused() -> None:
    made = header()
    data = encode_header(made, _IDENTITY)
    for place in range(header_end(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(SheetError):
            decode_sheet(bytes(damaged), "key")
    for length in range(0, header_end(data), 7):
        with pytest.raises(SheetError):
            decode_sheet(data[:length], "key")


@pytest.mark.parametrize(
    "changes",
    [
        {"blocks": (Block(0, 2, 5, 26),)},
        {"blocks": (Block(0, 2, 5, 26), Block(0, 1, 5, 26))},
        {"blocks": (Block(0, 3, 0, 26),)},
        {"blocks": (Block(0, 3, 5, 65),)},
        {"manifests": (Covered("a", -1), Covered("b", 4))},
    ],
)
def test_impossible_numbers_are_refused(changes) -> None:
    with pytest.raises(SheetError):
        decode_sheet(encode_header(header(**changes), _IDENTITY), "key")


@pytest.mark.parametrize("kinds", [b"", b"\1\1", b"\1\1\1\1", b"\1\2\1"])
def test_kinds_that_do_not_fit_are_refused(kinds) -> None:
    with pytest.raises(SheetError):
        header(kinds_of_entries=pack_kinds(kinds)).entry_kinds()
    with pytest.raises(SheetError):
        header(kinds_of_entries=b"\0" + kinds).entry_kinds()


def test_a_window_passes_only_whole_and_at_its_place() -> None:
    made = header()
    sheet = Sheet(made, _IDENTITY, "key")
    row_bytes = made.blocks[0].row_bytes
    stored = encode_window(_IDENTITY, 0, 2, 3, [bytes([bit]) * row_bytes for bit in range(16)])
    assert len(stored) == made.blocks[0].window_bytes
    assert sheet.rows(0, 2, 3, stored) == stored[:-4]
    for place in range(len(stored)):
        with pytest.raises(SheetError):
            sheet.rows(0, 2, 3, stored[:place] + bytes([stored[place] ^ 16]) + stored[place + 1 :])
    with pytest.raises(SheetError):
        sheet.rows(0, 2, 3, stored[:-1])
    for block, part, window in ((1, 2, 3), (0, 1, 3), (0, 2, 4)):
        with pytest.raises((SheetError, IndexError)):
            sheet.rows(block, part, window, stored)
    with pytest.raises(SheetError):
        Sheet(made, bytes(16), "key").rows(0, 2, 3, stored)


_SPLITS = st.lists(st.lists(st.text(max_size=4), max_size=30), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(_SPLITS, st.integers(1, 40), st.integers(-6, 3))
def test_no_column_denies_a_term_of_its_split(splits, num_windows, more_bits) -> None:
    """Hashes may be shorter than a split's, or longer."""
    geometry = Geometry(num_windows, 10 + LOW_BITS + more_bits)
    found = [hashes_of(terms) for terms in splits]
    columns = [cut_hashes(each.values(), each.exponent, geometry) for each in found]
    for cut, terms in zip(columns, splits, strict=True):
        assert {hash_of("f0", term, geometry.hash_bits) for term in terms} <= set(cut.to_pylist())
    num_padded = -(-len(splits) // 64) * 64
    data = column_bits(columns, geometry) + bytes((num_padded - len(splits)) * geometry.column_bytes)
    windows = list(window_rows(pa.py_buffer(data), num_padded, geometry))
    assert len(windows) == 4 * num_windows
    block = Block(0, len(splits), num_windows, geometry.hash_bits)
    for at, terms in enumerate(splits):
        for term in terms:
            for part, window, bits in block.places(hash_of("f0", term, geometry.hash_bits)):
                rows = windows[part * num_windows + window]
                assert all(rows[bit][at >> 3] >> (at & 7) & 1 for bit in bits)
    is_set = {
        (part * num_windows + window, bit, at)
        for at, cut in enumerate(columns)
        for value in cut.to_pylist()
        for part, window, bits in block.places(value)
        for bit in bits
    }
    assert is_set == {
        (number, bit, at)
        for number, rows in enumerate(windows)
        for bit in range(16)
        for at in range(num_padded)
        if rows[bit][at >> 3] >> (at & 7) & 1
    }


def test_about_one_absent_term_in_a_hundred_thousand_passes() -> None:
    splits = [[f"{at}-{number}" for number in range(900 + at)] for at in range(64)]
    found = [hashes_of(terms) for terms in splits]
    geometry = choose_geometry([each.exponent for each in found], [each.num_terms for each in found], 1 << 30)
    columns = column_bits([cut_hashes(each.values(), each.exponent, geometry) for each in found], geometry)
    windows = list(window_rows(pa.py_buffer(columns), 64, geometry))
    block = Block(0, 64, geometry.num_windows, geometry.hash_bits)

    def passing(term: str) -> int:
        left = (1 << 64) - 1
        for part, window, bits in block.places(hash_of("f0", term, geometry.hash_bits)):
            for bit in bits:
                left &= int.from_bytes(windows[part * geometry.num_windows + window][bit], "little")
        return left.bit_count()

    assert sum(passing(f"absent-{number}") for number in range(10_000)) < 64 * 10_000 * 2e-5


def test_less_room_makes_smaller_columns_until_they_are_of_no_use() -> None:
    wide = choose_geometry([13] * 10, [4_000] * 10, 1 << 30)
    assert wide == Geometry(2_250, 13 + LOW_BITS)
    narrow = choose_geometry([13] * 10, [4_000] * 10, 8_000)
    assert narrow == Geometry(1_000, 13 + LOW_BITS)
    assert choose_geometry([13] * 10, [4_000] * 10, 3_000) is None
    assert choose_geometry([], [], 3_000) is None


def test_one_large_split_among_many_does_not_make_all_columns_large() -> None:
    many = choose_geometry([11] * 99 + [21], [1_000] * 99 + [1_000_000], 1 << 40)
    assert many is not None
    assert many == choose_geometry([11] * 100, [1_000] * 100, 1 << 40)
