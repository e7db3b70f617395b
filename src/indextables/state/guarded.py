"""Reading manifests of any writer without trusting them: a decoder that spins or bursts is ended, never waited for.

What carries a hash of ours is verified first and decoded here, within the same time. Everything else is decoded in a
process of its own, which has a time limit and a memory limit; when it exceeds either, the file counts as damaged. That
process is started at the first need, kept for the next one, and ends with this one. It is plain `python -c`, not
`multiprocessing`, which would run the caller's main module again.

The decoder of manifests keeps threads, and a fork copies none of them: a process that was forked after its parent had
decoded hangs at its first manifest. So it leaves all decoding to the other process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import cast

import msgspec
import pyarrow as pa

from indextables.errors import CheckpointCorruptionError, CheckpointError, IndexTablesError, ProtocolError, StorageError
from indextables.protocol import avro_container, file_entry, state_manifest
from indextables.protocol.avro_container import MAGIC
from indextables.protocol.state_manifest import StateManifest
from indextables.resources import open_file, refuse_shortage
from indextables.state.guarded_worker import Answer, Pipe, Request, read_frame, write_frame

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from indextables.state.guarded_worker import main; main()"
)
_START_SECONDS = 60.0
_state_decoder = msgspec.msgpack.Decoder(StateManifest)
_answer_decoder = msgspec.msgpack.Decoder(Answer)
_used_decoder = False
_forked_after_use = False


def read_state_manifest(data: bytes, key: str, *, timeout_seconds: float) -> StateManifest:
    """A state manifest of any writer."""
    if state_manifest.is_ours(data):
        state_manifest.verify_state_manifest(data, key)
        if state_manifest.has_our_schema(data):
            return state_manifest.decode_state_manifest(data, key)
    if not data.startswith(MAGIC):
        return state_manifest.decode_state_manifest(data, key)
    return decode_foreign_state(data, key, timeout_seconds=timeout_seconds)


def read_manifest(path: str, key: str, *, timeout_seconds: float, columns: Sequence[str] | None = None) -> pa.Table:
    """The file table of a manifest that stands on local disk at `path`, and in the log under `key`: at least these
    columns of it."""
    global _used_decoder  # noqa: PLW0603 - one flag for the process, set once
    if file_entry.is_our_name(key) and not _forked_after_use:
        with open(path, "rb", opener=open_file) as file:
            data = file.read()
        file_entry.verify_manifest(key, data)
        if file_entry.has_our_schema(data):
            _check_bodies(data, key)
            del data
            _used_decoder = True
            return _decode_in_time(path, key, columns, timeout_seconds)
    return decode_foreign_manifest(path, key, timeout_seconds=timeout_seconds)


def decode_foreign_state(data: bytes, key: str, *, timeout_seconds: float) -> StateManifest:
    """Decode a state manifest in the other process."""
    answer = _guard.ask(Request(kind="state", key=key, data=data, timeout_seconds=timeout_seconds))
    return _state_decoder.decode(answer)


def decode_foreign_manifest(path: str, key: str, *, timeout_seconds: float) -> pa.Table:
    """Decode a manifest in the other process; one with a name of ours is verified there."""
    answer = _guard.ask(Request(kind="manifest", key=key, path=os.path.abspath(path), timeout_seconds=timeout_seconds))
    with pa.ipc.open_stream(pa.py_buffer(answer)) as reader:
        return reader.read_all()


def shut_down() -> None:
    """End the other process, if there is one. The next need starts another."""
    _guard.stop()


_ERRORS: dict[str, type[IndexTablesError]] = {
    "protocol": ProtocolError,
    "storage": StorageError,
    "damaged": CheckpointCorruptionError,
}


class _Guard:
    """The other process, and the one request that it works on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Request) -> bytes:
        """The payload of the answer, or the error that it is."""
        with self._lock:
            process = self._running()
            answer = self._exchange(process, request, request.timeout_seconds)
            if answer is None:
                raise _too_much(request.key, request.timeout_seconds)
        if answer.error is None:
            return answer.payload
        raise _ERRORS[answer.kind](answer.error)

    def stop(self) -> None:
        with self._lock:
            self._end()

    def abandon(self) -> None:
        """At exit: end the process even while another thread waits for its answer."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def forget(self) -> None:
        """In a forked child: the process belongs to the parent, and so does the lock that may be held."""
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None:
            process.returncode = 0
            _close_pipes(process)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
                [sys.executable, "-c", _BOOT, json.dumps([str(place) for place in sys.path])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # a forked child must find nothing to flush
            )
        except (OSError, ValueError) as error:
            refuse_shortage("start a process to decode manifests of other writers", error)
            raise CheckpointError(f"cannot start a process to decode manifests of other writers: {error}") from error
        if self._exchange(self._process, Request(kind="ready"), _START_SECONDS) is None:
            raise CheckpointError("cannot decode manifests of other writers because the process for it does not start")
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], request: Request, seconds: float) -> Answer | None:
        """One request and its answer; None, and the process is gone, where none came in time."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            write_frame(cast("Pipe", process.stdin), msgspec.msgpack.encode(request))
            frame = read_frame(cast("Pipe", process.stdout))
        except (OSError, EOFError):
            frame = None
        except BaseException:
            self._end()  # the answer that may still come must not be taken for the next one
            raise
        finally:
            timer.cancel()
            timer.join()
        if frame is None or expired.is_set():
            self._end()
        return None if frame is None else _answer_decoder.decode(frame)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _close_pipes(process)


def _check_bodies(data: bytes, key: str) -> None:
    """A hash is no proof against somebody who makes the file for it: its blocks may still be bombs."""
    try:
        avro_container.check_bodies(data)
    except ValueError as error:
        raise CheckpointCorruptionError(f"cannot read `{key}` because {error}", path=key) from error


def _decode_in_time(path: str, key: str, columns: Sequence[str] | None, timeout_seconds: float) -> pa.Table:
    """Decode in a thread that is left behind where it finds no end, as on a block that holds more than it says."""
    answers: list[pa.Table | BaseException] = []

    def decode() -> None:
        try:
            answers.append(file_entry.decode_manifest(path, key, columns=columns))
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits
            answers.append(error)

    thread = threading.Thread(target=decode, name="indextables-manifest-decoding", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends, and threads that outlive the main one have to do it alone
        decode()
    else:
        thread.join(timeout_seconds)
    if not answers:
        raise _too_much(key, timeout_seconds)
    (answer,) = answers
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _too_much(key: str, timeout_seconds: float) -> CheckpointCorruptionError:
    return CheckpointCorruptionError(
        f"cannot read `{key}` because it cannot be decoded within {timeout_seconds:g} seconds and the memory that a "
        "manifest may take",
        path=key,
    )


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _after_fork_in_child() -> None:
    global _forked_after_use  # noqa: PLW0603 - one flag for the process, set once
    _forked_after_use = _forked_after_use or _used_decoder
    _guard.forget()


_guard = _Guard()
atexit.register(_guard.abandon)
os.register_at_fork(after_in_child=_after_fork_in_child)
