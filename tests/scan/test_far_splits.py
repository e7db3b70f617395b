"""Splits in a store that is far: few requests, and many of them at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest
from tests.servers import Running
from tests.servers.proxy import ProxyFault, fault_proxy

import indextables as it

_NUM_SPLITS = 40
_SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])


@pytest.fixture(scope="module")
def server(servers) -> Running:
    server = servers("moto")
    table = it.Table.create(f"{server.url}/far", _SCHEMA, indexing={"message": "text"}, options=server.options)
    for number in range(_NUM_SPLITS):
        words = "needle" if number == _NUM_SPLITS - 1 else "hay"
        table.append(pa.table({"id": [number], "message": [f"some {words}"]}))
    return server


@contextlib.contextmanager
def far_table(server: Running, seconds: float = 0, **further: str) -> Iterator[tuple[it.Table, list[float]]]:
    """The table behind a proxy where each request for a split takes so long, and the times at which they came."""
    times: list[float] = []

    def note(method: str, path: str, headers: Mapping[str, str]) -> ProxyFault:
        if ".split" not in path:
            return ProxyFault.NONE
        times.append(time.monotonic())
        return ProxyFault.SLOW

    with fault_proxy(server.endpoint, note, slow_seconds=seconds) as proxy:
        options = {**server.behind(proxy.endpoint), "cache.disk.enabled": False, **further}
        yield it.Table.open(f"{server.url}/far", options=options), times


def test_each_small_split_is_one_request(server) -> None:
    with far_table(server) as (table, times):
        assert table.search("message:some").num_rows == _NUM_SPLITS
        assert table.count("message:needle") == 1
        assert table.search(columns=["id"]).num_rows == _NUM_SPLITS
    assert len(times) == _NUM_SPLITS


def test_many_are_asked_at_once(server) -> None:
    with far_table(server, seconds=1) as (table, times):
        assert table.count("message:some") == _NUM_SPLITS
    at_once = [at for at in times if at < times[0] + 1]
    assert 16 < len(at_once) <= 32


def test_a_limit_asks_few_splits_first(server) -> None:
    with far_table(server) as (table, times):
        assert table.search("message:some", limit=1).num_rows == 1
        assert len(times) == 4
        assert table.search("message:needle", limit=1)["id"].to_pylist() == [_NUM_SPLITS - 1]
    assert len(times) == _NUM_SPLITS


def test_a_filter_sheet_spares_the_requests_of_splits(server) -> None:
    options = {"state.filters.minSplits": str(_NUM_SPLITS)}
    it.Table.open(f"{server.url}/far", options={**server.options, **options}).checkpoint()
    for query, num_requests in (("message:absent", 0), ("message:needle", 1), ("message:some", _NUM_SPLITS)):
        with far_table(server, **options) as (table, times):
            assert table.count(query) == num_requests
        assert len(times) == num_requests
