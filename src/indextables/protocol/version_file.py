"""Version files: JSON lines, one action each, gzip by default.

Read are gzip, gzip behind the two bytes `01 01`, and plain text. Everything read is checked, and an error names the
file, the line and the field. Unknown actions and fields are ignored. A file that is empty or cut off is an error, never
a shorter version: gzip has its checksum, and our own first line counts the lines after it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from indextables.errors import CorruptLogError
from indextables.protocol.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip
from indextables.protocol.names import version_key
from indextables.protocol.paths import normalize_path
from indextables.store.url import Location

_GZIP = b"\x1f\x8b"
_OLD_PREFIX = b"\x01\x01"
_GZIP_WBITS = 31
_GZIP_LEVEL = 6
# Text that shrinks more than this is no log but an attack on the reader's memory.
_PLAIN_BYTES_ALWAYS_ALLOWED = 256 << 20
_MAX_RATIO = 200
_REPAIR_HINT = (
    "a crash or another program damaged it; older versions still open by number, and "
    "`REPAIR INDEXFILES TRANSACTION LOG` writes a clean log from what is whole"
)

_WIRE_NAMES: dict[type, bytes] = {
    Protocol: b"protocol",
    Metadata: b"metaData",
    Add: b"add",
    Remove: b"remove",
    Skip: b"mergeskip",
    CommitInfo: b"commitInfo",
}


class _Line(msgspec.Struct):
    """One line: an object whose one key names the action. Keys that are not here are ignored."""

    commitInfo: msgspec.Raw = msgspec.Raw()  # noqa: N815 - as on the wire
    protocol: Protocol | None = None
    metaData: Metadata | None = None  # noqa: N815 - as on the wire
    remove: Remove | None = None
    add: Add | None = None
    mergeskip: Skip | None = None
    skip: Skip | None = None


_encoder = msgspec.json.Encoder()
_line_decoder = msgspec.json.Decoder(_Line)
_info_decoder = msgspec.json.Decoder(CommitInfo)


def encode_version(actions: Sequence[Action], *, compress: bool) -> bytes:
    """The bytes of a version file."""
    lines = b"".join(b'{"%b":%b}\n' % (_WIRE_NAMES[type(action)], _encoder.encode(action)) for action in actions)
    return zlib.compress(lines, level=_GZIP_LEVEL, wbits=_GZIP_WBITS) if compress else lines


def decode_version(data: bytes, version: int, table: Location) -> tuple[Action, ...]:
    """The actions of a version file, in order, with paths relative to the table."""
    text = _plain(data, version)
    try:
        lines = _line_decoder.decode_lines(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        _explain(text, version)
    actions: list[Action] = []
    for number, line in enumerate(lines, start=1):
        action = _action(line, number, version)
        if isinstance(action, Add | Remove | Skip):
            action = _with_relative_path(action, number, version, table)
        if action is not None:
            actions.append(action)
    _check_count(actions, len(lines), version)
    return tuple(actions)


def commit_info(actions: Sequence[Action]) -> CommitInfo | None:
    """The line that says who made this version, if its writer left one."""
    for action in actions:
        if isinstance(action, CommitInfo):
            return action
    return None


def mark_of(actions: Sequence[Action]) -> str | None:
    """The transaction id of a version, or the metadata's id of version 0."""
    info = commit_info(actions)
    if info is not None:
        return info.txn_id
    return next((action.id for action in actions if isinstance(action, Metadata)), None)


def _plain(data: bytes, version: int) -> bytes:
    if data.startswith(_OLD_PREFIX + _GZIP):
        data = data[len(_OLD_PREFIX) :]
    if not data.startswith(_GZIP):
        if not data or data.isspace():
            _refuse(version, "is empty")
        return data
    try:
        return _gunzip(data)
    except (zlib.error, EOFError, ValueError) as error:
        _refuse(version, f"is no whole gzip file ({error})")


def _gunzip(data: bytes) -> bytes:
    limit = max(_PLAIN_BYTES_ALWAYS_ALLOWED, len(data) * _MAX_RATIO)
    parts: list[bytes] = []
    while data:
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        parts.append(member.decompress(data, limit + 1))
        limit -= len(parts[-1])
        if limit < 0:
            raise ValueError("its text is over a hundred times larger than a log compresses to")
        if not member.eof:
            raise EOFError("it is cut off")
        data = member.unused_data
    return b"".join(parts)


def _action(line: _Line, number: int, version: int) -> Action | None:
    found: list[Action] = [
        action
        for action in (line.protocol, line.metaData, line.remove, line.add, line.mergeskip, line.skip)
        if action is not None
    ]
    if (raw := bytes(line.commitInfo)) and (info := _own_info(raw, number, version)) is not None:
        found.append(info)
    if len(found) > 1:
        _refuse(version, f"line {number} holds {len(found)} actions in one object")
    return found[0] if found else None


def _own_info(raw: bytes, number: int, version: int) -> CommitInfo | None:
    """Our commit line, or None for the commit line of another writer, whose shape is its own."""
    try:
        return _info_decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        if b'"txnId"' not in raw:
            return None
        _refuse(version, f"line {number}, {_field(str(error), 'commitInfo')}")


def _with_relative_path(action: Add | Remove | Skip, number: int, version: int, table: Location) -> Action:
    try:
        path = normalize_path(action.path, table)
    except ValueError as error:
        name = _WIRE_NAMES[type(action)].decode()
        _refuse(version, f"line {number}, field `{name}.path`: `{action.path}` is refused because {error}")
    return action if path == action.path else msgspec.structs.replace(action, path=path)


def _check_count(actions: Sequence[Action], num_lines: int, version: int) -> None:
    info = commit_info(actions)
    if info is not None and info.num_actions is not None and num_lines <= info.num_actions:
        _refuse(version, f"is cut off: its first line announces {info.num_actions} more, and {num_lines - 1} are there")


def _explain(text: bytes, version: int) -> NoReturn:
    """Find the line that does not decode, and say what is wrong with it."""
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            _line_decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _refuse(version, f"line {number}, {_field(str(error), '')}")
        except RecursionError:
            _refuse(version, f"line {number} is nested too deeply")
    _refuse(version, "does not decode as JSON lines")


def _field(said: str, root: str) -> str:
    """The decoder's message as `field ...: what`, or as it is where it names no field."""
    what, _, where = said.partition(" - at `$")
    path = ".".join(part for part in (root, where.rstrip("`").lstrip(".")) if part)
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", what):
        return f"field `{path}.{missing.group(1)}`: it is required and missing"
    return f"field `{path}`: {what}" if path else what


def _refuse(version: int, why: str) -> NoReturn:
    separator = ": " if why.startswith("line ") else " "
    raise CorruptLogError(
        f"cannot read version {version} because `{version_key(version)}`{separator}{why}", hint=_REPAIR_HINT
    )
