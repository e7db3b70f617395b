"""Bloom filters over (field, term) pairs: the terms that a split may hold.

A filter never excludes a term that was added. The rough filter is read for every split and passes one absent term in
eighteen. Then the fine filter is read: the hashes of all terms (`term_hashes`), or a second Bloom filter in splits of
earlier releases, which passes one in a hundred. A term is hashed by the CRC-32 of its field and itself, mixed with a
salt by two multiplications. Every split has its own salt, so that splits with the same words do not all pass the same
absent word. Arrow handles all terms at once.

    ITF | version | bits set per term | salt | number of bits | length of the names | names of the fields, JSON | bits
"""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_scalar

MAGIC = b"ITF"
_VERSION = 1
_HEAD = struct.Struct("<3sBB3xIQI")
_LEAST_BITS = 64
_PLACES_AT_ONCE = 16 << 20
_FEW_TERMS = 500
_MOST_BITS = 1 << 32
_FIRST_FACTOR = 0x9E3779B97F4A7C15
_SECOND_FACTOR = 0xBF58476D1CE4E5B9
_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF


class Fineness(NamedTuple):
    """Number of bits in a filter per term, and number of bits that a term sets."""

    bits_per_term: int
    num_probes: int


ROUGH = Fineness(6, 4)
FINE = Fineness(10, 7)


