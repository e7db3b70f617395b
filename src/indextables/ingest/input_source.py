"""Read one input as a stream of bytes: decompressed, counted, with a peek.

The first bytes show the compression, whatever the name: gzip, Zstandard or bzip2.
"""

from __future__ import annotations

import codecs
import os
import select
import stat
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa

from indextables.errors import ConfigError, SchemaError
from indextables.runtime.resources import refuse_shortage

STDIN = "-"
SAMPLE_BYTES = 4 << 20
MOST_LINE_BYTES = 64 << 20

_STDIN_NUMBER = 0
_CHUNK_BYTES = 1 << 20
_BLOCK_BYTES = 4 << 20
_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
_MAGIC_BYTES = 4
_SECONDS_OF_WAITING = 0.2


class Block(NamedTuple):
    """Whole lines of a source, and the number of the first one."""

    data: bytes
    first_line: int

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines with their numbers, without their line ends."""
        lines = self.data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines, self.first_line):
            yield number, line.removesuffix(b"\r")


class InputSource:
    """The bytes of a file, a pipe or standard input; Arrow calls `read`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = input_size(path)
        self.closed = False
        self._raw = _Counted(path, waits=self.size is None)
        self._head = bytearray()
        self._ended = False
        self._started = False
        self._stream: pa.NativeFile | _Counted = self._decompressed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def name(self) -> str:
        return input_name(self.path)

    @property
    def bytes_read(self) -> int:
        """Number of bytes read from the file, before decompression."""
        return self._raw.count

    @property
    def seekable_path(self) -> str | None:
        """Path to read the same bytes again; None for pipes and compressed files."""
        return None if self.size is None or self._stream is not self._raw else self.path

    def sample(self) -> bytes:
        """Return the beginning without consuming it, cut after its last line end."""
        while not self._ended and len(self._head) < SAMPLE_BYTES:
            self._fill()
        end = len(self._head) if self._ended else self._head.rfind(b"\n") + 1
        return bytes(self._head[:end] or self._head)

    def begins_with(self, count: int) -> bytes:
        """Return the first bytes without consuming them."""
        while not self._ended and len(self._head) < count:
            self._fill()
        return bytes(self._head[:count])

    def read(self, count: int) -> bytes:
        """Return `count` bytes, or fewer at the end."""
        while not self._ended and len(self._head) < count:
            self._fill()
        part = bytes(self._head[:count])
        del self._head[:count]
        return part

    def blocks(self) -> Iterator[Block]:
        """Yield the lines in blocks that end between lines, in bounded memory."""
        number = 1
        rest = b""
        while part := self.read(_BLOCK_BYTES):
            rest += part
            end = rest.rfind(b"\n") + 1
            if end:
                yield Block(rest[:end], number)
                number += rest.count(b"\n", 0, end)
                rest = rest[end:]
            if len(rest) > MOST_LINE_BYTES:
                raise SchemaError(
                    f"cannot read `{self.name}` because a line in it is longer than {MOST_LINE_BYTES >> 20} MiB",
                    hint="check its format, or split it into lines first",
                )
        if rest:
            yield Block(rest, number)

    def close(self) -> None:
        self.closed = True
        self._raw.close()

    def _decompressed(self) -> pa.NativeFile | _Counted:
        magic = self._raw.peek(_MAGIC_BYTES)
        codec = next((codec for start, codec in _CODECS.items() if magic.startswith(start)), None)
        if codec is None:
            return self._raw
        return pa.CompressedInputStream(pa.PythonFile(self._raw, mode="r"), codec)

    def _fill(self) -> None:
        try:
            part = self._stream.read(_CHUNK_BYTES)
        except OSError as error:
            refuse_shortage(f"read `{self.name}`", error)
            raise SchemaError(
                f"cannot read `{self.name}` because it is damaged: {error}", hint="nothing was written"
            ) from error
        self._ended = not part
        if not self._started:
            self._started = True
            part = self._without_mark(part)
        self._head += part

    def _without_mark(self, part: bytes) -> bytes:
        if part.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise SchemaError(
                f"cannot read `{self.name}` because it is UTF-16",
                hint=f"make it UTF-8 first, as with `iconv -f UTF-16 -t UTF-8 {self.name}`",
            )
        return part.removeprefix(codecs.BOM_UTF8)


def input_name(path: str) -> str:
    """Return the name of an input for messages."""
    return "standard input" if path == STDIN else path


def input_size(path: str) -> int | None:
    """Return the size of a file, or None for a pipe; raise if it cannot be read."""
    if path == STDIN:
        return None
    if "://" in path and not os.path.exists(path):
        raise ConfigError(
            f"cannot read `{path}` because only local files can be ingested", hint="copy it to this machine first"
        )
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read `{path}`: {why}") from error
    if stat.S_ISDIR(found.st_mode):
        raise ConfigError(
            f"cannot read `{path}` because it is a directory", hint=f"name its files, as in `{path.rstrip('/')}/*`"
        )
    return found.st_size if stat.S_ISREG(found.st_mode) else None


class _Counted:
    """A file that counts the bytes read."""

    def __init__(self, path: str, *, waits: bool) -> None:
        try:
            self._file = open(_STDIN_NUMBER if path == STDIN else path, "rb", buffering=0, closefd=path != STDIN)  # noqa: SIM115
        except OSError as error:
            refuse_shortage(f"read `{input_name(path)}`", error)
            raise ConfigError(f"cannot read `{input_name(path)}`: {error.strerror}") from error
        self._waits = waits
        self._head = b""
        self.count = 0
        self.closed = False

    def peek(self, count: int) -> bytes:
        while len(self._head) < count and (part := self._take(count - len(self._head))):
            self._head += part
        return self._head

    def read(self, count: int) -> bytes:
        if self._head:
            part, self._head = self._head, b""
        else:
            part = self._take(count)
        self.count += len(part)
        return part

    def close(self) -> None:
        self.closed = True
        self._file.close()

    def _take(self, count: int) -> bytes:
        # A signal just before a read is handled after the read ends, which for a pipe may never happen.
        while self._waits and not select.select([self._file], [], [], _SECONDS_OF_WAITING)[0]:
            pass
        return self._file.read(count) or b""
