"""Flipped bits: the regions of every kind of file of a table, and the bits of them that are flipped one at a time."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from indextables.config import Config
from indextables.filters.sheet import FIRST_READ
from indextables.protocol.thrift import read_struct
from indextables.split.format.layout import MAGIC, SEAL_BYTES, Directory
from indextables.split.split_file import SplitFile
from indextables.store import open_store

_TRAILER_BYTES = 8
_STORED_BYTES = 3  # the field of a page's header that says how long the page is
_SHEET_HEADER_BYTES = 400
_PAGES = 5  # one header in so many is a region of its own


class Region(NamedTuple):
    """A stretch of a file that means one thing."""

    path: str
    name: str
    start: int
    end: int


class Flip(NamedTuple):
    """One bit."""

    region: Region
    position: int
    bit: int

    def __str__(self) -> str:
        return f"{self.region.name}: bit {self.bit} of byte {self.position} of {self.region.path}"


def regions_of(root: Path) -> list[Region]:
    """The regions of all files below a directory: those of splits by their layout, those of other files whole.

    Counts of decoding are left out: they are sizes of files, and their bytes say nothing.
    """
    found: list[Region] = []
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size):
        if path.suffix == ".spent":
            continue
        relative = path.relative_to(root).as_posix()
        if path.suffix == ".split":
            found += _split_regions(root, relative)
        else:
            found.append(Region(relative, _kind(relative), 0, path.stat().st_size))
    return found


def sheet_regions(region: Region) -> list[Region]:
    """The header of a filter sheet, and its windows."""
    return [
        Region(region.path, "filter sheet header", region.start, region.start + _SHEET_HEADER_BYTES),
        Region(region.path, "filter sheet windows", region.start + FIRST_READ, region.end),
    ]


def flips_of(region: Region, *, most: int) -> Iterator[Flip]:
    """At most so many bits of a region: the first and the last byte, and others evenly between them; or the middle."""
    length = region.end - region.start
    count = min(most, length)
    for number in range(count):
        place = region.start + (length // 2 if count == 1 else number * (length - 1) // (count - 1))
        yield Flip(region, place, (number * 3 + place) % 8)


@contextlib.contextmanager
def flipped(root: Path, flip: Flip) -> Iterator[None]:
    """A file with one bit flipped, for a while."""
    toggle(root, flip)
    try:
        yield
    finally:
        toggle(root, flip)


def toggle(root: Path, flip: Flip) -> None:
    """Flip a bit; the file keeps its size and times."""
    path = root / flip.region.path
    facts = path.stat()
    with open(path, "r+b") as file:
        file.seek(flip.position)
        (byte,) = file.read(1)
        file.seek(flip.position)
        file.write(bytes([byte ^ 1 << flip.bit]))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _kind(path: str) -> str:
    """What a file of a log or of a cache is."""
    name = path.rpartition("/")[2]
    for kind, is_one in (
        ("hint", name == "_last_checkpoint"),
        ("state", name == "_manifest.avro"),
        ("filter sheet", name.endswith(".sheet")),
        ("manifest", name.endswith(".avro")),
        ("decoded manifest", name.endswith(".arrow")),
        ("index record", name == "record"),
        ("checkpoint", ".checkpoint" in name or "sidecar" in path),
        ("version", name.endswith(".json") and name[:20].isdigit()),
        ("index file", "/files/" in path),
        ("row copy", name.endswith(".rows")),
        ("note of a row copy", name.endswith(".note")),
    ):
        if is_one:
            return f"{kind} {name.rpartition('.')[2]}" if kind == "index file" else kind
    raise AssertionError(f"what is {path}?")


def _split_regions(root: Path, relative: str) -> Iterator[Region]:
    directory = SplitFile.open(open_store(str(root), Config.resolve()), relative).directory
    end = (root / relative).stat().st_size
    data = (root / relative).read_bytes()
    (footer_bytes,) = struct.unpack_from("<I", data, end - _TRAILER_BYTES)
    marks = [
        *_marks(directory, data),
        (end - _TRAILER_BYTES - footer_bytes, "footer"),
        (end - _TRAILER_BYTES, "trailer"),
    ]
    starts = [*marks, (end, "")]
    for (start, name), (stop, _) in pairwise(starts):
        if stop > start:
            yield Region(relative, f"split {name}", start, stop)


def _marks(directory: Directory, data: bytes) -> Iterator[tuple[int, str]]:
    """Where each part of a split starts, up to the page indexes, which stand before the footer."""
    yield 0, "magic"
    place, number = len(MAGIC), 0
    while place < directory.index_range[0]:
        header, end = read_struct(memoryview(data), place)
        if number % _PAGES == 0:
            yield place, "page header"
            yield end, "rows"
        place, number = end + header[_STORED_BYTES], number + 1
    for member in directory.members:
        yield member.offset, f"index {member.name.rpartition('.')[2]}"
    if directory.pieces is not None:
        yield directory.pieces.offset, "index pieces"
        yield directory.pieces.tails_offset, "index tails"
        yield directory.pieces.table.offset, "index piece table"
    if directory.fine_filter is not None:
        yield directory.fine_filter.offset, "fine filter"
    yield directory.footer_start_offset, "seal"
    yield directory.footer_start_offset + SEAL_BYTES, "page table"
    if directory.term_filter is not None:
        yield directory.term_filter.offset, "term filter"
        yield directory.term_filter.end, "page indexes"
    else:
        yield directory.page_table.end, "page indexes"
