"""Count the store calls of a walk, and read the counts that ARCHITECTURE.md promises."""

from __future__ import annotations

import collections
import contextlib
import functools
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.servers.forwarding import Answer, Forwarder, Request, serving

VERBS = ("LIST", "GET", "RANGE", "HEAD", "PUT", "DELETE")
_DOCUMENT = Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"
_CALLS = {
    "list": "LIST",
    "pages": "LIST",
    "get": "GET",
    "get_range": "RANGE",
    "get_ranges": "RANGE",
    "head": "HEAD",
    "put": "PUT",
    "put_if_absent": "PUT",
    "put_file": "PUT",
    "delete": "DELETE",
    "delete_many": "DELETE",
}


def promised() -> dict[str, dict[str, int]]:
    """Read the table of the section "Five walks": counts by verb, by walk."""
    section = _DOCUMENT.read_text().partition("\n## Five walks\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    assert rows[0] == ["walk", *VERBS]
    return {row[0]: dict(zip(VERBS, map(int, row[1:]), strict=True)) for row in rows[2:]}


def by_verb(calls: Mapping[str, int]) -> dict[str, int]:
    """Sum the calls of a metered store by the verbs of object stores."""
    counts: collections.Counter[str] = collections.Counter()
    for name, count in calls.items():
        counts[_CALLS[name]] += count
    return {verb: counts[verb] for verb in VERBS}


class Requests:
    """Requests to an S3 server, of all processes, by verb."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[tuple[str, str]] = []

    def note(self, request: Request) -> None:
        with self._lock:
            self._seen.append((_verb(request), request.path))

    def taken(self) -> list[tuple[str, str]]:
        """The requests since the last call, as pairs of verb and path."""
        with self._lock:
            seen, self._seen = self._seen, []
        return seen

    def counts(self) -> dict[str, int]:
        """The counts since the last call."""
        counts = collections.Counter(verb for verb, _ in self.taken())
        return {verb: counts[verb] for verb in VERBS}


@contextlib.contextmanager
def counting_proxy(endpoint: str) -> Iterator[tuple[str, Requests]]:
    """A proxy before an S3 server: its own endpoint, and the requests that it counts."""
    requests = Requests()

    class Counting(Forwarder):
        def exchange(self, request: Request) -> Answer:
            requests.note(request)
            return self.upstream.ask(request)

    with serving(functools.partial(Counting, endpoint)) as own:
        yield own, requests


def _verb(request: Request) -> str:
    if request.method == "GET" and re.search(r"[?&]list-type=2", request.path):
        return "LIST"
    if request.method == "GET":
        return "RANGE" if any(name.lower() == "range" for name in request.headers) else "GET"
    return "DELETE" if request.method == "POST" else request.method
