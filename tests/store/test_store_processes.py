"""Stores in other processes: pickled, spawned and forked."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from opened import memory_store, open_at
from store_workers import put_and_get
from tests.servers import BUCKET, running
from tests.servers.azure import AZURE_KEY
from tests.servers.s3 import AWS_SECRET, s3_options

from indextables.errors import StorageError
from indextables.store import ObjectStore


@pytest.fixture(scope="module")
def moto_endpoint(tmp_path_factory) -> Iterator[str]:
    with running("moto", tmp_path_factory.mktemp("moto")) as server:
        yield server.endpoint


def s3_store(endpoint: str) -> ObjectStore:
    return open_at(f"s3://{BUCKET}/{uuid.uuid4()}", **s3_options(endpoint))


def run_script(script: str, *arguments: str) -> str:
    """What a fresh interpreter prints; it hangs for no longer than the time-out."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PREAMBLE + script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


PREAMBLE = """
import os, sys, signal
from indextables.config import Config
from indextables.errors import StorageError
from indextables.store import open_store

def open_s3(endpoint):
    options = {"aws.endpoint": endpoint, "aws.accessKey": "a", "aws.secretKey": "b", "aws.region": "us-east-1"}
    return open_store("s3://tables/forks", Config.resolve(options={**options, "store.allowHttp": True}))

def in_child(work):
    # Prints what the work returns or raises in a forked child; a child that hangs is ended by its alarm.
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(15)
        try:
            print("child:", work())
        except StorageError as error:
            print("child:", type(error).__name__, error)
        sys.stdout.flush()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print("status:", status)
"""


# Forks


def test_fork_after_network_use_is_a_clear_error(moto_endpoint):
    script = """
store = open_s3(sys.argv[1])
store.put("k", b"x")
in_child(lambda: store.get("k"))
in_child(lambda: open_s3(sys.argv[1]).get("k"))
print("parent:", store.get("k"))
"""
    said = run_script(script, moto_endpoint)
    assert said.count("child: StorageError cannot reach `s3://tables/forks` because this process was forked") == 2
    assert said.count("hint: start workers with the `spawn` or `forkserver` method") == 2
    assert said.count("status: 0") == 2
    assert "parent: b'x'" in said


def test_fork_after_memory_use_is_a_clear_error(moto_endpoint):
    script = """
open_store("memory://m/t", Config.resolve()).put("k", b"x")
in_child(lambda: open_s3(sys.argv[1]).put("k", b"x"))
"""
    said = run_script(script, moto_endpoint)
    assert "child: StorageError cannot reach" in said
    assert "status: 0" in said


def test_fork_before_network_use_works(moto_endpoint):
    script = """
store = open_s3(sys.argv[1])
in_child(lambda: (store.put("before", b"x"), store.get("before"))[1])
store.put("k", b"y")
print("parent:", store.get("before"), store.get("k"))
"""
    said = run_script(script, moto_endpoint)
    assert "child: b'x'\nstatus: 0" in said
    assert "parent: b'x' b'y'" in said


def test_fork_of_a_fork_is_still_guarded(moto_endpoint):
    script = """
open_s3(sys.argv[1]).put("k", b"x")
def grandchild():
    in_child(lambda: open_s3(sys.argv[1]).get("k"))
    return "done"
in_child(grandchild)
"""
    assert "child: StorageError cannot reach" in run_script(script, moto_endpoint)


def test_fork_leaves_local_disk_alone(moto_endpoint, tmp_path):
    script = """
open_s3(sys.argv[1]).put("k", b"x")
store = open_store(sys.argv[2], Config.resolve())
store.put("k", b"x")
print([meta.key for meta in store.list()])
in_child(lambda: (store.put("l", b"y"), store.get("l"), [meta.key for meta in store.list()])[1:])
print("parent:", [meta.key for meta in store.list()])
"""
    said = run_script(script, moto_endpoint, str(tmp_path / "t"))
    assert "child: (b'y', ['k', 'l'])\nstatus: 0" in said
    assert "parent: ['k', 'l']" in said


def test_fork_of_a_memory_store_is_refused():
    script = """
store = open_store("memory://m/t", Config.resolve())
in_child(lambda: store.put("k", b"x"))
store.put("k", b"x")
in_child(lambda: store.get("k"))
in_child(lambda: open_store("memory://m/t", Config.resolve()).get("k"))
"""
    said = run_script(script)
    assert said.count("a memory table exists only in its own process") == 2
    assert said.count("child: StorageError") == 3
    assert said.count("status: 0") == 3


# Pickles


def in_spawned_process(store: ObjectStore) -> object:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=put_and_get, args=(pickle.dumps(store), answers), daemon=True)
    process.start()
    answer = answers.get(timeout=60)
    process.join(30)
    assert process.exitcode == 0
    return answer


def test_pickled_s3_store_works_in_a_spawned_process(moto_endpoint):
    store = s3_store(moto_endpoint)
    store.put("k", b"x")
    assert in_spawned_process(store) == b"hello"
    assert store.get("from-the-child") == b"hello"


def test_pickled_local_store_works_in_a_spawned_process(tmp_path):
    store = open_at(str(tmp_path / "t"))
    store.put("k", b"x")
    assert list(store.list())
    assert in_spawned_process(store) == b"hello"
    assert [meta.key for meta in store.list()] == ["from-the-child", "k"]


def test_pickled_memory_store_is_refused_by_a_spawned_process():
    store = memory_store()
    assert "a memory table exists only in its own process" in str(in_spawned_process(store))
    store.put("k", b"x")
    assert pickle.loads(pickle.dumps(store)).get("k") == b"x"


def test_pickled_memory_store_names_its_process():
    rebuild, arguments = memory_store().__reduce__()
    location, config, process = arguments
    assert process == os.getpid()
    with pytest.raises(StorageError, match="only in its own process"):
        rebuild(location, config, process + 1)


def test_pickled_store_keeps_its_options():
    store = open_at("s3://b/t", **{"aws.region": "eu-central-1", "store.timeoutSeconds": 7})
    assert pickle.loads(pickle.dumps(store))._config == store._config


def test_pickled_store_takes_nothing_from_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS_SECRET)
    store = open_at("s3://b/t", **{"aws.region": "eu-central-1"})
    store._client()
    assert AWS_SECRET.encode() not in pickle.dumps(store)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://b/t", {"aws.accessKey": "AKIASECRET", "aws.secretKey": AWS_SECRET, "aws.sessionToken": "TOKENTOKEN"}),
        ("az://c/t", {"azure.accountName": "a", "azure.accountKey": AZURE_KEY}),
        ("gs://b/t", {"gcs.bearerToken": "TOKENTOKEN"}),
    ],
)
def test_repr_of_a_store_shows_no_secret(url, options):
    store = open_at(url, **options)
    for text in (repr(store), str(store), repr(store._config)):
        for secret in ("AKIASECRET", AWS_SECRET, "TOKENTOKEN", AZURE_KEY):
            assert secret not in text
    assert repr(store) == f"CloudStore({url!r})"
