"""The store on a real HDFS: the contract, races between processes, and servers and writers that are killed."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import pickle
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
import test_store_contract as contract
from hdfs_workers import ROWS_PER_APPEND, SCHEMA, append_many, put_as, rows_from, upload
from test_store_contract import (  # noqa: F401 - they run here on the fixtures below
    test_contract_get_of_the_object_that_was_seen,
    test_store_a_directory_is_no_object,
    test_store_bad_keys_are_refused_by_every_verb,
    test_store_concurrent_creates_have_one_winner,
    test_store_delete_many_checks_all_keys_first,
    test_store_delete_many_passes_over_what_is_missing,
    test_store_delete_of_what_is_missing_is_no_error,
    test_store_distant_ranges_of_a_large_object,
    test_store_empty_objects_are_objects,
    test_store_empty_ranges_ask_nothing,
    test_store_errors_name_verb_and_key,
    test_store_get_of_a_missing_key,
    test_store_list_after_a_name,
    test_store_list_and_head_tell_the_same,
    test_store_list_is_sorted_by_whole_keys,
    test_store_list_of_an_empty_place,
    test_store_list_of_more_than_a_page,
    test_store_list_prefix_is_a_directory,
    test_store_odd_keys_round_trip,
    test_store_opened_again_sees_the_same,
    test_store_pages_of_nothing_are_none,
    test_store_put_creates_and_replaces,
    test_store_put_file_of_no_file,
    test_store_put_file_of_several_parts,
    test_store_put_file_replaces_and_takes_empty_files,
    test_store_put_if_absent_after_a_delete_creates_anew,
    test_store_put_if_absent_creates_once,
    test_store_ranges,
    test_store_ranges_beyond_the_end,
    test_store_ranges_that_are_none,
)
from tests.servers.hdfs import RunningHdfs, missing, running_hdfs

import indextables as it
from indextables.clock import SystemClock
from indextables.config import Config
from indextables.errors import CommitStateUnknownError, ObjectExistsError, StorageError, StorageRefusedError
from indextables.store import ObjectStore, open_store
from indextables.store.hdfs.store import HdfsStore

pytestmark = pytest.mark.slow
DAY_MS = 24 * 3600 * 1000


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory) -> Iterator[RunningHdfs]:
    if reason := missing():
        pytest.skip(reason)
    with running_hdfs(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture
def kind(monkeypatch) -> str:
    monkeypatch.setattr(contract, "ODD_KEYS", [key for key in contract.ODD_KEYS if ":" not in key])
    return "hdfs"


@pytest.fixture
def store(kind, hdfs) -> ObjectStore:
    return open_at(f"{hdfs.url}/{uuid.uuid4()}/{contract.ROOT}", hdfs)


@pytest.fixture
def client(hdfs):
    from hdfs_native import Client

    return Client(hdfs.url)


def open_at(url: str, hdfs: RunningHdfs, **options: object) -> ObjectStore:
    return open_store(url, Config.resolve(options={**hdfs.options, **options}))


def names_below(client, directory: str) -> list[str]:
    """Everything in a directory, also what the store does not show."""
    return [status.path.removeprefix(f"{directory}/") for status in client.list_status(directory, recursive=True)]


def spawned(work, *arguments: object):
    """The answer of another process."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result(120)


# What is HDFS's own


def test_hdfs_is_remote_and_says_where_it_is(store, hdfs):
    assert store.is_remote
    assert store.location.url.startswith(f"{hdfs.url}/")
    assert repr(pickle.loads(pickle.dumps(store))) == f"HdfsStore({store.location.url!r})"


def test_hdfs_keys_with_a_colon_are_refused(store, client):
    with pytest.raises(StorageRefusedError, match="HDFS has no names with a colon"):
        store.put("day=2026:01/x", b"x")
    with pytest.raises(RuntimeError, match="InvalidPathException"):
        client.create("/a:b")


def test_hdfs_a_put_leaves_nothing_but_its_key(store, client):
    store.put("d/k", b"first")
    store.put("d/k", b"second")
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("d/k", b"third")
    with pytest.raises(StorageError, match="cannot write `d`"):
        store.put("d", b"a directory is there")
    with pytest.raises(StorageError, match="cannot create `d/k/below`") as caught:
        store.put_if_absent("d/k/below", b"a file is above")
    assert not isinstance(caught.value, ObjectExistsError)
    assert "\n\tat " not in str(caught.value)
    assert names_below(client, f"/{store.location.path}") == ["d", "d/k"]


