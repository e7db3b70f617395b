"""Decoder of untrusted manifests.

A decoder that loops or uses too much is terminated.

Bytes with a hash of this library are verified first and decoded here, with the same time limit. Everything else is
decoded in a separate process, which has a time limit and a memory limit; if it exceeds either, the file counts as
damaged. This process starts on first use, is kept for the next use, and ends with the current process. It is plain
`python -c`, not `multiprocessing`, which would run the caller's main module again.

The decoder of manifests has threads, and a fork copies none of them: a process that is forked after its parent has
decoded would hang at its first manifest. Such a process decodes only in the separate process.
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
from indextables.protocol.avro import avro_container, file_entry, state_manifest
from indextables.protocol.avro.avro_container import MAGIC
from indextables.protocol.avro.state_manifest import StateManifest
from indextables.runtime.resources import open_file, refuse_shortage
from indextables.state.sandbox_worker import Answer, Pipe, Request, read_frame, write_frame

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from indextables.state.sandbox_worker import main; main()"
)
_START_SECONDS = 60.0
_state_decoder = msgspec.msgpack.Decoder(StateManifest)
_answer_decoder = msgspec.msgpack.Decoder(Answer)
_used_decoder = False
_forked_after_use = False


def read_state_manifest(data: bytes, key: str, *, timeout_seconds: float) -> StateManifest:
    """Read a state manifest of any writer."""
    if state_manifest.is_ours(data):
        state_manifest.verify_state_manifest(data, key)
        if state_manifest.has_our_schema(data):
            return state_manifest.decode_state_manifest(data, key)
    if not data.startswith(MAGIC):
        return state_manifest.decode_state_manifest(data, key)
    return decode_foreign_state(data, key, timeout_seconds=timeout_seconds)


def read_manifest(path: str, key: str, *, timeout_seconds: float, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the file table of a manifest, with at least these columns.

    `path` is its path on local disk, `key` its key in the log.
    """
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
    """Decode a state manifest in the separate process."""
    answer = _guard.ask(Request(kind="state", key=key, data=data, timeout_seconds=timeout_seconds))
    return _state_decoder.decode(answer)


def decode_foreign_manifest(path: str, key: str, *, timeout_seconds: float) -> pa.Table:
    """Decode a manifest in the separate process; verify one with a name of ours there."""
    answer = _guard.ask(Request(kind="manifest", key=key, path=os.path.abspath(path), timeout_seconds=timeout_seconds))
    with pa.ipc.open_stream(pa.py_buffer(answer)) as reader:
        return reader.read_all()


def shut_down() -> None:
    """Terminate the separate process, if there is one; the next use starts another."""
    _guard.stop()


_ERRORS: dict[str, type[IndexTablesError]] = {
    "protocol": ProtocolError,
    "storage": StorageError,
    "damaged": CheckpointCorruptionError,
}


class _Guard:
    """Separate process, and its current request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Request) -> bytes:
        """Return the payload of the response, or raise its error."""
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
        """Terminate the process at exit, even if another thread waits for its response."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def forget(self) -> None:
        """Reset in a forked child: the process and a locked lock belong to the parent."""
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
                bufsize=0,  # a forked child must have nothing to flush
            )
        except (OSError, ValueError) as error:
            refuse_shortage("start a process to decode manifests of other writers", error)
            raise CheckpointError(f"cannot start a process to decode manifests of other writers: {error}") from error
        if self._exchange(self._process, Request(kind="ready"), _START_SECONDS) is None:
            raise CheckpointError("cannot decode manifests of other writers because the process for it does not start")
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], request: Request, seconds: float) -> Answer | None:
        """Send a request and return its response.

        Without a response in time, terminate the process and return None.
        """
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
            self._end()  # a late response must not be read as the next one
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
    """Check the size of all blocks: an attacker can make a file that matches its hash."""
    try:
        avro_container.check_bodies(data)
    except ValueError as error:
        raise CheckpointCorruptionError(f"cannot read `{key}` because {error}", path=key) from error


def _decode_in_time(path: str, key: str, columns: Sequence[str] | None, timeout_seconds: float) -> pa.Table:
    """Decode in a thread, and abandon it if it does not end in time.

    It does not end, for example, on a block with more records than it declares.
    """
    answers: list[pa.Table | BaseException] = []

    def decode() -> None:
        try:
            answers.append(file_entry.decode_manifest(path, key, columns=columns))
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            answers.append(error)

    thread = threading.Thread(target=decode, name="indextables-manifest-decoding", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is exiting: threads that outlive the main thread do the work themselves
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
