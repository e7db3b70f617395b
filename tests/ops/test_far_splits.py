"""Splits in a store that is far: few requests, and many of them at once."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pyarrow as pa
import pytest
from tests.servers import Running
from tests.servers.proxy import ProxyFault, fault_proxy

import indextables as it

_NUM_SPLITS = 20
_SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])


@pytest.fixture(scope="module")
def server(servers) -> Running:
    server = servers("moto")
    table = it.Table.create(f"{server.url}/far", _SCHEMA, indexing={"message": "text"}, options=server.options)
    for number in range(_NUM_SPLITS):
        words = "needle" if number == _NUM_SPLITS - 1 else "hay"
        table.append(pa.table({"id": [number], "message": [f"some {words}"]}))
    return server


class Far:
    """The table behind a proxy that lets each request for a split take so long, and notes when they come."""

    def __init__(self, server: Running, seconds: float = 0) -> None:
        self.times: list[float] = []
        self._server = server
        self._seconds = seconds

    def __enter__(self) -> it.Table:
        self._proxy = fault_proxy(self._server.endpoint, self._note, slow_seconds=self._seconds)
        options = {**self._server.behind(self._proxy.__enter__().endpoint), "cache.disk.enabled": False}
        return it.Table.open(f"{self._server.url}/far", options=options)

    def __exit__(self, *error: object) -> None:
        self._proxy.__exit__(None, None, None)

    def _note(self, method: str, path: str, headers: Mapping[str, str]) -> ProxyFault:
        if ".split" not in path:
            return ProxyFault.NONE
        self.times.append(time.monotonic())
        return ProxyFault.SLOW


def test_each_small_split_is_one_request(server) -> None:
    far = Far(server)
    with far as table:
        assert table.search("message:some").num_rows == _NUM_SPLITS
        assert table.count("message:needle") == 1
        assert table.search(columns=["id"]).num_rows == _NUM_SPLITS
    assert len(far.times) == _NUM_SPLITS


def test_many_are_asked_at_once(server) -> None:
    far = Far(server, seconds=1)
    with far as table:
        assert table.count("message:some") == _NUM_SPLITS
    at_once = [at for at in far.times if at < far.times[0] + 1]
    assert 8 < len(at_once) <= 16


def test_a_limit_asks_few_splits_first(server) -> None:
    far = Far(server)
    with far as table:
        assert table.search("message:some", limit=1).num_rows == 1
        assert len(far.times) == 4
        assert table.search("message:needle", limit=1)["id"].to_pylist() == [_NUM_SPLITS - 1]
    assert len(far.times) == _NUM_SPLITS
