"""HTTP servers on 127.0.0.1 that hand requests on to another server: what the fault proxy and the shim build on."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import select
import socket
import struct
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from typing import NamedTuple

# Of one connection, not of the message: each side has its own.
_HOP_HEADERS = ("connection", "keep-alive", "transfer-encoding", "content-length", "expect")
_UPSTREAM_SECONDS = 120


class Request(NamedTuple):
    """What a client asks."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What it is told."""

    status: int
    headers: dict[str, str]
    body: bytes


def has_something(connection: socket.socket, seconds: float) -> bool:
    """Whether there is something to read, or the other side has gone. `select` would not do: soaks have thousands of
    connections."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Upstream:
    """One connection to the server behind, opened anew when it was closed."""

    def __init__(self, endpoint: str) -> None:
        parts = urllib.parse.urlsplit(endpoint)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=_UPSTREAM_SECONDS)

    def ask(self, request: Request) -> Answer:
        """The server's answer. After a `ConnectionError` the request may have been applied, or not."""
        try:
            return self._ask(request)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ConnectionError(f"no answer from behind: {error}") from error

    def close(self) -> None:
        self._connection.close()

    def _ask(self, request: Request) -> Answer:
        connection = self._connection
        if connection.sock is not None and has_something(connection.sock, 0):
            connection.close()  # the server has ended it while nothing was asked
        connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            if name.lower() not in _HOP_HEADERS:
                connection.putheader(name, value)
        if request.body or request.method in ("PUT", "POST"):
            connection.putheader("content-length", str(len(request.body)))
        connection.endheaders(request.body)
        with connection.getresponse() as response:
            headers = {name: value for name, value in response.getheaders() if name.lower() not in _HOP_HEADERS}
            if request.method == "HEAD" and (length := response.getheader("content-length")):
                headers["content-length"] = length
            return Answer(response.status, headers, response.read())


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection of a client. A subclass says in `exchange` what becomes of a request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together

    def exchange(self, request: Request) -> Answer | None:
        """The answer, or None where the connection ends without one."""
        raise NotImplementedError

    def do_GET(self) -> None:
        if "transfer-encoding" in self.headers:
            self.close_connection = True
            self._tell(Answer(411, {}, b"send the length of the content"))
            return
        length = int(self.headers.get("content-length", 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_HEADERS}
        answer = self.exchange(Request(self.command, self.path, headers, self.rfile.read(length)))
        if answer is None:
            self.close_connection = True
        else:
            self._tell(answer)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the names that the base class looks for

    def handle_expect_100(self) -> bool:
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def reset(self) -> None:
        """End the connection as a crash does: the client sees a reset, not an end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def handle(self) -> None:
        # The client or the end of the test may close the connection at any moment.
        with contextlib.suppress(OSError):
            super().handle()

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def _tell(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()


class Forwarder(Handler):
    """A handler with a connection of its own to the server behind."""

    def __init__(self, behind: str, *connection: object) -> None:
        self.upstream = Upstream(behind)
        super().__init__(*connection)

    def finish(self) -> None:
        self.upstream.close()
        super().finish()


class _Server(http.server.ThreadingHTTPServer):
    """Connections in threads, all of them closed with the server."""

    daemon_threads = False  # so that the end of the server waits for them
    request_queue_size = 128

    def __init__(self, handler: Callable[..., Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    def process_request(self, request: socket.socket, client_address: object) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:
        with self._lock:
            self._open.discard(request)
        # Not shut down first: a connection that is reset must not end in an orderly way.
        self.close_request(request)

    def hang_up(self) -> None:
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, _request: object, _client_address: object) -> None:
        """Let it end the thread, which the tests notice."""
        error = sys.exception()
        assert error is not None
        raise error


@contextlib.contextmanager
def serving(handler: Callable[..., Handler]) -> Iterator[str]:
    """Serve in threads; the endpoint."""
    server = _Server(handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10)
        server.hang_up()
        server.server_close()
