"""Look-up of a term in a dictionary of which only some pieces are at hand.

A dictionary is a finite state transducer from terms to their numbers, and a list of term infos by number. A state is
stored backwards: its address is the place of its last byte, which says how it is stored. A look-up names the bytes
that it lacks, and goes on when they have been fetched. It reads what the engine reads for the same term.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import NamedTuple

from indextables.split.partial.tantivy_files import Bytes, Dictionary

Lacks = Callable[[int, int], bool]
"""Returns whether a range of the file of terms is not at hand."""
Wanted = tuple[int, int]
"""A range of the file of terms that a look-up needs next."""

# Frequent bytes have a number, from 1 on: their place in this text.
_FREQUENT = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
_INDEXED_FROM = 33
_BLOCK_TERMS = 256
_BLOCK_HEAD = struct.Struct("<QIQIQIBBB")


class TermInfo(NamedTuple):
    """Documents of a term, and its ranges in the field's postings and positions.

    The postings of a field start behind its number of tokens.
    """

    num_documents: int
    postings: tuple[int, int]
    positions: tuple[int, int]


class _State(NamedTuple):
    """A state: its inputs in reverse order, with their packed outputs and addresses.

    `final_output` is None if no term ends here. Addresses are stored as distances from `end`.
    """

    inputs: bytes
    outputs: bytes
    output_size: int
    addresses: bytes
    address_size: int
    final_output: int | None
    end: int

    def follow(self, byte: int) -> tuple[int, int] | None:
        """Return the output and the next address for a byte, or None."""
        at = self.inputs.find(byte)
        if at < 0:
            return None
        if not self.address_size:
            return 0, self.end - 1
        wide, far = self.output_size, self.address_size
        output = int.from_bytes(self.outputs[at * wide : (at + 1) * wide], "little")
        distance = int.from_bytes(self.addresses[at * far : (at + 1) * far], "little")
        return output, self.end - distance if distance else 0


def find_term(data: Bytes, lacks: Lacks, place: Dictionary, term: bytes) -> Generator[Wanted, None, TermInfo | None]:
    """Look up a term; yield each range that is lacking."""
    number = yield from _number_of(data, lacks, place, term)
    if number is None:
        return None
    if number >= place.num_terms:
        raise ValueError("a term has a number above all terms")
    return (yield from _info(data, lacks, place, number))


def _number_of(data: Bytes, lacks: Lacks, place: Dictionary, term: bytes) -> Generator[Wanted, None, int | None]:
    """Follow the bytes of a term from the root; the outputs on the way add up.

    Address 0 is the state where a term ends and nothing follows.
    """
    if place.num_terms == 0:
        return None
    address, number = place.root, 0
    for byte in term:
        if address == 0:
            return None
        state = yield from _state(data, lacks, place, address)
        found = state.follow(byte)
        if found is None:
            return None
        output, address = found
        number += output
    if address == 0:
        return number
    state = yield from _state(data, lacks, place, address)
    return None if state.final_output is None else number + state.final_output


def _state(data: Bytes, lacks: Lacks, place: Dictionary, address: int) -> Generator[Wanted, None, _State]:
    """Read a state; its last bytes say how many it has."""
    base, last = place.start, place.start + address + 1
    if not base < last <= place.fst_end:
        raise ValueError("a state is outside of its dictionary")
    low = max(base, last - 3)
    if lacks(low, last):
        yield low, last
    head = data[low:last]
    kind, number = head[-1], head[-1] & 63
    extra = 0 if number else 1
    if kind >= 0xC0:  # one input, to the state stored before
        return _State(_FREQUENT[number - 1 : number] if number else head[-2:-1], b"", 0, b"", 0, None, address - extra)
    sizes = head[-2 - extra]
    far, wide = sizes >> 4, sizes & 15
    if kind >= 0x80:  # one input
        count, final, indexed = 1, False, 0
        num_bytes = 2 + extra + far + wide
    else:
        count, final = number or {1: 256}.get(head[-2], head[-2]), bool(kind & 0x40)
        indexed = 256 if count >= _INDEXED_FROM else 0
        num_bytes = 2 + extra + indexed + count * (1 + far + wide) + (wide if final else 0)
    start = last - num_bytes
    if start < base:
        raise ValueError("a state is outside of its dictionary")
    if lacks(start, last):
        yield start, last
    raw = data[start:last]
    final_output = int.from_bytes(raw[:wide], "little") if final else None
    outputs = wide if final else 0
    addresses = outputs + count * wide
    inputs = addresses + count * far
    given = raw[inputs : inputs + count] if kind < 0x80 else _FREQUENT[number - 1 : number] if number else raw[-2:-1]
    return _State(given, raw[outputs:addresses], wide, raw[addresses:inputs], far, final_output, start - base)


def _info(data: Bytes, lacks: Lacks, place: Dictionary, number: int) -> Generator[Wanted, None, TermInfo]:
    """Read the info of a term: plain for the first of a block, packed for the others."""
    block, inner = divmod(number, _BLOCK_TERMS)
    start = place.heads + block * _BLOCK_HEAD.size
    end = start + _BLOCK_HEAD.size
    if end > place.infos:
        raise ValueError("a term is outside of its dictionary")
    if lacks(start, end):
        yield start, end
    offset, documents, postings, postings_bytes, positions, positions_bytes, *bits = _BLOCK_HEAD.unpack(data[start:end])
    if inner == 0:
        return TermInfo(documents, (postings, postings + postings_bytes), (positions, positions + positions_bytes))
    document_bits, posting_bits, position_bits = bits
    entry_bits = document_bits + posting_bits + position_bits
    first = entry_bits * (inner - 1)
    low = place.infos + offset + first // 8
    high = place.infos + offset + (first + entry_bits + posting_bits + position_bits + 7) // 8
    if high > place.end:
        raise ValueError("a term is outside of its dictionary")
    if lacks(low, high):
        yield low, high
    packed = int.from_bytes(data[low:high], "little") >> first % 8

    def taken(at: int, count: int) -> int:
        return int(packed >> at & (1 << count) - 1)

    def span(base: int, at: int, count: int) -> tuple[int, int]:
        return base + taken(at, count), base + taken(at + entry_bits, count)

    return TermInfo(
        taken(posting_bits + position_bits, document_bits),
        span(postings, 0, posting_bits),
        span(positions, posting_bits, position_bits),
    )
