"""Three of the five walks of ARCHITECTURE.md, append, search and purge: their store calls are those of its table."""

from __future__ import annotations

import datetime
import itertools

import pyarrow as pa
import pytest
from tests.doubles.metered_store import MeteredStore
from tests.walks import by_verb, promised

import indextables as it
from indextables.config import Config
from indextables.log.commit import checks, transaction
from indextables.protocol import version_file
from indextables.split.search import searchable
from indextables.store import open_store

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])
OPTIONS = {"purge.retentionCheckEnabled": "false"}
NUM_APPENDS = 2
_numbers = itertools.count()


@pytest.fixture(params=["memory", "disk"])
def url(request, tmp_path) -> str:
    """A table of two splits at version 2."""
    place = str(tmp_path / "table") if request.param == "disk" else f"memory://walks-{next(_numbers)}/table"
    table = it.Table.create(place, SCHEMA, indexing={"message": "text"})
    for number in range(NUM_APPENDS):
        table.append(rows(number))
    return table.url


def rows(first: int) -> pa.Table:
    return pa.table({"id": [first, first + 1], "message": [f"disk {first} full", "fan broken"]}, SCHEMA)


def opened(url: str) -> tuple[it.Table, MeteredStore]:
    """A handle that counts its calls, the opening included."""
    store = MeteredStore(open_store(url, Config.resolve()))
    return it.Table(it.TransactionLog(url, store=store, options=OPTIONS)), store


def counted(store: MeteredStore) -> dict[str, int]:
    counts = by_verb(store.calls)
    store.calls.clear()
    return counts


def test_append(url) -> None:
    table, store = opened(url)
    assert table.append(rows(10)) == table.version == NUM_APPENDS + 1
    assert counted(store) == promised()["append, cold"]
    table.append(rows(20))
    assert counted(store) == promised()["append, warm"]
    assert table.count() == 2 * (NUM_APPENDS + 2)


def test_search(url) -> None:
    table, store = opened(url)
    assert table.search("disk").num_rows == NUM_APPENDS
    assert counted(store) == promised()["search, cold"]
    assert table.search("disk").num_rows == NUM_APPENDS
    assert counted(store) == promised()["search, warm"]


def test_purge_with_nothing_to_do(url) -> None:
    table, store = opened(url)
    assert table.purge()["status"].to_pylist() == ["NO_ACTION"]
    assert counted(store) == promised()["purge of nothing, cold"]
    table.purge()
    assert counted(store) == promised()["purge of nothing, warm"]


def test_purge(url) -> None:
    it.open(url).overwrite(rows(30))
    table, store = opened(url)
    answer = table.purge(older_than=datetime.timedelta(0)).to_pylist()[0]
    assert (answer["status"], answer["orphaned_files_deleted"]) == ("SUCCESS", NUM_APPENDS)
    assert counted(store) == promised()["purge, cold"]
    table.overwrite(rows(40))
    store.calls.clear()
    assert table.purge(older_than=datetime.timedelta(0))["orphaned_files_deleted"].to_pylist() == [1]
    assert counted(store) == promised()["purge, warm"]
    assert (table.count(), table.fsck().num_rows) == (2, 0)


def test_a_commit_encodes_and_decodes_its_actions_once(url, monkeypatch) -> None:
    """The bytes that are put are those that were decoded."""
    table, _ = opened(url)
    encoded: list[object] = []
    decoded: list[bytes] = []
    monkeypatch.setattr(
        version_file, "_encode_line", _noted(version_file._encode_line, lambda action: encoded.append(type(action)))
    )
    monkeypatch.setattr(checks, "decode_version", _noted(checks.decode_version, lambda data, *_: decoded.append(data)))
    sealed: list[bytes] = []
    monkeypatch.setattr(
        transaction, "seal_lines", _noted(transaction.seal_lines, lambda lines, **_: sealed.append(lines))
    )
    table.append(rows(10))
    assert sorted(kind.__name__ for kind in encoded) == ["Add", "CommitInfo"]
    assert len(decoded) == len(sealed) == 1
    assert sealed[0].endswith(decoded[0])


def test_a_query_is_compiled_once(url, monkeypatch) -> None:
    """All splits are indexed alike, so that one query of the engine serves them all."""
    table, _ = opened(url)
    compiled: list[object] = []
    searchable.compiled_query.cache_clear()
    compiler = _noted(searchable.compile_query, lambda tree, *_, **__: compiled.append(tree))
    monkeypatch.setattr(searchable, "compile_query", compiler)
    assert table.search("disk OR fan").num_rows == 2 * NUM_APPENDS
    assert table.count("disk OR fan") == 2 * NUM_APPENDS
    assert len(compiled) == 1


def _noted(function, note):
    def noting(*arguments, **named):
        note(*arguments, **named)
        return function(*arguments, **named)

    return noting
