"""Process that decodes untrusted bytes.

One request after the other, until its input ends.

It limits itself too, so that it does not outlive a killed parent: a request that takes too long ends the process even
if the decoder never returns, and memory is bounded.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from typing import Literal, Protocol, cast

import msgspec
import pyarrow as pa

from indextables.errors import IndexTablesError, ProtocolError, StorageError
from indextables.protocol.avro.file_entry import decode_manifest, is_our_name, verify_manifest
from indextables.protocol.avro.state_manifest import decode_state_manifest

if sys.platform != "win32":
    import resource

_MAX_MEMORY_BYTES = 4 << 30
_GRACE_SECONDS = 5.0
_LENGTH_BYTES = 8


class Pipe(Protocol):
    """One end of a pipe; without a buffer, a call may move only a part."""

    def readinto(self, buffer: memoryview, /) -> int | None: ...
    def write(self, data: memoryview, /) -> int: ...
    def flush(self) -> None: ...


class Request(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Bytes of a state, or path of a manifest, to decode."""

    kind: Literal["ready", "state", "manifest"]
    key: str = ""
    data: bytes = b""
    path: str = ""
    timeout_seconds: float = 60.0


class Answer(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """State as msgpack, file table as an Arrow stream, or the message of an error."""

    kind: Literal["value", "damaged", "protocol", "storage"]
    payload: bytes = b""
    error: str | None = None


def main() -> None:
    """Serve requests on standard input and output."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _limit_memory()
    decoder = msgspec.msgpack.Decoder(Request)
    with open(os.devnull, "w") as nowhere:
        while True:
            try:
                request = decoder.decode(read_frame(cast("Pipe", sys.stdin.buffer)))
            except EOFError:
                return
            faulthandler.dump_traceback_later(request.timeout_seconds + _GRACE_SECONDS, exit=True, file=nowhere)
            answer = msgspec.msgpack.encode(_answer(request))
            faulthandler.cancel_dump_traceback_later()
            write_frame(answers, answer)


def read_frame(pipe: Pipe) -> bytearray:
    """Read one message; raise `EOFError` if the other side is gone."""
    size = int.from_bytes(_read_exactly(pipe, _LENGTH_BYTES), "big")
    return _read_exactly(pipe, size)


def write_frame(pipe: Pipe, message: bytes) -> None:
    """Send one message."""
    for part in (len(message).to_bytes(_LENGTH_BYTES, "big"), message):
        rest = memoryview(part)
        while rest:
            rest = rest[pipe.write(rest) :]
    pipe.flush()


def _answer(request: Request) -> Answer:
    try:
        return Answer(kind="value", payload=_decode(request))
    except ProtocolError as error:
        return Answer(kind="protocol", error=str(error))
    except StorageError as error:
        return Answer(kind="storage", error=error.message)
    except IndexTablesError as error:
        return Answer(kind="damaged", error=str(error))
    except (OSError, MemoryError, pa.ArrowException) as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        return Answer(kind="damaged", error=f"cannot read `{request.key}` because it cannot be decoded ({why})")


def _decode(request: Request) -> bytes:
    if request.kind == "ready":
        return b""
    if request.kind == "state":
        return msgspec.msgpack.encode(decode_state_manifest(request.data, request.key))
    if is_our_name(request.key):
        with open(request.path, "rb") as file:
            verify_manifest(request.key, file.read())
    files = decode_manifest(request.path, request.key)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema) as writer:
        writer.write_table(files)
    return bytes(sink.getvalue())


def _read_exactly(pipe: Pipe, size: int) -> bytearray:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = pipe.readinto(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return data


def _limit_memory() -> None:
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = _MAX_MEMORY_BYTES if most == resource.RLIM_INFINITY else min(most, _MAX_MEMORY_BYTES)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
