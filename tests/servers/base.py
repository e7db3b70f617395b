"""What all servers of the tests have in common: ports, processes, and how a server under way is spoken to."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

BUCKET = "tables"
START_SECONDS = 60


def no_crash() -> None:
    raise NotImplementedError("this server has no process of its own, or forgets its data")


@dataclasses.dataclass
class Running:
    """A server under way, with one bucket."""

    kind: str
    url: str
    endpoint: str
    options: dict[str, object]
    endpoint_key: str
    kill: Callable[[], None] = no_crash  # as a crash
    stop: Callable[[], None] = no_crash  # in an orderly way
    start: Callable[[], None] = no_crash  # again: the same port, the same data

    def behind(self, endpoint: str) -> dict[str, object]:
        """The options of a client that speaks to a proxy before this server."""
        path = self.endpoint.partition("//")[2].partition("/")[2]
        return {**self.options, self.endpoint_key: f"{endpoint}/{path}".rstrip("/")}


class Process:
    """A server in a process of its own, which can be killed and started again."""

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        is_ready: Callable[[], object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self._directory = directory
        self._is_ready = is_ready
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=self._directory, env=self._environment
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self._is_ready()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """End it as a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)

    def stop(self) -> None:
        """End it in an orderly way."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(30)


@contextlib.contextmanager
def process(
    command: Sequence[str],
    directory: Path,
    is_ready: Callable[[], object],
    environment: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """A server of this command, ready. It ends with the block."""
    directory.mkdir(parents=True, exist_ok=True)
    server = Process(command, directory, is_ready, environment)
    try:
        server.start()
        yield server
    finally:
        server.kill()  # nobody needs its data any more, and some take long to say farewell


def ask(request: urllib.request.Request) -> None:
    """Send a request to a server of the tests."""
    try:
        urllib.request.urlopen(request, timeout=20).close()
    except urllib.error.HTTPError as error:
        error.close()
        raise


def create(request: urllib.request.Request) -> None:
    """Create what a request asks for. That it is there already is fine."""
    try:
        ask(request)
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise


def free_ports(number: int) -> list[int]:
    """So many ports on which nothing listens."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def free_port() -> int:
    """A port on which nothing listens."""
    return free_ports(1)[0]
