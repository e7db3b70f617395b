"""A server with one answer to everything, which keeps what it was asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.servers.forwarding import Answer, Handler, Request, serving


@contextlib.contextmanager
def recording_server(status: int, body: str = "") -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Its endpoint, and the path and headers of what it was asked."""
    asked: list[dict[str, str]] = []

    class Recorder(Handler):
        def exchange(self, request: Request) -> Answer:
            headers = {name.lower(): value for name, value in request.headers.items()}
            asked.append({**headers, ":path": request.path})
            return Answer(status, {}, body.encode())

    with serving(Recorder) as endpoint:
        yield endpoint, asked