class OneId(SystemClock):
    """Gives the same id again and again."""

    def uuid(self) -> str:
        return "one"


def test_hdfs_a_lost_answer_about_a_temporary_file_says_nothing_of_the_key(store, client):
    client.create(f"/{store.location.path}/.indextables-one.tmp").close()
    again = HdfsStore(store.location, Config.resolve(), clock=OneId())
    with pytest.raises(StorageError, match=r"cannot write .* because a response of the NameNode was lost") as caught:
        again.put_if_absent("k", b"x")
    assert type(caught.value) is StorageError
    again.put_if_absent("k", b"x")
    assert store.get("k") == b"x"


class Recording:
    """A client or writer that notes what is asked of it."""

    def __init__(self, inner, asked: list[str]) -> None:
        self._inner = inner
        self._asked = asked

    def __getattr__(self, verb: str):
        def call(*arguments):
            self._asked.append(verb)
            answer = getattr(self._inner, verb)(*arguments)
            return Recording(answer, self._asked) if verb == "create" else answer

        return call


def test_hdfs_a_put_is_synced_and_closed_before_it_is_renamed(store, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"x")
    store.put("before", b"")
    client, root = store._open()
    asked: list[str] = []
    store._made = (Recording(client, asked), root)
    for put in (store.put, store.put_if_absent):
        put(f"{put.__name__}", b"x")
    store.put_file("file", str(source))
    assert asked == ["create", "write", "hsync", "close", "rename"] * 3
    assert store.get("put") == store.get("put_if_absent") == b"x"


def test_hdfs_pages_hold_every_object(store):
    keys = ["a", "b/c", "b/d/e", "z"]
    for key in keys:
        store.put(key, b"")
    assert sorted(meta for page in store.pages() for meta in page) == list(store.list())
    assert [meta.key for meta in store.list()] == keys
    assert [meta.key for page in store.pages("b") for meta in page] == ["b/c", "b/d/e"]


def test_hdfs_delete_takes_the_directory_that_it_leaves_empty(store, client):
    store.put("d/e/k", b"")
    store.put("d/e/l", b"")
    store.delete("d/e/k", with_directory=True)
    assert names_below(client, f"/{store.location.path}/d") == ["e", "e/l"]
    store.delete("d/e/l", with_directory=True)
    assert names_below(client, f"/{store.location.path}") == ["d"]


def test_hdfs_reads_beside_a_replacement_are_whole(store):
    contents = [bytes([number]) * 100_000 for number in range(6)]
    store.put("k", contents[0])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [store.put("k", content) for content in contents])
        while not writing.done():
            assert store.get("k") in contents
        writing.result()
    assert store.get("k") == contents[-1]


def test_hdfs_of_a_user_without_permission(hdfs):
    place = f"{hdfs.url}/{uuid.uuid4()}"
    open_at(place, hdfs).put("mine", b"x")
    kind, message = spawned(put_as, place, hdfs.options, "somebody", "theirs")
    assert kind == "StorageDeniedError"
    assert "Permission denied: user=somebody" in message
    assert "hint: check the user" in message


# Mount tables and default file systems


def test_hdfs_by_a_mount_table_is_the_same_place(hdfs):
    place = str(uuid.uuid4())
    mounts = {"fs.viewfs.mounttable.cluster.link./data": f"{hdfs.url}/{place}", "fs.defaultFS": "viewfs://cluster"}
    options = {**hdfs.options, "hdfs.configuration": json.dumps(mounts)}
    table = it.Table.create("viewfs://cluster/data/logs", SCHEMA, indexing={"message": "text"}, options=options)
    table.append(rows_from(0))
    assert it.Table.open("viewfs:///data/logs", options=options).search("word3")["id"].to_pylist() == [3]
    direct = it.Table.open(f"{hdfs.url}/{place}/logs", options=hdfs.options)
    assert (direct.version, direct.search("word3")["id"].to_pylist()) == (1, [3])


