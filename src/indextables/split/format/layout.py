"""Layout of a split file, and the seal that proves it.

    PAR1 | row groups | index | fine filter | seal | page table | term filter | page indexes | footer | PAR1
                                            ^ footer start                                        footer end ^

In layout 2 the index is pieces, then the pieces that every search reads, then the table of all pieces. In layout 1 it
is one file of the index after the other. Layout 1 is written if the files of an index are of no known form.

The directory is JSON in the Parquet footer, under the key `indextables.split`. The seal is at the start of the footer's
range. It holds the split's id, the file's length, and a hash of everything behind it: the page table, the filter and
the whole footer with the directory. A file that another tool has rewritten keeps the directory but has no valid seal.
The split's name contains the id too, so a split in the place of another is detected.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from indextables.errors import CorruptSplitError
from indextables.protocol.compression import plain_limit

KEY = "indextables.split"
LAYOUT_VERSION = 1
PIECES_VERSION = 2
MAGIC = b"PAR1"

_VERSIONS = (LAYOUT_VERSION, PIECES_VERSION)
_SEAL = struct.Struct("<8s16sQ32s")
_SEAL_MAGIC = b"ITSEAL\x00\x01"
SEAL_BYTES = _SEAL.size
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_ID_PARTS = struct.Struct("4s2s2s2s6s")
_MOST_MEMBERS = 10_000
_MOST_PIECE_BYTES = 256 << 20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}", re.ASCII)


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a member, compressed by itself, or plain if compression saves little.

    The CRC covers the stored bytes.
    """

    length: int
    raw_length: int
    crc32: int

    @property
    def is_plain(self) -> bool:
        return self.length == self.raw_length


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the index, the page table or a term filter, in consecutive pieces."""

    name: str
    offset: int
    pieces: list[Piece]
    raw_crc32: int

    @property
    def end(self) -> int:
        return self.offset + sum(piece.length for piece in self.pieces)

    @property
    def raw_length(self) -> int:
        return sum(piece.raw_length for piece in self.pieces)


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of the index, in the order of `meta.json`.

    The row of a document is `first_row` plus the document's number.
    """

    name: str
    first_row: int
    num_rows: int


class Pieces(msgspec.Struct, frozen=True, kw_only=True):
    """Places of the pieces of an index, of the tails among them, and of their table."""

    offset: int
    tails_offset: int
    table: Member


class Directory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The directory of a split; unknown keys of newer writers are ignored.

    The index is in `members` in layout 1, and in `pieces` in layout 2.

    `merged_from` are the ids of the splits that a merge combined into this one.
    """

    layout_version: int
    split_id: str
    num_rows: int
    footer_start_offset: int
    engine: str
    engine_version: str
    doc_mapping: str
    tokenizers: dict[str, Any]
    segments: list[Segment]
    members: list[Member]
    page_table: Member
    pieces: Pieces | None = None
    term_filter: Member | None = None
    fine_filter: Member | None = None
    merged_from: list[str] = []

    @property
    def index_range(self) -> tuple[int, int]:
        """The range of the index in the file; empty if there is none."""
        if self.pieces is not None:
            return self.pieces.offset, self.pieces.table.end
        if self.members:
            return self.members[0].offset, self.members[-1].end
        return self.footer_start_offset, self.footer_start_offset


def corrupt(key: str, reason: str) -> CorruptSplitError:
    """Return the error for a damaged split."""
    return CorruptSplitError(f"cannot read the split `{key}` because {reason}", path=key)


def encode_directory(directory: Directory) -> str:
    """Encode a directory; equal directories have equal text."""
    return msgspec.json.encode(directory, order="sorted").decode()


def decode_directory(text: bytes | str, key: str) -> Directory:
    """Decode the directory of the split `key`, and check every name and offset."""
    try:
        version = _version_decoder.decode(text).layout_version
        if version not in _VERSIONS:
            known = "` and `".join(map(str, _VERSIONS))
            raise corrupt(key, f"its layout version is `{version}`, and this library knows `{known}`")
        directory = _decoder.decode(text)
        _id_bytes(directory.split_id)
    except RecursionError as error:
        raise corrupt(key, "its directory is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise corrupt(key, f"its directory cannot be understood ({error})") from error
    _check_counts(directory, key)
    _check_members(directory, key)
    return directory


def member_name_problem(name: str) -> str | None:
    """Return why a member may not have this name, which becomes a local file name."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        return f"`{name[:80]!a}` is no plain file name"
    return None


