"""Hashes of all (field, term) pairs of a split, sorted: its fine filter.

A hash has 17 bits more than the number of terms takes, so one absent term in 130,000 to 260,000 passes. The high part
of the sorted hashes is stored as a row of bits: a one for each term, and a zero for the end of each bucket. The low 16
bits follow each other. That takes 19 to 21 bits a term, fewer than a Bloom filter of this accuracy. All splits share
one hash function, so that the filters of many splits can be laid side by side in a sheet (`indextables.filters`).

    ITF | 2 | exponent | 0 | number of terms | length of the names | names of the fields, JSON | low parts | high parts

There are 2 ** exponent buckets. It is a version 2 of the format of `term_filter`: earlier releases pass over it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import numbers_below, to_array, to_scalar
from indextables.runtime.caching import lazy_property
from indextables.split.index.term_filter import MAGIC, TermFilter, bitmap, crc_of, mixed_number, mixed_numbers

LOW_BITS = 16
LEAST_EXPONENT, MOST_EXPONENT = 10, 28
_VERSION = 2
_HEAD = struct.Struct("<3sBB3xIQI")
_BLOCK = 512
_FEW_TERMS = 500


def encode_hashes(hashes: pa.Array[Any], fields: Collection[str]) -> bytes:
    """Encode the distinct CRCs of terms; equal terms yield equal bytes."""
    exponent = min(max(LEAST_EXPONENT, (max(1, len(hashes)) - 1).bit_length() + 1), MOST_EXPONENT)
    names = msgspec.json.encode(sorted(fields))
    head = _HEAD.pack(MAGIC, _VERSION, exponent, 0, len(hashes), len(names))
    encode = _encode_few if len(hashes) <= _FEW_TERMS else _encode_many
    return b"".join([head, names, *encode(hashes, exponent)])


def read_filter(data: bytes | memoryview) -> TermFilter | TermHashes | None:
    """Decode a filter of either kind; None for an unknown version."""
    if len(data) > len(MAGIC) and bytes(data[: len(MAGIC)]) == MAGIC and data[len(MAGIC)] == _VERSION:
        return TermHashes.from_bytes(data)
    return TermFilter.from_bytes(data)


class TermHashes:
    """The terms that a split may hold, with few others."""

    def __init__(self, fields: frozenset[str], exponent: int, lows: memoryview, highs: memoryview) -> None:
        self.fields = fields
        self.exponent = exponent
        self.num_terms = len(lows) // 2
        self._lows = lows
        self._highs = highs

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> TermHashes:
        """Decode the hashes of version 2, or raise a `ValueError`."""
        if len(data) < _HEAD.size:
            raise ValueError("a term filter is cut off")
        _, _, exponent, _, num_terms, num_name_bytes = _HEAD.unpack_from(data)
        if not LEAST_EXPONENT <= exponent <= MOST_EXPONENT:
            raise ValueError("a term filter has an impossible number of buckets")
        start = _HEAD.size + num_name_bytes
        middle = start + 2 * num_terms
        if len(data) != middle + _num_high_bytes(num_terms, exponent):
            raise ValueError("a term filter has another length than its header says")
        fields = msgspec.json.decode(memoryview(data)[_HEAD.size : start], type=list[str])
        found = cls(frozenset(fields), exponent, memoryview(data)[start:middle], memoryview(data)[middle:])
        if int.from_bytes(found._highs).bit_count() != num_terms:
            raise ValueError("a term filter has another number of terms than its header says")
        return found

    def covers(self, field: str) -> bool:
        """Return whether the hashes cover a field."""
        return field in self.fields

    def may_contain(self, field: str, term: str) -> bool:
        """Return whether the split may hold the term; True for an uncovered field."""
        if field not in self.fields:
            return True
        value = hash_of(field, term, self.exponent + LOW_BITS)
        bucket, low = value >> LOW_BITS, value & 0xFFFF
        start = self._end_of(bucket - 1) if bucket else 0
        end = self._end_of(bucket)
        wanted = low.to_bytes(2, "little")
        return any(self._lows[2 * at : 2 * at + 2] == wanted for at in range(start, end))

    def values(self) -> pa.Array[Any]:
        """Return the hashes in order, of `exponent` + 16 bits each."""
        bits = pa.Array.from_buffers(pa.bool_(), 8 * len(self._highs), [None, pa.py_buffer(self._highs)])
        high = pc.subtract(pc.indices_nonzero(bits), numbers_below(self.num_terms))
        low = pa.Array.from_buffers(pa.uint16(), self.num_terms, [None, pa.py_buffer(self._lows)]).cast(pa.uint64())
        return pc.bit_wise_or(pc.shift_left(high, _number(LOW_BITS)), low)

    @property
    def parts(self) -> tuple[memoryview, memoryview]:
        """Low and high parts of the hashes, as they are stored."""
        return self._lows, self._highs

    @classmethod
    def of_parts(cls, exponent: int, num_terms: int, data: memoryview) -> TermHashes:
        """Return the hashes of joined parts, without their fields."""
        return cls(frozenset(), exponent, data[: 2 * num_terms], data[2 * num_terms :])

    def _end_of(self, bucket: int) -> int:
        """Return the number of terms up to the end of a bucket: the ones before its zero."""
        before, place = 0, 0
        for zeros in self._zeros:
            if before + zeros > bucket:
                break
            before += zeros
            place += _BLOCK
        for byte in self._highs[place : place + _BLOCK]:
            zeros = 8 - byte.bit_count()
            if before + zeros > bucket:
                break
            before += zeros
            place += 1
        bit, byte = 0, self._highs[place]
        while before < bucket or byte >> bit & 1:
            before += not byte >> bit & 1
            bit += 1
        return 8 * place + bit - bucket

    @lazy_property
    def _zeros(self) -> list[int]:
        """Number of zeros in each block of the high parts."""
        blocks = (self._highs[at : at + _BLOCK] for at in range(0, len(self._highs), _BLOCK))
        return [8 * len(block) - int.from_bytes(block).bit_count() for block in blocks]


def hash_of(field: str, term: str, num_bits: int) -> int:
    """Return the first bits of the hash of a term."""
    return mixed_number(crc_of(field, term)) >> (64 - num_bits)


def _num_high_bytes(num_terms: int, exponent: int) -> int:
    return -(-(num_terms + (1 << exponent)) // 8)


def _encode_many(hashes: pa.Array[Any], exponent: int) -> tuple[bytes, bytes]:
    values = pc.shift_right(mixed_numbers(hashes), _number(64 - LOW_BITS - exponent))
    values = values.take(pc.sort_indices(values))
    places = pc.add(pc.shift_right(values, _number(LOW_BITS)), numbers_below(len(values)))
    num_bytes = _num_high_bytes(len(values), exponent)
    lows = pc.bit_wise_and(values, _number(0xFFFF)).cast(pa.uint16())
    return bytes(lows.buffers()[1])[: 2 * len(values)], bitmap(places.view(pa.int64()), 8 * num_bytes)


def _encode_few(hashes: pa.Array[Any], exponent: int) -> tuple[bytes, bytes]:
    """Encode a few hashes, for which calls of kernels take longer."""
    values = sorted(mixed_number(crc) >> (64 - LOW_BITS - exponent) for crc in hashes.to_pylist())
    high = bytearray(_num_high_bytes(len(values), exponent))
    for at, value in enumerate(values):
        place = (value >> LOW_BITS) + at
        high[place >> 3] |= 1 << (place & 7)
    lows = to_array([value & 0xFFFF for value in values], pa.uint16())
    return bytes(lows.buffers()[1])[: 2 * len(values)], bytes(high)


def _number(value: int) -> pa.Scalar:
    return to_scalar(value, pa.uint64())
