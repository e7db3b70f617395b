"""HDFS without a cluster: whose configuration counts, where an address leads, and what errors become."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

import pytest

from indextables.config import Config
from indextables.errors import (
    ConfigError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageError,
    StorageRefusedError,
)
from indextables.store import open_store, parse_location
from indextables.store.hdfs.client import hdfs_errors
from indextables.store.hdfs.configuration import find_root, hdfs_keys, read_keys
from indextables.store.hdfs.store import HdfsStore

MOUNTS = {
    "fs.viewfs.mounttable.cluster.link./data": "hdfs://one:8020/mnt/data",
    "fs.viewfs.mounttable.cluster.link./data/deep": "hdfs://two",
    "fs.viewfs.mounttable.cluster.link./cloud": "s3a://bucket/x",
    "fs.viewfs.mounttable.default.link./data": "hdfs://three:9000/d",
    "fs.viewfs.mounttable.open.linkFallback": "hdfs://four:8020/all",
}


def open_at(url: str, **options: object) -> HdfsStore:
    store = open_store(url, Config.resolve(options=options))
    assert isinstance(store, HdfsStore)
    return store


# Keys


def test_hdfs_keys_are_those_that_a_client_needs():
    needed = {
        "fs.defaultFS": "hdfs://ns",
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "a,b",
        "dfs.namenode.rpc-address.ns.a": "one:8020",
        "dfs.client.failover.proxy.provider.ns": "x.ConfiguredFailoverProxyProvider",
        "fs.viewfs.mounttable.cluster.link./data": "hdfs://ns/data",
        "dfs.data.transfer.protection": "privacy",
        "hadoop.security.authentication": "kerberos",
        "hadoop.rpc.protection": "privacy",
        "dfs.namenode.kerberos.principal": "nn/_HOST@REALM",
        "dfs.namenode.kerberos.principal.pattern": "*",
    }
    others = {
        "fs.s3a.secret.key": "secret",
        "dfs.replication": "3",
        "dfs.namenode.name.dir": "/data",
        "hadoop.security.credential.provider.path": "jceks://x",
        "ssl.client.keystore.password": "secret",
        "dfs.nameservices.x": "y",
    }
    assert hdfs_keys({**needed, **others}) == needed


@pytest.mark.parametrize("default", ["file:///", "s3a://bucket", "", "hdfsx://n"])
def test_hdfs_keys_leave_out_a_default_file_system_of_another_kind(default):
    assert hdfs_keys({"fs.defaultFS": default}) == {}


def test_hdfs_configuration_goes_over_the_files_of_the_host(tmp_path):
    (tmp_path / "etc/hadoop").mkdir(parents=True)
    (tmp_path / "etc/hadoop/core-site.xml").write_text(
        "<?xml version='1.0'?><configuration>"
        "<property><name>fs.defaultFS</name><value> hdfs://files:8020 </value></property>"
        "<property><name>a</name><value>core</value></property></configuration>"
    )
    (tmp_path / "etc/hadoop/hdfs-site.xml").write_text(
        "<configuration><property><name>a</name><value>hdfs</value></property><property/></configuration>"
    )
    home = {"HADOOP_HOME": str(tmp_path)}
    assert read_keys(None, home) == {"fs.defaultFS": "hdfs://files:8020", "a": "hdfs"}
    assert read_keys('{"a": "option"}', home)["a"] == "option"
    assert read_keys(None, {**home, "HADOOP_CONF_DIR": str(tmp_path / "nothing")}) == {}
    assert read_keys(None, {"HADOOP_CONF_DIR": str(tmp_path / "etc/hadoop")})["a"] == "hdfs"
    assert read_keys(None, {}) == {}


def test_hdfs_configuration_files_that_are_damaged(tmp_path):
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigError, match=r"cannot read the Hadoop configuration .*core-site\.xml"):
        read_keys(None, {"HADOOP_CONF_DIR": str(tmp_path)})


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"a": 1}', '{"a": null}'])
def test_hdfs_configuration_that_is_no_object_of_texts(text):
    with pytest.raises(ConfigError, match=r"cannot use `hdfs\.configuration`"):
        read_keys(text, {})


def test_hdfs_settings_are_never_taken_from_a_table():
    given = {"hdfs.user": "root", "hdfs.configuration": "{}"}
    assert Config.resolve(properties=given) == Config.resolve(properties={})


# Places

ROOTS = [
    ("hdfs://one:9000/a/b", {}, ("hdfs://one:9000", "/a/b")),
    ("hdfs://one/a", {}, ("hdfs://one:8020", "/a")),
    ("hdfs://one", {}, ("hdfs://one:8020", "")),
    ("hdfs://ns/a", {"dfs.ha.namenodes.ns": "x,y"}, ("hdfs://ns", "/a")),
    ("hdfs://ns/a", {"dfs.namenode.rpc-address.ns": "one:9000"}, ("hdfs://one:9000", "/a")),
    ("hdfs:///a", {"fs.defaultFS": "hdfs://one:9000/"}, ("hdfs://one:9000", "/a")),
    ("hdfs:///a", {"fs.defaultFS": "hdfs://ns", "dfs.ha.namenodes.ns": "x"}, ("hdfs://ns", "/a")),
    ("viewfs://cluster/data/t", MOUNTS, ("hdfs://one:8020", "/mnt/data/t")),
    ("viewfs://cluster/data/deep", MOUNTS, ("hdfs://two:8020", "")),
    ("viewfs://cluster/data/deep/t%20x", MOUNTS, ("hdfs://two:8020", "/t%20x")),
    ("viewfs://cluster/data/deeper", MOUNTS, ("hdfs://one:8020", "/mnt/data/deeper")),
    ("viewfs:///data/t", MOUNTS, ("hdfs://three:9000", "/d/t")),
    ("viewfs:///data/t", {**MOUNTS, "fs.defaultFS": "viewfs://cluster"}, ("hdfs://one:8020", "/mnt/data/t")),
    ("viewfs://open/t", MOUNTS, ("hdfs://four:8020", "/all/t")),
]


@pytest.mark.parametrize(("url", "keys", "expected"), ROOTS)
def test_hdfs_address_leads_to_a_file_system_and_a_path(url, keys, expected):
    assert find_root(parse_location(url), keys) == expected


NOWHERE = [
    ("hdfs:///a", {}, "names no host"),
    ("hdfs:///a", {"fs.defaultFS": "file:///"}, "names no host"),
    ("hdfs:///a", {"fs.defaultFS": "viewfs://cluster"}, "names no host"),
    ("viewfs://cluster/other", MOUNTS, "nothing is mounted there"),
    ("viewfs://cluster/dat", MOUNTS, "nothing is mounted there"),
    ("viewfs://unknown/data", MOUNTS, "nothing is mounted there"),
    ("viewfs://cluster/data", MOUNTS, "`/data/deep` is mounted inside it"),
    ("viewfs://cluster/cloud/t", MOUNTS, "is not HDFS"),
]


@pytest.mark.parametrize(("url", "keys", "reason"), NOWHERE)
def test_hdfs_address_that_leads_nowhere(url, keys, reason):
    with pytest.raises(ConfigError, match=r"cannot open `(hdfs|viewfs)://") as caught:
        find_root(parse_location(url), keys)
    assert reason in str(caught.value)


# Clients


def test_hdfs_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    store = open_at("hdfs://namenode:8020/t")
    assert pickle.loads(pickle.dumps(store)).location == store.location
    with pytest.raises(ConfigError, match=r"hdfs-native is not installed\nhint: pip install 'indextables\[hdfs\]'"):
        store.get("k")


def test_hdfs_that_cannot_be_reached():
    pytest.importorskip("hdfs_native")
    store = open_at("hdfs://127.0.0.1:1/t", **{"store.retry.maxAttempts": 0})
    with pytest.raises(StorageError, match=r"cannot look at `k` in `hdfs://127\.0\.0\.1:1/t`: .*refused") as caught:
        store.head("k")
    assert type(caught.value) is StorageError
    with pytest.raises(StorageError, match="cannot create `k`") as caught:
        store.put_if_absent("k", b"x")
    assert type(caught.value) is StorageError
    with pytest.raises(StorageError, match="cannot list"):
        list(store.list())


def test_hdfs_has_one_user_for_a_process(monkeypatch):
    pytest.importorskip("hdfs_native")
    monkeypatch.setattr("indextables.store.hdfs.client._users", set())
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    one = {"hdfs.user": "alice", "store.retry.maxAttempts": 0}
    for _ in range(2):
        with pytest.raises(StorageError, match="refused"):
            open_at("hdfs://127.0.0.1:1/t", **one).head("k")
    assert os.environ["HADOOP_USER_NAME"] == "alice"
    with pytest.raises(ConfigError, match="cannot use HDFS as `bob` because this process uses it as `alice` already"):
        open_at("hdfs://127.0.0.1:1/t", **{**one, "hdfs.user": "bob"}).head("k")


def test_hdfs_settings_travel_with_the_store():
    keys = {"fs.defaultFS": "hdfs://one:8020"}
    store = open_at("hdfs:///t", **{"hdfs.configuration": json.dumps(keys)})
    assert pickle.loads(pickle.dumps(store)).__reduce__() == store.__reduce__()


# Errors, as the client words them

TRACE = "\\n\\tat org.apache.hadoop.hdfs.X.y(X.java:1)\\n\\t... 12 more"
DENIED = f'RPCError("org.apache.hadoop.security.AccessControlException", "user=\\"bob\\"{TRACE}")'
WORDED = [
    (FileNotFoundError("/t/k"), ObjectNotFoundError, "because it does not exist"),
    (FileExistsError("taken\n\tat org.apache.hadoop.X"), ObjectExistsError, ": taken"),
    (RuntimeError(DENIED), StorageDeniedError, ': AccessControlException: user="bob"\nhint: check the user'),
    (RuntimeError('RPCError("a.b.FSLimit$PathComponentTooLongException", "long")'), StorageRefusedError, ": PathC"),
    (RuntimeError('RPCError("a.b.SafeModeException", "wait")'), StorageError, "hint: the NameNode has just started"),
    (RuntimeError('FatalRPCError("a.b.IOException", "x")'), StorageError, ": IOException: x"),
    (
        NotImplementedError("hsync of erasure-coded files"),
        StorageRefusedError,
        "hint: set the replication policy of the table",
    ),
    (ConnectionResetError(104, "reset"), StorageError, "reset"),
]


@pytest.mark.parametrize(("raised", "kind", "said"), WORDED, ids=lambda value: getattr(value, "__name__", ""))
def test_hdfs_errors_are_ours(raised, kind, said):
    with (
        pytest.raises(StorageError, match="cannot read `k` in `hdfs://n:1/t`") as caught,
        hdfs_errors(parse_location("hdfs://n:1/t"), "read", "k"),
    ):
        raise raised
    assert type(caught.value) is kind
    assert said in str(caught.value)
    assert "org.apache" not in str(caught.value)
    assert "more" not in str(caught.value)


def test_hdfs_a_rename_that_lost_its_source_leaves_its_outcome_open():
    with (
        pytest.raises(StorageError, match="because its place is gone: rename source is not found") as caught,
        hdfs_errors(parse_location("hdfs://n:1/t"), "create", "k", writes=True),
    ):
        raise FileNotFoundError("rename source is not found")
    assert type(caught.value) is StorageError


def test_hdfs_other_exceptions_pass():
    with pytest.raises(KeyboardInterrupt), hdfs_errors(parse_location("hdfs://n:1/t"), "read", "k"):
        raise KeyboardInterrupt


FORKED = """
import os, signal
from indextables.config import Config
from indextables.errors import StorageError
from indextables.store import open_store

def say() -> None:
    try:
        store.head("k")
    except StorageError as error:
        print(error, flush=True)

store = open_store("hdfs://127.0.0.1:1/t", Config.resolve(options={"store.retry.maxAttempts": 0}))
say()
child = os.fork()
if child == 0:
    signal.alarm(30)
    say()
    os._exit(0)
os.waitpid(child, 0)
"""


def test_hdfs_in_a_forked_process_is_refused_and_does_not_hang():
    pytest.importorskip("hdfs_native")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    assert "refused" in said[0]
    assert "because this process was forked" in said[1]