class TermFilterBuilder:
    """Collects the terms of a split; a term may be added more than once."""

    def __init__(self) -> None:
        self._hashes = array.array("I")
        self._fields: set[str] = set()
        self._distinct: pa.Array | None = None

    def add_terms(self, field: str, terms: Iterable[str] | pa.Array | pa.ChunkedArray) -> None:
        """Add terms of a field; a field without terms is recorded as empty."""
        self._fields.add(field)
        self._distinct = None
        crc32, seed = zlib.crc32, _seed(field)
        if isinstance(terms, pa.Array | pa.ChunkedArray):
            plain = terms.drop_null().cast(pa.large_binary()).to_pylist()
            self._hashes.extend([crc32(term, seed) for term in plain])
        else:
            self._hashes.extend([crc32(_bytes(term), seed) for term in terms])

    def to_bytes(self, fineness: Fineness = FINE, *, salt: int = 0) -> bytes:
        """Encode a filter; equal terms and an equal 32-bit salt yield equal bytes."""
        (data,) = self.filters((fineness,), salt=salt)
        return data

    @property
    def fields(self) -> frozenset[str]:
        """Fields whose terms were added."""
        return frozenset(self._fields)

    def distinct_crcs(self) -> pa.Array:
        """Return the distinct CRCs of all added terms."""
        if self._distinct is None:
            given = pa.Array.from_buffers(pa.uint32(), len(self._hashes), [None, pa.py_buffer(self._hashes)])
            self._distinct = pc.unique(given)
        return self._distinct

    def filters(self, finenesses: Sequence[Fineness], *, salt: int = 0) -> list[bytes]:
        """Encode several filters; the terms are hashed once."""
        hashes = self.distinct_crcs()
        names = msgspec.json.encode(sorted(self._fields))
        mixed = _mixed(hashes, salt)
        made = []
        for bits_per_term, num_probes in finenesses:
            num_bits = min(max(_LEAST_BITS, -(-len(hashes) * bits_per_term // 8) * 8), _MOST_BITS)
            head = _HEAD.pack(MAGIC, _VERSION, num_probes, salt, num_bits, len(names))
            made.append(head + names + _bits(mixed, num_bits, num_probes))
        return made


class TermFilter:
    """The terms that a split may hold."""

    def __init__(self, fields: frozenset[str], bits: memoryview, num_bits: int, num_probes: int, salt: int) -> None:
        self._fields = fields
        self._salt = salt
        self._bits = bits
        self._num_bits = num_bits
        self._num_probes = num_probes

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> TermFilter | None:
        """Decode a filter; None for an unknown version, `ValueError` if it is damaged."""
        if len(data) < _HEAD.size:
            raise ValueError("a term filter is cut off")
        magic, version, num_probes, salt, num_bits, num_name_bytes = _HEAD.unpack_from(data)
        if magic != MAGIC:
            raise ValueError("a term filter starts with other bytes than it should")
        if version != _VERSION:
            return None
        start = _HEAD.size + num_name_bytes
        if not num_bits or num_bits > _MOST_BITS or num_bits % 8 or len(data) != start + num_bits // 8:
            raise ValueError("a term filter has another length than its header says")
        fields = msgspec.json.decode(memoryview(data)[_HEAD.size : start], type=list[str])
        return cls(frozenset(fields), memoryview(data)[start:], num_bits, num_probes, salt)

    def covers(self, field: str) -> bool:
        """Return whether the filter covers a field."""
        return field in self._fields

    def may_contain(self, field: str, term: str) -> bool:
        """Return whether the split may hold the term; True for an uncovered field."""
        if field not in self._fields:
            return True
        return all(
            self._bits[place >> 3] >> (place & 7) & 1
            for place in _places(crc_of(field, term), self._num_bits, self._num_probes, self._salt)
        )


def crc_of(field: str, term: str) -> int:
    """Return the CRC by which a term of a field is known."""
    return zlib.crc32(_bytes(term), _seed(field))


def _seed(field: str) -> int:
    return zlib.crc32(_bytes(field) + b"\0")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _places(crc32: int, num_bits: int, num_probes: int, salt: int) -> Iterator[int]:
    """Yield the bit positions of one term; `_bits` does the same for many."""
    mixed = mixed_number(crc32, salt)
    first, step = mixed >> 32, mixed & _MASK_32 | 1
    for probe in range(num_probes):
        yield (first + probe * step & _MASK_32) * num_bits >> 32


def _salted(salt: int) -> int:
    """Return the number to add to a CRC: the salt, in the bits above the CRC."""
    return (salt << 32) + 1


def mixed_number(number: int, salt: int = 0) -> int:
    """Mix the bits of a number and of a salt of 32 bits into 64 bits."""
    mixed = (number + _salted(salt)) * _FIRST_FACTOR & _MASK_64
    return (mixed ^ mixed >> 32) * _SECOND_FACTOR & _MASK_64


def mixed_numbers(numbers: pa.Array, salt: int = 0) -> pa.Array:
    """Do the same as `mixed_number` for many numbers."""
    mixed = pc.multiply(pc.add(numbers.cast(pa.uint64()), _number(_salted(salt))), _number(_FIRST_FACTOR))
    return pc.multiply(pc.bit_wise_xor(mixed, pc.shift_right(mixed, _number(32))), _number(_SECOND_FACTOR))


def _mixed(hashes: pa.Array, salt: int) -> tuple[pa.Array, pa.Array]:
    """Return the first place of each term before scaling, and the step to its next."""
    mixed = mixed_numbers(hashes, salt)
    first = pc.shift_right(mixed, _number(32))
    return first, pc.bit_wise_or(pc.bit_wise_and(mixed, _number(_MASK_32)), _number(1))


def _bits(mixed: tuple[pa.Array, pa.Array], num_bits: int, num_probes: int) -> bytes:
    first, step = mixed
    if len(first) <= _FEW_TERMS:
        return _few_bits(first.to_pylist(), step.to_pylist(), num_bits, num_probes)
    bits = 0
    # A scatter takes time for every bit of the filter, so it gets many places at once, in bounded memory.
    probes_at_once = max(1, _PLACES_AT_ONCE // max(1, len(first)))
    for start in range(0, num_probes, probes_at_once):
        places = []
        for probe in range(start, min(start + probes_at_once, num_probes)):
            spread = pc.bit_wise_and(pc.add(first, pc.multiply(step, _number(probe))), _number(_MASK_32))
            places.append(pc.shift_right(pc.multiply(spread, _number(num_bits)), _number(32)).view(pa.int64()))
        bits |= int.from_bytes(bitmap(pa.concat_arrays(places), num_bits), "little")
    return bits.to_bytes(num_bits // 8, "little")


def _few_bits(firsts: list[int], steps: list[int], num_bits: int, num_probes: int) -> bytes:
    """Set the bits of a few terms, for which calls of kernels take longer."""
    bits = bytearray(num_bits // 8)
    for first, step in zip(firsts, steps, strict=True):
        for probe in range(num_probes):
            place = (first + probe * step & _MASK_32) * num_bits >> 32
            bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits)


def bitmap(places: pa.Array, num_bits: int) -> bytes:
    """Set bits at these places, by the validity bitmap of a scatter; whole bytes only."""
    options = pc.ScatterOptions(max_index=num_bits - 1)
    slots = pc.call_function("scatter", [pa.repeat(to_scalar(value=True), len(places)), places], options)
    return b"\xff" * (num_bits // 8) if not slots.null_count else bytes(slots.buffers()[0][: num_bits // 8])


def _number(value: int) -> pa.Scalar:
    return to_scalar(value, pa.uint64())