def make_seal(split_id: str, file_length: int, behind: bytes) -> bytes:
    """Return the seal over all bytes behind it."""
    identity = _id_bytes(split_id)
    return _SEAL.pack(_SEAL_MAGIC, identity, file_length, _digest(identity, file_length, behind))


def check_seal(tail: bytes, key: str, *, size: int) -> str:
    """Verify the bytes from the footer's start to the file's end; return the id."""
    if len(tail) < SEAL_BYTES:
        raise corrupt(key, "it ends before its seal")
    magic, identity, length, digest = _SEAL.unpack_from(tail)
    if magic != _SEAL_MAGIC:
        raise corrupt(key, "there is no seal before its footer: it is damaged, or another tool has rewritten it")
    if length != size:
        raise corrupt(key, f"it was written with {length} bytes and has {size}")
    if digest != _digest(identity, length, memoryview(tail)[SEAL_BYTES:]):
        raise corrupt(key, "its footer does not fit its seal")
    return "-".join(part.hex() for part in _ID_PARTS.unpack(identity))


def check_crc(stored: bytes | memoryview, expected: int, key: str, what: str) -> None:
    """Refuse bytes that do not have the expected checksum."""
    if zlib.crc32(stored) != expected:
        raise corrupt(key, f"the checksum of {what} does not match")


def _id_bytes(split_id: str) -> bytes:
    if not _ID.fullmatch(split_id):
        raise ValueError(f"`{split_id[:40]!a}` is no UUID")
    return bytes.fromhex(split_id.replace("-", ""))


class _Versioned(msgspec.Struct):
    layout_version: int


# Created at import: msgspec crashes if two threads decode a type for the first time at once.
_version_decoder = msgspec.json.Decoder(_Versioned)
_decoder = msgspec.json.Decoder(Directory)


def _digest(identity: bytes, length: int, behind: bytes | memoryview) -> bytes:
    hashed = hashlib.sha256(identity + length.to_bytes(8, "little"))
    hashed.update(behind)
    return hashed.digest()


def _check_counts(directory: Directory, key: str) -> None:
    if directory.num_rows < 0 or directory.footer_start_offset < len(MAGIC):
        raise corrupt(key, "its directory has impossible numbers")
    first_row = 0
    for segment in sorted(directory.segments, key=lambda segment: segment.first_row):
        if segment.first_row != first_row or segment.num_rows < 0:
            raise corrupt(key, "the segments of its index do not hold each row once")
        first_row += segment.num_rows
    if directory.segments and first_row != directory.num_rows:
        raise corrupt(key, f"its index has {first_row} rows and it has {directory.num_rows}")


def _check_members(directory: Directory, key: str) -> None:
    members = directory.members
    if len(members) > _MOST_MEMBERS:
        raise corrupt(key, f"it has over {_MOST_MEMBERS} members")
    for member in members:
        problem = member_name_problem(member.name)
        if problem is not None:
            raise corrupt(key, f"a member's name {problem}")
    if len({member.name.casefold() for member in members}) != len(members):
        raise corrupt(key, "two of its members have one name")
    pieces = directory.pieces
    if (pieces is None) != (directory.layout_version == LAYOUT_VERSION) or (pieces is not None and members):
        raise corrupt(key, "its index does not fit its layout version")
    low = len(MAGIC)
    if pieces is not None:
        if not low <= pieces.offset <= pieces.tails_offset <= pieces.table.offset:
            raise corrupt(key, "the pieces of its index have an impossible offset")
        members = [pieces.table]
    before = [*members, *([] if directory.fine_filter is None else [directory.fine_filter])]
    _check_places(before, low, directory.footer_start_offset, key)
    behind = [directory.page_table, *([] if directory.term_filter is None else [directory.term_filter])]
    _check_places(behind, directory.footer_start_offset + SEAL_BYTES, 1 << 63, key)
    if sum(member.raw_length for member in members) > plain_limit(
        sum(member.end - member.offset for member in members)
    ):
        raise corrupt(key, "its members unpack to far more than an index could hold")


def _check_places(members: Sequence[Member], low: int, high: int, key: str) -> None:
    for member in members:
        if any(not 0 <= piece.length <= piece.raw_length <= _MOST_PIECE_BYTES for piece in member.pieces):
            raise corrupt(key, f"the lengths of its member `{member.name}` do not fit")
        if member.offset < low or member.end > high:
            raise corrupt(key, f"its member `{member.name}` has an impossible offset")
        low = member.end
