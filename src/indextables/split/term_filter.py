"""Which terms a split may hold: Bloom filters over (field, term) pairs.

A filter never denies a term that was added. Of the others the rough one, which is read of every split, cannot rule out
one in eighteen, and then the fine one is asked, which fails for one in a hundred: together they take fewer bytes to
read than one that would say as much. A term is known by the CRC-32 of its field and itself, spread by two
multiplications together with a salt. The salt is another one in every split, so that splits of the same words do not
all fail to rule out the same other word.
All terms are handled at once, by Arrow.

    ITF | version | bits set per term | salt | number of bits | length of the names | names of the fields, JSON | bits
"""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_MAGIC = b"ITF"
_VERSION = 1
_HEAD = struct.Struct("<3sBB3xIQI")
_LEAST_BITS = 64
_MOST_BITS = 1 << 32
_FIRST_FACTOR = 0x9E3779B97F4A7C15
_SECOND_FACTOR = 0xBF58476D1CE4E5B9
_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF


class Fineness(NamedTuple):
    """How many bits a filter has for each term, and how many of them a term sets."""

    bits_per_term: int
    num_probes: int


ROUGH = Fineness(6, 4)
FINE = Fineness(10, 7)


class TermFilterBuilder:
    """Collects the terms of a split; a term may be added more than once."""

    def __init__(self) -> None:
        self._hashes = array.array("I")
        self._fields: set[str] = set()

    def add_terms(self, field: str, terms: Iterable[str] | pa.Array | pa.ChunkedArray) -> None:
        """Add terms of a field. A field without any is known to have none."""
        self._fields.add(field)
        crc32, seed = zlib.crc32, _seed(field)
        if isinstance(terms, pa.Array | pa.ChunkedArray):
            plain = terms.drop_null().cast(pa.large_binary()).unique().to_pylist()
            self._hashes.extend([crc32(term, seed) for term in plain])
        else:
            self._hashes.extend([crc32(_bytes(term), seed) for term in terms])

    def to_bytes(self, fineness: Fineness = FINE, *, salt: int = 0) -> bytes:
        """A filter, the same bytes for the same terms and the same salt of 32 bits."""
        hashes = pc.unique(pa.Array.from_buffers(pa.uint32(), len(self._hashes), [None, pa.py_buffer(self._hashes)]))
        num_bits = min(max(_LEAST_BITS, -(-len(hashes) * fineness.bits_per_term // 8) * 8), _MOST_BITS)
        names = msgspec.json.encode(sorted(self._fields))
        head = _HEAD.pack(_MAGIC, _VERSION, fineness.num_probes, salt, num_bits, len(names))
        return head + names + _bits(hashes, num_bits, fineness.num_probes, salt)


class TermFilter:
    """What terms a split may hold."""

    def __init__(self, fields: frozenset[str], bits: memoryview, num_bits: int, num_probes: int, salt: int) -> None:
        self._fields = fields
        self._salt = salt
        self._bits = bits
        self._num_bits = num_bits
        self._num_probes = num_probes

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> TermFilter | None:
        """The filter, or `None` where this library does not know its version; `ValueError` where it is damaged."""
        if len(data) < _HEAD.size:
            raise ValueError("a term filter is cut off")
        magic, version, num_probes, salt, num_bits, num_name_bytes = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("a term filter starts with other bytes than it should")
        if version != _VERSION:
            return None
        start = _HEAD.size + num_name_bytes
        if not num_bits or num_bits > _MOST_BITS or num_bits % 8 or len(data) != start + num_bits // 8:
            raise ValueError("a term filter has not the length that it says")
        fields = msgspec.json.decode(memoryview(data)[_HEAD.size : start], type=list[str])
        return cls(frozenset(fields), memoryview(data)[start:], num_bits, num_probes, salt)

    def covers(self, field: str) -> bool:
        """Whether anything is known of a field."""
        return field in self._fields

    def may_contain(self, field: str, term: str) -> bool:
        """Whether the split may hold the term; true for a field of which nothing is known."""
        if field not in self._fields:
            return True
        return all(
            self._bits[place >> 3] >> (place & 7) & 1
            for place in _places(zlib.crc32(_bytes(term), _seed(field)), self._num_bits, self._num_probes, self._salt)
        )


def _seed(field: str) -> int:
    return zlib.crc32(_bytes(field) + b"\0")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _places(crc32: int, num_bits: int, num_probes: int, salt: int) -> Iterator[int]:
    """The bits of one term; `_bits` is the same for many."""
    mixed = (crc32 + _salted(salt)) * _FIRST_FACTOR & _MASK_64
    mixed = (mixed ^ mixed >> 32) * _SECOND_FACTOR & _MASK_64
    first, step = mixed >> 32, mixed & _MASK_32 | 1
    for probe in range(num_probes):
        yield (first + probe * step & _MASK_32) * num_bits >> 32


def _salted(salt: int) -> int:
    """What is added to a CRC, in the bits above it."""
    return (salt << 32) + 1


def _bits(hashes: pa.Array, num_bits: int, num_probes: int, salt: int) -> bytes:
    mixed = pc.multiply(pc.add(hashes.cast(pa.uint64()), _number(_salted(salt))), _number(_FIRST_FACTOR))
    mixed = pc.multiply(pc.bit_wise_xor(mixed, pc.shift_right(mixed, _number(32))), _number(_SECOND_FACTOR))
    first = pc.shift_right(mixed, _number(32))
    step = pc.bit_wise_or(pc.bit_wise_and(mixed, _number(_MASK_32)), _number(1))
    bits = 0
    for probe in range(num_probes):
        spread = pc.bit_wise_and(pc.add(first, pc.multiply(step, _number(probe))), _number(_MASK_32))
        bits |= _bitmap(pc.shift_right(pc.multiply(spread, _number(num_bits)), _number(32)), num_bits)
    return bits.to_bytes(num_bits // 8, "little")


def _bitmap(places: pa.Array, num_bits: int) -> int:
    """A number with these bits set: Arrow's bitmap of which slots a scatter has filled."""
    options = pc.ScatterOptions(max_index=num_bits - 1)
    slots = pc.call_function(
        "scatter", [pa.repeat(pa.scalar(value=True), len(places)), places.cast(pa.int64())], options
    )
    if not slots.null_count:
        return (1 << num_bits) - 1
    return int.from_bytes(slots.buffers()[0][: num_bits // 8], "little")


def _number(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint64())