def test_hdfs_by_the_hosts_configuration(hdfs, monkeypatch):
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.directory / "conf"))
    place = str(uuid.uuid4())
    open_at(f"hdfs:///{place}", hdfs).put("k", b"x")
    assert open_at(f"{hdfs.url}/{place}", hdfs).get("k") == b"x"


def test_hdfs_by_a_name_service_whose_first_namenode_is_gone(hdfs):
    keys = {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "one,two",
        "dfs.namenode.rpc-address.ns.one": "127.0.0.1:1",
        "dfs.namenode.rpc-address.ns.two": f"127.0.0.1:{hdfs.port}",
    }
    store = open_at(f"hdfs://ns/{uuid.uuid4()}", hdfs, **{"hdfs.configuration": json.dumps(keys)})
    store.put_if_absent("k", b"x")
    assert store.get("k") == b"x"


# Races and crashes


def test_hdfs_commits_of_four_processes_are_there_once(hdfs):
    url = f"{hdfs.url}/{uuid.uuid4()}/t"
    it.Table.create(url, SCHEMA, options=hdfs.options)
    num_processes, num_appends = 4, 3
    with concurrent.futures.ProcessPoolExecutor(num_processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(append_many, url, hdfs.options, who, num_appends) for who in range(num_processes)]
        versions = [version for each in running for version in each.result(180)]
    total = num_processes * num_appends
    table = it.Table.open(url, options=hdfs.options)
    assert sorted(versions) == list(range(1, total + 1))
    assert table.log.versions() == list(range(total + 1))
    assert sorted(table.search()["id"].to_pylist()) == list(range(total * ROWS_PER_APPEND))


def test_hdfs_a_killed_writer_leaves_only_what_is_swept(hdfs, store, client, tmp_path):
    source = tmp_path / "large"
    source.write_bytes(bytes(256 << 20))
    directory = f"/{store.location.path}/d"
    writer = multiprocessing.get_context("spawn").Process(
        target=upload, args=(store.location.url, hdfs.options, "d/large", str(source)), daemon=True
    )
    writer.start()
    deadline = time.monotonic() + 120
    while not any(".tmp" in name for name in _names_or_none(client, directory)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    writer.kill()
    writer.join(30)
    (left,) = names_below(client, directory)
    assert left.startswith(".indextables-")
    assert list(store.list()) == []

    store.put("d/young", b"")
    assert left in names_below(client, directory)
    long_ago = client.get_file_info(f"{directory}/young").modification_time - DAY_MS - 1
    client.set_times(f"{directory}/{left}", long_ago, long_ago)
    pickle.loads(pickle.dumps(store)).put("d/later", b"")
    assert names_below(client, directory) == ["later", "young"]


def _names_or_none(client, directory: str) -> list[str]:
    try:
        return names_below(client, directory)
    except FileNotFoundError:
        return []


def test_hdfs_a_namenode_that_is_killed_loses_nothing(hdfs):
    url = f"{hdfs.url}/{uuid.uuid4()}/t"
    table = it.Table.create(url, SCHEMA, options=hdfs.options)
    acknowledged: list[int] = []
    unclear: list[int] = []
    done = threading.Event()

    def write() -> None:
        first = 0
        while not done.is_set():
            try:
                table.append(rows_from(first))
                acknowledged.append(first)
            except CommitStateUnknownError:
                unclear.append(first)
            except StorageError:
                time.sleep(0.2)
            first += ROWS_PER_APPEND

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            _wait_for(lambda: acknowledged)
            hdfs.kill("namenode")
            num_before = len(acknowledged)
            hdfs.start("namenode")
            hdfs.wait()
            _wait_for(lambda: len(acknowledged) > num_before + 1)
        finally:
            done.set()
        writing.result(120)

    again = it.Table.open(url, options=hdfs.options)
    again.append(rows_from(1_000_000))
    found = sorted(again.search()["id"].to_pylist())
    sure = {number for first in [*acknowledged, 1_000_000] for number in range(first, first + ROWS_PER_APPEND)}
    perhaps = {number for first in unclear for number in range(first, first + ROWS_PER_APPEND)}
    assert len(found) == len(set(found))
    assert sure <= set(found) <= sure | perhaps
    assert again.log.versions() == list(range(again.version + 1))
    assert again.fsck().num_rows == 0


def _wait_for(condition) -> None:
    deadline = time.monotonic() + 150
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
