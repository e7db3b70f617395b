"""Version files: JSON lines, one action each, gzip by default.

The reader accepts gzip, gzip behind the two bytes `01 01`, and plain text. All values are checked, and an error names
the file, the line and the field. Unknown actions and fields are ignored. An empty or truncated file is an error, never
a shorter version: gzip has its checksum, version 0 ends with its metadata, and the first line of this library has the
number of lines after it. Plain text of this library ends with a checksum line, which other readers ignore.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any, NoReturn, TypedDict, cast

import msgspec

from indextables.errors import ConfigError, CorruptLogError
from indextables.location import Location, redact
from indextables.protocol.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip
from indextables.protocol.names import version_key
from indextables.protocol.paths import WRITTEN_PATH_TAG, as_written, normalize_path, remembered
from indextables.protocol.statistics_tags import FOOTER_TAG, footer_start

_GZIP = b"\x1f\x8b"
_OLD_PREFIX = b"\x01\x01"
_GZIP_WBITS = 31
_GZIP_LEVEL = 6
# A file that shrinks more, or has more and shorter lines, is an attack on the reader's memory and time, not a log.
_PLAIN_BYTES_ALWAYS_ALLOWED = 128 << 20
_MAX_RATIO = 200
_MAX_GZIP_MEMBERS = 1000
_LINES_ALWAYS_ALLOWED = 100_000
_MIN_MEAN_LINE_BYTES = 20
_LONGEST_QUOTE = 200
_FIRST_LINE_BYTES = 64 << 10
_CHECKSUM_LINE = b'{"checksum":{"crc32":"%08x"}}\n'
_CHECKSUM = re.compile(rb'\{"checksum":\{"crc32":"([0-9a-f]{8})"\}\}\n?\Z')
_CHECKSUM_LINE_BYTES = 64
_REPAIR_HINT = (
    "a crash or another program damaged it; older versions still open by number, and "
    "`REPAIR INDEXFILES TRANSACTION LOG` writes a clean log from the intact parts"
)

_WIRE_NAMES: dict[type, bytes] = {
    Protocol: b"protocol",
    Metadata: b"metaData",
    Add: b"add",
    Remove: b"remove",
    Skip: b"mergeskip",
    CommitInfo: b"commitInfo",
}


class _Line(TypedDict, total=False):
    """One line: an object whose only key names the action; unknown keys are ignored."""

    commitInfo: msgspec.Raw
    protocol: Protocol | None
    metaData: Metadata | None
    remove: Remove | None
    add: Add | None
    mergeskip: Skip | None
    skip: Skip | None


_encoder = msgspec.json.Encoder()
_line_decoder = msgspec.json.Decoder(_Line)
_info_decoder = msgspec.json.Decoder(CommitInfo)


class _BadLineError(Exception):
    """Fault of a line, without its position."""


def encode_version(actions: Sequence[Action], *, compress: bool) -> bytes:
    """Return the bytes of a version file; raise `ConfigError` for values not in JSON."""
    return seal_lines(encode_lines(actions), compress=compress)


def encode_lines(actions: Sequence[Action]) -> bytes:
    """Encode actions, one a line; `decode_version` reads such lines."""
    return b"".join(map(_encode_line, actions))


def seal_lines(lines: bytes, *, compress: bool) -> bytes:
    """Return a version file of encoded lines: gzip, or text with a checksum line."""
    if compress:
        return zlib.compress(lines, level=_GZIP_LEVEL, wbits=_GZIP_WBITS)
    return lines + _CHECKSUM_LINE % zlib.crc32(lines)


def decode_version(data: bytes, version: int, table: Location) -> tuple[Action, ...]:
    """Return the actions of a version file in order, with paths relative to the table."""
    text = _plain(data, version)
    actions: list[Action] = []
    num_lines = 0
    for number, line in enumerate(io.BytesIO(text), start=1):
        if line.isspace():
            continue
        num_lines += 1
        try:
            action = _decode_line(line, table)
        except _BadLineError as bad:
            _refuse(version, f"line {number}{bad}")
        if action is not None:
            actions.append(action)
    _check_whole(actions, num_lines, version)
    if commit_info(actions) is None:
        _check_repeats(text, len(actions), version)
    return tuple(actions)


def commit_info(actions: Sequence[Action]) -> CommitInfo | None:
    """Return the commit line of this version, if its writer left one."""
    for action in actions:
        if isinstance(action, CommitInfo):
            return action
    return None


def identity_of(version: int, actions: Sequence[Action]) -> str | None:
    """Return the transaction id of a version, or None.

    For version 0, its metadata's id.
    """
    if version == 0:
        return next((action.id for action in actions if isinstance(action, Metadata)), None)
    info = commit_info(actions)
    return None if info is None else info.txn_id


def peek_mark(data: bytes, version: int, table: Location) -> str | None:
    """Return the identity of a version file, from its first line if possible.

    A version may have many thousands of lines.
    """
    line = _first_line(data) if version > 0 else None
    if line is not None:
        try:
            action = _decode_line(line, table)
        except _BadLineError as bad:
            _refuse(version, f"line 1{bad}")
        if isinstance(action, CommitInfo):
            return action.txn_id
    return identity_of(version, decode_version(data, version, table))


def _first_line(data: bytes) -> bytes | None:
    """Return the first line; None if it is not a commit line or is too long."""
    start = data[:_FIRST_LINE_BYTES]
    if data.startswith(_GZIP):
        try:
            start = zlib.decompressobj(wbits=_GZIP_WBITS).decompress(data, _FIRST_LINE_BYTES)
        except zlib.error:
            return None
    line, found, _ = start.partition(b"\n")
    return line if found and line.startswith(b'{"commitInfo":') else None


def as_on_wire(action: Add | Remove) -> Add | Remove:
    """Return the action in its written form.

    Its path is as the file's first writer wrote it; the footer of this library's splits is only in its tag.
    """
    if action.tags is None:
        return action
    if isinstance(action, Add) and FOOTER_TAG in action.tags:
        action = msgspec.structs.replace(
            action, footer_start_offset=None, footer_end_offset=None, has_footer_offsets=False
        )
    if WRITTEN_PATH_TAG not in (action.tags or ()):
        return action
    path, tags = as_written(action.path, action.tags)
    return msgspec.structs.replace(action, path=path, tags=tags)


def with_footer(add: Add) -> Add:
    """Return the add with the footer offsets from its tag, if it has one."""
    start = footer_start(add.tags, add.size)
    if start is None:
        return add
    return msgspec.structs.replace(add, footer_start_offset=start, footer_end_offset=add.size, has_footer_offsets=True)


def _encode_line(action: Action) -> bytes:
    if isinstance(action, Add | Remove):
        action = as_on_wire(action)
    try:
        return b'{"%b":%b}\n' % (_WIRE_NAMES[type(action)], _encoder.encode(action))
    except KeyError:
        raise ConfigError(f"cannot write a `{type(action).__name__}` to the log: expected an action") from None
    except (TypeError, ValueError, RecursionError) as error:
        name = f"{_WIRE_NAMES[type(action)].decode()}.{_unwritable_field(action)}"
        raise ConfigError(f"cannot write the field `{name}` to the log: {error}") from error


def _unwritable_field(action: Action) -> str:
    for name, wire_name in zip(action.__struct_fields__, action.__struct_encode_fields__, strict=True):
        try:
            _encoder.encode(getattr(action, name))
        except (TypeError, ValueError, RecursionError):
            return wire_name
    return "*"


def _plain(data: bytes, version: int) -> bytes:
    if data.startswith(_OLD_PREFIX + _GZIP):
        data = data[len(_OLD_PREFIX) :]
    if data.startswith(_GZIP):
        try:
            data = _gunzip(data)
        except (zlib.error, EOFError, ValueError) as error:
            _refuse(version, f"is not a whole gzip file ({error})")
    if not data or data.isspace():
        _refuse(version, "is empty")
    _check_checksum(data, version)
    num_lines = data.count(b"\n")
    if num_lines > _LINES_ALWAYS_ALLOWED and len(data) < num_lines * _MIN_MEAN_LINE_BYTES:
        _refuse(version, f"has {num_lines} lines, too short for actions")
    return data


def _check_checksum(text: bytes, version: int) -> None:
    """Refuse text that does not match the checksum in its last line.

    The search uses raw bytes, since a flipped bit before the checksum may have joined lines.
    """
    found = _CHECKSUM.search(text[-_CHECKSUM_LINE_BYTES:])
    if found is not None:
        num_bytes = len(text) - len(found.group())
        if zlib.crc32(memoryview(text)[:num_bytes]) != int(found.group(1), 16):
            _refuse(version, "does not fit the checksum in its last line")


def _gunzip(data: bytes) -> bytes:
    limit = max(_PLAIN_BYTES_ALWAYS_ALLOWED, len(data) * _MAX_RATIO)
    parts: list[bytes] = []
    while data:
        if len(parts) == _MAX_GZIP_MEMBERS:
            raise ValueError(f"it has over {_MAX_GZIP_MEMBERS} members")
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        parts.append(member.decompress(data, limit + 1))
        limit -= len(parts[-1])
        if limit < 0:
            raise ValueError(f"its text is over {_MAX_RATIO} times as large, which no log is")
        if not member.eof:
            raise EOFError("it is cut off")
        data = member.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decode_line(line: bytes, table: Location) -> Action | None:
    if not line.isascii():
        _check_utf8(line)
    try:
        found = cast("dict[str, Any]", _line_decoder.decode(line))
    except (msgspec.MsgspecError, RecursionError) as error:
        found = _decode_without_nulls(line, error)
    if len(found) == 1:
        ((kind, action),) = found.items()
    else:
        kind, action = _only_action(found)
    if kind == "commitInfo":
        return _own_info(action)
    if isinstance(action, Add | Remove | Skip):
        return _with_relative_path(action, kind, table)
    return cast("Action | None", action)


def _check_utf8(line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise _BadLineError(f" is not UTF-8 text (byte {error.start})") from error


def _decode_without_nulls(line: bytes, error: Exception) -> dict[str, Any]:
    """Decode the line without its nulls, which may be in fields with a default.

    If this fails too, raise the first error.
    """
    if b"null" in line:
        try:
            tree = msgspec.json.decode(line)
            slim = {kind: _drop_nulls(fields) for kind, fields in tree.items()}
            return cast("dict[str, Any]", _line_decoder.decode(msgspec.json.encode(slim)))
        except (msgspec.MsgspecError, AttributeError, ValueError, RecursionError):
            pass
    raise _BadLineError(_what(error, "")) from error


def _drop_nulls(fields: Any) -> Any:
    if not isinstance(fields, dict):
        return fields
    return {name: value for name, value in fields.items() if value is not None}


def _only_action(found: dict[str, Any]) -> tuple[str, Any]:
    """Return the only action of a line.

    Nulls mean missing actions. A commit line in the same object is another writer's.
    """
    if "commitInfo" in found and _own_info(found["commitInfo"]) is None:
        del found["commitInfo"]
    present = [(kind, action) for kind, action in found.items() if action is not None]
    if len(present) > 1:
        raise _BadLineError(f" has {len(present)} actions in one object: {', '.join(kind for kind, _ in present)}")
    return present[0] if present else ("", None)


def _own_info(raw: msgspec.Raw) -> CommitInfo | None:
    """Return our commit line; None for another writer's, without a transaction id."""
    try:
        return _info_decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        try:
            fields = _drop_nulls(msgspec.json.decode(raw))
            if not isinstance(fields, dict) or "txnId" not in fields:
                return None
            return msgspec.convert(fields, CommitInfo)
        except (msgspec.MsgspecError, RecursionError):
            raise _BadLineError(_what(error, "commitInfo")) from error


