"""Links, pipes and devices inside a local table: reading ends, and nothing outside is deleted or written over."""

from __future__ import annotations

import contextlib
import os
import time

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA, make_add

import indextables as it
from indextables.config import Config
from indextables.errors import IndexTablesError, ObjectNotFoundError, StorageRefusedError
from indextables.protocol.names import version_key
from indextables.store import open_store

LONG_AGO = time.time() - 90 * 24 * 3600


def store_at(place):
    return open_store(str(place), Config.resolve())


def rows(count: int = 3) -> pa.Table:
    return pa.table({"id": range(count), "message": ["words"] * count, "day": ["d"] * count}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path) -> it.Table:
    made = it.Table.create(tmp_path / "table", SCHEMA, options={"cache.disk.path": str(tmp_path / "cache")})
    made.append(rows())
    return made


def strange_file(path, kind: str) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(kind)


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "/dev/tty"])
def test_what_has_no_end_is_no_object(tmp_path, kind) -> None:
    strange_file(tmp_path / "k", kind)
    store = store_at(tmp_path)
    for read in (lambda: store.get("k"), lambda: store.get_range("k", 0, 1 << 40), lambda: store.head("k")):
        with pytest.raises(IndexTablesError) as caught:
            read()
        assert isinstance(caught.value, ObjectNotFoundError) or kind == "/dev/tty"
    assert list(store.list()) == []


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero"])
@pytest.mark.parametrize("what", ["version", "hint", "split", "manifest", "state"])
def test_a_table_with_such_a_file_is_read_or_refused(tmp_path, table, what, kind) -> None:
    """No read waits for a pipe that nobody writes to, and none goes on for ever."""
    if what in ("manifest", "state", "hint"):
        table.checkpoint()
    log = tmp_path / "table" / "_transaction_log"
    found = {
        "version": lambda: tmp_path / "table" / version_key(1),
        "hint": lambda: log / "_last_checkpoint",
        "split": lambda: next((tmp_path / "table").rglob("*.split")),
        "manifest": lambda: next(log.rglob("manifest-*.avro")),
        "state": lambda: next(log.rglob("_manifest.avro")),
    }[what]()
    strange_file(found, kind)
    try:
        again = it.Table.open(tmp_path / "table", options={"cache.disk.enabled": "false"})
        assert again.search("*").num_rows in (0, 3)
    except IndexTablesError:
        pass


def old_split(path) -> None:
    path.write_bytes(b"precious")
    os.utime(path, (LONG_AGO, LONG_AGO))


def test_a_purge_deletes_nothing_outside(tmp_path, table) -> None:
    """Whoever may write the table may put a link there, and must not have others delete through it."""
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    old_split(outside / "victim.split")
    old_split(outside / "deep" / "victim.split")
    (tmp_path / "table" / "link").symlink_to(outside)
    (tmp_path / "table" / "in").mkdir()
    (tmp_path / "table" / "in" / "up").symlink_to("../../outside/deep")
    orphan = tmp_path / "table" / "orphan.split"
    old_split(orphan)
    options = {"purge.retentionCheckEnabled": "false", "purge.deleteRetries": "0"}
    row = it.Table.open(tmp_path / "table", options=options).purge(older_than="240 hours").to_pylist()[0]
    assert not orphan.exists()
    assert (outside / "victim.split").read_bytes() == (outside / "deep" / "victim.split").read_bytes() == b"precious"
    assert "leads out of the table" in row["message"]


def test_nothing_is_deleted_through_a_link_that_leads_out(tmp_path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "k").write_bytes(b"precious")
    store = store_at(tmp_path / "t")
    store.put("own/k", b"x")
    (tmp_path / "t" / "link").symlink_to(outside)
    (tmp_path / "t" / "inside").symlink_to("own")
    for delete in (
        store.delete,
        lambda key: store.delete_many([key]),
        lambda key: store.delete(key, with_directory=True),
    ):
        with pytest.raises(StorageRefusedError, match="leads out of the table"):
            delete("link/k")
    assert (outside / "k").read_bytes() == b"precious"
    store.delete("inside/k")
    assert not (tmp_path / "t" / "own" / "k").exists()


def test_a_table_behind_a_link_is_a_table_like_any_other(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    store = store_at(tmp_path / "alias")
    store.put("d/k", b"x")
    store.delete("d/k")
    assert not (tmp_path / "real" / "d" / "k").exists()


def test_a_put_takes_the_place_of_a_link_and_leaves_its_target(tmp_path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    store = store_at(tmp_path / "t")
    store.put("k", b"x")
    (tmp_path / "t" / "link").symlink_to(victim)
    store.put("link", b"new")
    assert (store.get("link"), victim.read_bytes()) == (b"new", b"precious")
    (tmp_path / "t" / "other").symlink_to(victim)
    with pytest.raises(FileExistsError):
        store.put_if_absent("other", b"new")
    store.delete("other")
    assert victim.read_bytes() == b"precious"


def test_a_repair_writes_only_where_it_is_told(tmp_path, table) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").write_bytes(b"precious")
    log = tmp_path / "table" / "_transaction_log"
    (log / version_key(9).rpartition("/")[2]).symlink_to(victim / "kept")
    target = tmp_path / "clean"
    from indextables.commands.parse import parse_command
    from indextables.maintain.repair.repair import repair

    assert parse_command(f"REPAIR INDEXFILES TRANSACTION LOG '{table.url}' AT LOCATION '{target}'") is not None
    with contextlib.suppress(IndexTablesError):
        repair(table.url, str(target))
    assert sorted(path.name for path in victim.iterdir()) == ["kept"]
    assert (victim / "kept").read_bytes() == b"precious"


def test_a_loop_of_links_ends(tmp_path, log) -> None:
    log.add_files([make_add("a.split")])
    place = tmp_path / "table"
    (place / "loop").symlink_to(".")
    (place / "_transaction_log" / "loop").symlink_to("..")
    (place / "self.split").symlink_to("self.split")
    assert it.TransactionLog(log.url).list_files().num_rows == 1
    assert it.Table.open(log.url).purge(older_than="240 hours").num_rows == 1
