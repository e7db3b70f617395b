"""Structure of the engine's files: parts of each field, and what opening reads.

A segment is a set of files. Terms, postings, positions and field norms are composite files: the bytes of one field
after the other, then a table of their places. Every file ends with a footer that holds a checksum and a version.

Opening an index reads the end of every file. The first use of a field reads its number of tokens, and the ends of its
term dictionary; the engine keeps them, so they must be right from the start. These places are the tails.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol

TERMS, POSTINGS, POSITIONS, NORMS, FAST, STORE = "term", "idx", "pos", "fieldnorm", "fast", "store"
COMPOSITE = (TERMS, POSTINGS, POSITIONS, NORMS)

_END = struct.Struct("<II")  # length of the footer before it, and a mark
_MARK = 1337
_MOST_FOOTER_BYTES = 50_000
TOKENS_BYTES = 8
_FST_START, _FST_END = 16, 16
_DICTIONARY_END = struct.Struct("<QII")  # bytes of the term infos, version, kind of dictionary
_INFOS_HEAD = struct.Struct("<QQ")  # bytes of the block heads, number of terms
_DICTIONARY_VERSION = (1, 1)
_FST_ENDS = struct.Struct("<QQ")
_FST_VERSION = 2
_COLUMNS_END = struct.Struct("<QI4s4s")
_COLUMNS_VERSION, _COLUMNS_MARK = b"\x02\0\0\0", b"\x02\x71\x77\x42"
_STORE_END = struct.Struct("<IQ")
_STORE_END_BYTES = 28
_SMALL_DICTIONARY_BYTES = 4_096


class Bytes(Protocol):
    """Bytes of a file, in memory or mapped."""

    def __getitem__(self, place: slice, /) -> bytes: ...

    def __len__(self) -> int: ...


class Part(NamedTuple):
    """A range of a file that belongs to one field; None for what belongs to no field."""

    start: int
    end: int
    field: int | None
    is_tail: bool = False


class Dictionary(NamedTuple):
    """Places in the term dictionary of a field, and its number of terms."""

    start: int
    end: int
    fst_end: int
    heads: int
    infos: int
    num_terms: int
    root: int


def kind_of(name: str) -> str:
    """Return the kind of a file of an index, which is the end of its name."""
    return name.rpartition(".")[2]


def parts_of(name: str, data: Bytes) -> list[Part]:
    """Return the parts of a file, without gaps; raise `ValueError` if it is unknown."""
    kind, size = kind_of(name), len(data)
    if kind in COMPOSITE:
        return list(_composite_parts(kind, data))
    if kind == FAST:
        tail = _columns_end(data)
    elif kind == STORE:
        tail = _store_end(data)
    else:
        tail = 0
    found = (Part(0, tail, None), Part(tail, size, None, is_tail=True))
    return [part for part in found if part.start < part.end]


def fields_of(data: Bytes) -> dict[int, tuple[int, int]]:
    """Return the range of each field in a composite file."""
    return _fields(data)[0]


def dictionary_at(data: Bytes, start: int, end: int) -> Dictionary:
    """Return the places in a term dictionary, by its tails."""
    least = _FST_START + _FST_END + _INFOS_HEAD.size + _DICTIONARY_END.size
    if end - start < least:
        raise ValueError("a term dictionary is too short")
    infos_bytes, *version = _DICTIONARY_END.unpack(data[end - _DICTIONARY_END.size : end])
    fst_end = end - _DICTIONARY_END.size - infos_bytes
    fst_ends = range(start + _FST_START + _FST_END, end - _DICTIONARY_END.size - _INFOS_HEAD.size + 1)
    if tuple(version) != _DICTIONARY_VERSION or fst_end not in fst_ends:
        raise ValueError("a term dictionary is of an unknown version")
    fst_version, _ = _FST_ENDS.unpack(data[start : start + _FST_START])
    num_keys, root = _FST_ENDS.unpack(data[fst_end - _FST_END : fst_end])
    heads_bytes, num_terms = _INFOS_HEAD.unpack(data[fst_end : fst_end + _INFOS_HEAD.size])
    heads = fst_end + _INFOS_HEAD.size
    infos = heads + heads_bytes
    if fst_version != _FST_VERSION or num_keys != num_terms or infos > end - _DICTIONARY_END.size:
        raise ValueError("a term dictionary is of an unknown version")
    if root and start + root + _FST_END + 1 != fst_end:
        raise ValueError("the root of a term dictionary is not at its end")
    return Dictionary(start, end, fst_end, heads, infos, num_terms, root)


def _composite_parts(kind: str, data: Bytes) -> Iterator[Part]:
    fields, table = _fields(data)
    place = 0
    for field, (start, end) in sorted(fields.items(), key=lambda item: item[1]):
        if start != place:
            raise ValueError("the fields of a file do not follow each other")
        yield from _field_parts(kind, data, field, start, end)
        place = end
    if place != table:
        raise ValueError("the fields of a file do not follow each other")
    yield Part(table, len(data), None, is_tail=True)


def _field_parts(kind: str, data: Bytes, field: int, start: int, end: int) -> Iterator[Part]:
    if kind == POSTINGS:
        tails = [(start, start + TOKENS_BYTES)]
    elif kind == TERMS:
        found = dictionary_at(data, start, end)
        middle = (found.fst_end - _FST_END, found.heads)
        tails = [(start, start + _FST_START), middle, (end - _DICTIONARY_END.size, end)]
        if end - start <= _SMALL_DICTIONARY_BYTES:
            tails = [(start, end)]
    else:
        tails = []
    place = start
    for first, last in tails:
        if not place <= first <= last <= end:
            raise ValueError("a field is too short")
        if place < first:
            yield Part(place, first, field)
        yield Part(first, last, field, is_tail=True)
        place = last
    if place < end:
        yield Part(place, end, field)


def _fields(data: Bytes) -> tuple[dict[int, tuple[int, int]], int]:
    """Return the range of each field, and the place of the table behind them."""
    end = _body_end(data)
    if end < 4:
        raise ValueError("a file is too short")
    table_bytes = int.from_bytes(data[end - 4 : end], "little")
    start = end - 4 - table_bytes
    if start < 0:
        raise ValueError("the table of a file is larger than the file")
    table = data[start : end - 4]
    count, place = _variable(table, 0)
    numbers: list[int] = []
    starts: list[int] = []
    offset = 0
    for _ in range(count):
        step, place = _variable(table, place)
        offset += step
        numbers.append(int.from_bytes(table[place : place + 4], "little"))
        index, place = _variable(table, place + 4)
        if index:
            raise ValueError("a field has several parts in one file")
        starts.append(offset)
    if place != len(table) or len(set(numbers)) != count:
        raise ValueError("the table of a file cannot be understood")
    ends = [*starts[1:], start]
    return dict(zip(numbers, zip(starts, ends, strict=True), strict=True)), start


def _body_end(data: Bytes) -> int:
    """Return where the footer of a file starts."""
    size = len(data)
    if size < _END.size:
        raise ValueError("a file is too short")
    footer_bytes, mark = _END.unpack(data[size - _END.size : size])
    if mark != _MARK or footer_bytes > min(_MOST_FOOTER_BYTES, size - _END.size):
        raise ValueError("a file has no footer")
    return size - _END.size - int(footer_bytes)


def _columns_end(data: Bytes) -> int:
    """Return where the list of columns starts in a file of fast fields."""
    end = _body_end(data)
    if end < _COLUMNS_END.size:
        raise ValueError("a file is too short")
    list_bytes, _, version, mark = _COLUMNS_END.unpack(data[end - _COLUMNS_END.size : end])
    start = end - _COLUMNS_END.size - list_bytes
    if version != _COLUMNS_VERSION or mark != _COLUMNS_MARK or start < 0:
        raise ValueError("a file of columns is of an unknown version")
    return int(start)


def _store_end(data: Bytes) -> int:
    """Return where the list of blocks starts in a document store."""
    end = _body_end(data)
    if end < _STORE_END_BYTES:
        raise ValueError("a file is too short")
    _, start = _STORE_END.unpack(data[end - _STORE_END_BYTES : end - _STORE_END_BYTES + _STORE_END.size])
    if start > end - _STORE_END_BYTES:
        raise ValueError("a document store cannot be understood")
    return int(start)


def _variable(data: bytes, place: int) -> tuple[int, int]:
    """Read a number of seven bits a byte; its last byte has the eighth bit set."""
    value = shift = 0
    while place < len(data):
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte & 128:
            return value, place
        shift += 7
    raise ValueError("a number has no end")
