"""A proxy between client and server that lets requests go wrong, in every way in which networks and servers do.

Signatures pass, because requests are handed on as they came. A script says for each request what becomes of it.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from tests.servers.forwarding import Answer, Forwarder, Request, has_something, serving

_LONGEST_WAIT_SECONDS = 120


class ProxyFault(enum.Enum):
    """What goes wrong with one request."""

    NONE = "nothing"
    UNAVAILABLE = "503: not applied, and said so"
    THROTTLED = "429: not applied, and said so"
    APPLIED_RESET = "reset: applied"
    APPLIED_ERROR = "500: applied"
    APPLIED_TIMEOUT = "time-out: applied"
    DROPPED_TIMEOUT = "time-out: not applied"
    DELAYED = "time-out: applied later"
    CONFLICT_409 = "409: not applied, and nothing need be there"
    RESET = "reset: not applied"
    SLOW = "nothing, but late"


ProxyScript = Callable[[str, str, Mapping[str, str]], ProxyFault]

_REFUSALS = {
    ProxyFault.UNAVAILABLE: (503, "ServiceUnavailable"),
    ProxyFault.THROTTLED: (429, "SlowDown"),
    ProxyFault.CONFLICT_409: (409, "ConditionalRequestConflict"),
    ProxyFault.APPLIED_ERROR: (500, "InternalError"),
}


class FaultProxy:
    """A proxy under way: its endpoint, and how often each thing went wrong."""

    def __init__(self, script: ProxyScript, slow_seconds: float, late_seconds: float) -> None:
        self.endpoint = ""
        self.script = script
        self.slow_seconds = slow_seconds
        self.late_seconds = late_seconds
        self.ended = threading.Event()
        self.released = threading.Event()
        self._changed = threading.Condition()
        self._counts: collections.Counter[ProxyFault] = collections.Counter()
        self._num_late = 0

    @property
    def counts(self) -> dict[ProxyFault, int]:
        """Requests by what became of them; `NONE` counts those that went well."""
        with self._changed:
            return dict(self._counts)

    @property
    def num_faults(self) -> int:
        """Requests with which something went wrong."""
        return sum(number for fault, number in self.counts.items() if fault is not ProxyFault.NONE)

    def next_fault(self, request: Request) -> ProxyFault:
        with self._changed:  # scripts need not be safe for threads
            fault = self.script(request.method, request.path, request.headers)
            self._counts[fault] += 1
            self._num_late += fault is ProxyFault.DELAYED
            return fault

    def arrived(self) -> None:
        """A delayed request has come to its end."""
        with self._changed:
            self._num_late -= 1
            self._changed.notify_all()

    def settle(self) -> None:
        """Let every delayed request arrive, now."""
        self.released.set()
        with self._changed:
            assert self._changed.wait_for(lambda: self._num_late == 0, _LONGEST_WAIT_SECONDS)
        self.released.clear()


@contextlib.contextmanager
def fault_proxy(
    upstream: str, script: ProxyScript, *, slow_seconds: float = 0.05, late_seconds: float = 0.3
) -> Iterator[FaultProxy]:
    """A proxy before the server of this endpoint. It ends with the block, after its delayed requests have arrived."""
    proxy = FaultProxy(script, slow_seconds, late_seconds)
    with serving(functools.partial(_Faulty, upstream, proxy)) as endpoint:
        proxy.endpoint = endpoint
        try:
            yield proxy
        finally:
            proxy.ended.set()
            proxy.released.set()


class _Faulty(Forwarder):
    def __init__(self, upstream: str, proxy: FaultProxy, *connection: object) -> None:
        self.proxy = proxy
        super().__init__(upstream, *connection)

    def exchange(self, request: Request) -> Answer | None:
        fault = self.proxy.next_fault(request)
        if fault.name.startswith("APPLIED") or fault in (ProxyFault.NONE, ProxyFault.SLOW):
            return self._applied(request, fault)
        if fault in _REFUSALS:
            return _refusal(fault)
        if fault is ProxyFault.RESET:
            self.reset()
            return None
        self._wait_for_the_client()
        if fault is ProxyFault.DELAYED:
            self._deliver_late(request)
        return None

    def _deliver_late(self, request: Request) -> None:
        """Hand the request on after a while, though nobody waits for its answer any more."""
        self.proxy.released.wait(self.proxy.late_seconds)
        with contextlib.suppress(ConnectionError):
            self.upstream.ask(request)
        self.proxy.arrived()

    def _applied(self, request: Request, fault: ProxyFault) -> Answer | None:
        if fault is ProxyFault.SLOW:
            time.sleep(self.proxy.slow_seconds)
        try:
            answer = self.upstream.ask(request)
        except ConnectionError:  # the server is gone
            self.reset()
            return None
        if fault in _REFUSALS:
            return _refusal(fault)
        if fault is ProxyFault.APPLIED_RESET:
            self.reset()
            return None
        if fault is ProxyFault.APPLIED_TIMEOUT:
            self._wait_for_the_client()
            return None
        return answer

    def _wait_for_the_client(self) -> None:
        """Until it gives up, which closes the connection."""
        deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
        while time.monotonic() < deadline and not self.proxy.ended.is_set():
            if has_something(self.connection, 0.1):
                return


def _refusal(fault: ProxyFault) -> Answer:
    status, code = _REFUSALS[fault]
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>injected</Message></Error>'
    return Answer(status, {"content-type": "application/xml"}, body.encode())


class _Careless(Forwarder):
    """Takes the conditions from requests, as servers do that do not know them."""

    def exchange(self, request: Request) -> Answer | None:
        conditions = ("if-none-match", "x-goog-if-generation-match")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in conditions}
        return self.upstream.ask(request._replace(headers=headers))


def careless_proxy(upstream: str) -> AbstractContextManager[str]:
    """The endpoint of a proxy that makes a server ignore put-if-absent."""
    return serving(functools.partial(_Careless, upstream))