def _with_relative_path(action: Add | Remove | Skip, kind: str, table: Location) -> Action:
    try:
        path = normalize_path(action.path, table)
    except ValueError as error:
        shown = redact(repr(action.path[:_LONGEST_QUOTE])[1:-1])
        raise _BadLineError(f", field `{kind}.path`: `{shown}` is refused because {error}") from error
    if isinstance(action, Add):
        action = with_footer(action)
    if path == action.path:
        return action
    if isinstance(action, Skip):
        return msgspec.structs.replace(action, path=path)
    return msgspec.structs.replace(action, path=path, tags=remembered(action.tags, action.path))


def _what(error: Exception, root: str) -> str:
    """Return the decoder's message with the field in front, if it names one."""
    if isinstance(error, RecursionError):
        return " is nested too deeply"
    what, _, where = str(error).partition(" - at `$")
    path = ".".join(part for part in (root, where.rstrip("`").lstrip(".")) if part)
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", what):
        return f", field `{path}.{missing.group(1)}`: it is required and missing"
    if what == "Input data was truncated":
        return " is not a whole JSON object"
    return f", field `{path}`: {what}" if path else f": {what}"


def _check_whole(actions: Sequence[Action], num_lines: int, version: int) -> None:
    info = commit_info(actions)
    if info is not None and info.num_actions is not None and num_lines <= info.num_actions:
        _refuse(version, f"is cut off: its first line declares {info.num_actions} more, but {num_lines - 1} follow")
    if version == 0 and not any(isinstance(action, Metadata) for action in actions):
        _refuse(version, "has no metadata action (`metaData`), as version 0 must")


def _check_repeats(text: bytes, num_actions: int, version: int) -> None:
    """Refuse an object with the same action twice.

    The decoder keeps only the last one, and a file would be missing.
    """
    names = ("protocol", "metaData", "add", "remove", "mergeskip", "skip")
    if sum(text.count(b'"%b"' % name.encode()) for name in names) <= num_actions:
        return
    for number, line in enumerate(io.BytesIO(text), start=1):
        try:
            pairs = json.loads(line, object_pairs_hook=list, parse_int=str)
        except (ValueError, RecursionError):
            continue
        kinds = [kind for kind, action in pairs if kind in names and action is not None]
        if len(kinds) > 1:
            _refuse(version, f"line {number} has {len(kinds)} actions in one object: {', '.join(kinds)}")


def _refuse(version: int, why: str) -> NoReturn:
    separator = ": " if why.startswith("line ") else " "
    raise CorruptLogError(
        f"cannot read version {version} because `{version_key(version)}`{separator}{why}",
        version=version,
        path=version_key(version),
        hint=_REPAIR_HINT,
    )
