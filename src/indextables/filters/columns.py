"""Columns of a filter sheet: from hashes of splits to bits, and to rows of bits.

Arrow handles the terms of many splits at once. The columns stand on local disk one after the other; then they are read
in narrow bands, and each bit of all columns becomes one row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import numbers_below, to_scalar
from indextables.filters.sheet import BITS_PER_TERM_AND_PART, NUM_PARTS, WINDOW_BITS
from indextables.split.index.term_filter import bitmap, mixed_numbers
from indextables.split.index.term_hashes import LEAST_EXPONENT, LOW_BITS, MOST_EXPONENT

BITS_PER_TERM = 36
LEAST_BITS_PER_TERM = 8
COLUMN_BYTES_PER_WINDOW = NUM_PARTS * WINDOW_BITS // 8
_TYPICAL = 0.9
_BAND_BYTES = 64
_BITS_OF_A_BYTE = 8


class Geometry(NamedTuple):
    """Number of windows in a part, and number of bits of the hashes."""

    num_windows: int
    hash_bits: int

    @property
    def column_bytes(self) -> int:
        return COLUMN_BYTES_PER_WINDOW * self.num_windows

    @property
    def column_bits(self) -> int:
        return 8 * self.column_bytes


def choose_geometry(exponents: Sequence[int], num_terms: Sequence[int], most_column_bytes: int) -> Geometry | None:
    """Choose the form of a block for splits with these numbers of buckets and terms.

    Nine in ten splits get at least 36 bits a term; larger ones pass more absent terms. Hashes are about as
    long as the longest of nine in ten splits. With less room there are fewer bits, and None if there is too little room
    to be of use.
    """
    if not exponents:
        return None
    typical = min(max(LEAST_EXPONENT, (2 * _most_of(num_terms) // 3).bit_length() + 1), MOST_EXPONENT)
    load = max(1, _most_of([count << max(0, typical - own) for own, count in zip(exponents, num_terms, strict=True)]))
    wanted = -(-load * BITS_PER_TERM // (NUM_PARTS * WINDOW_BITS))
    least = -(-load * LEAST_BITS_PER_TERM // (NUM_PARTS * WINDOW_BITS))
    num_windows = min(wanted, most_column_bytes // COLUMN_BYTES_PER_WINDOW)
    return None if num_windows < least else Geometry(max(1, num_windows), typical + LOW_BITS)


def _most_of(numbers: Sequence[int]) -> int:
    """Return the number that nine in ten do not exceed."""
    return sorted(numbers)[math.ceil(_TYPICAL * len(numbers)) - 1]


def cut_hashes(values: pa.Array[Any], exponent: int, geometry: Geometry) -> pa.Array[Any]:
    """Return hashes of the length of the block: cut, or with all possible last bits."""
    missing = geometry.hash_bits - LOW_BITS - exponent
    if missing <= 0:
        return pc.shift_right(values, _number(-missing))
    numbers = numbers_below(len(values) << missing)
    first = pc.shift_left(values.take(pc.shift_right(numbers, _number(missing))), _number(missing))
    return pc.bit_wise_or(first, pc.bit_wise_and(numbers, _number((1 << missing) - 1)))


def column_bits(hashes: Sequence[pa.Array[Any]], geometry: Geometry) -> bytes:
    """Return the bits of consecutive columns, from the cut hashes of each."""
    starts = [pa.repeat(_number(at * geometry.column_bits), len(each)) for at, each in enumerate(hashes)]
    values, start = pa.concat_arrays(list(hashes)), pa.concat_arrays(starts)
    pairs, picks = (mixed_numbers(values, 1), mixed_numbers(values, 2)), mixed_numbers(values, 3)
    places = []
    for part in range(NUM_PARTS):
        pair = pairs[part // 2]
        half = pc.shift_right(pair, _number(32)) if part % 2 == 0 else pc.bit_wise_and(pair, _number(0xFFFFFFFF))
        window = pc.shift_right(pc.multiply(half, _number(geometry.num_windows)), _number(32))
        at = pc.add(start, pc.multiply(pc.add(window, _number(part * geometry.num_windows)), _number(WINDOW_BITS)))
        for probe in range(BITS_PER_TERM_AND_PART):
            shift = WINDOW_BITS + 4 * (BITS_PER_TERM_AND_PART * part + probe)
            places.append(pc.add(at, pc.bit_wise_and(pc.shift_right(picks, _number(shift)), _number(0xF))))
    if not len(values):
        return bytes(len(hashes) * geometry.column_bytes)
    return bitmap(pa.concat_arrays(places).view(pa.int64()), len(hashes) * geometry.column_bits)


def window_rows(columns: pa.Buffer, num_columns: int, geometry: Geometry) -> Iterator[list[bytes]]:
    """Yield the rows of each window in order, each with one bit of all columns.

    The number of columns is a multiple of eight.
    """
    width = geometry.column_bytes
    array = pa.Array.from_buffers(pa.binary(width), num_columns, [None, columns])
    masks = [to_scalar(1 << bit, pa.uint8()) for bit in range(_BITS_OF_A_BYTE)]
    zero = to_scalar(0, pa.uint8())
    for start in range(0, width, _BAND_BYTES):
        stop = min(start + _BAND_BYTES, width)
        band = bytes(pc.binary_slice(array, start, stop).buffers()[1])[: num_columns * (stop - start)]
        for first in range(0, stop - start, WINDOW_BITS // 8):
            rows = []
            for at in range(first, first + WINDOW_BITS // 8):
                byte = pa.Array.from_buffers(pa.uint8(), num_columns, [None, pa.py_buffer(band[at :: stop - start])])
                for mask in masks:
                    bits = pc.not_equal(pc.bit_wise_and(byte, mask), zero)
                    rows.append(bytes(bits.buffers()[1])[: num_columns // 8])
            yield rows


def _number(value: int) -> pa.Scalar:
    return to_scalar(value, pa.uint64())
