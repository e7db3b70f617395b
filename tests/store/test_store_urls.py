"""Table addresses: every scheme and spelling, and what is refused."""

from __future__ import annotations

import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opened import open_at

from indextables.errors import ConfigError
from indextables.location import Location, has_scheme, parse_location
from indextables.store.cloud.store import CloudStore, SharedMemoryStore
from indextables.store.hdfs.store import HdfsStore
from indextables.store.local.store import LocalStore

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCY"

CLOUD_URLS = {
    "s3://bucket/a/b": Location("s3", "bucket", "a/b"),
    "s3a://bucket/a/b/": Location("s3", "bucket", "a/b"),
    "S3A://Bucket/A": Location("s3", "Bucket", "A"),
    "s3://bucket": Location("s3", "bucket", ""),
    "s3://bucket/": Location("s3", "bucket", ""),
    "s3://bucket/p%20q": Location("s3", "bucket", "p%20q"),
    "s3://bucket/day=2026%3A01/x y": Location("s3", "bucket", "day=2026%3A01/x y"),
    "s3://bucket/a?b=c#d": Location("s3", "bucket", "a?b=c#d"),
    "s3://bucket/user@host": Location("s3", "bucket", "user@host"),
    "s3://my.bucket-1/ü/日本": Location("s3", "my.bucket-1", "ü/日本"),
    "gs://bucket/t": Location("gs", "bucket", "t"),
    "az://container/t": Location("az", "container", "t"),
    "abfs://container/t": Location("az", "container", "t"),
    "abfs://container@account.dfs.core.windows.net/t": Location("az", "container", "t", "account"),
    "abfss://container@account.dfs.core.windows.net/t/": Location("az", "container", "t", "account"),
    "abfss://container@Account.blob.core.windows.net": Location("az", "container", "", "account"),
    "abfss://container@account/t": Location("az", "container", "t", "account"),
    "hdfs://namenode:8020/data/t": Location("hdfs", "namenode:8020", "data/t"),
    "hdfs://NameService1/data/t/": Location("hdfs", "NameService1", "data/t"),
    "hdfs://namenode:8020": Location("hdfs", "namenode:8020", ""),
    "hdfs:///data/t": Location("hdfs", "", "data/t"),
    "hdfs:///": Location("hdfs", "", ""),
    "HDFS://n/day=2026%3A01 x#?é": Location("hdfs", "n", "day=2026%3A01 x#?é"),
    "viewfs://cluster/data/t": Location("viewfs", "cluster", "data/t"),
    "viewfs:///data/t": Location("viewfs", "", "data/t"),
    "memory://name/t": Location("memory", "name", "t"),
    "memory://name": Location("memory", "name", ""),
}


@pytest.mark.parametrize("url", CLOUD_URLS)
def test_url_of_a_cloud(url):
    assert parse_location(url) == CLOUD_URLS[url]


@pytest.mark.parametrize("url", CLOUD_URLS)
def test_url_of_a_location_means_the_same_place(url):
    location = parse_location(url)
    assert parse_location(location.url) == location
    assert pickle.loads(pickle.dumps(location)) == location


LOCAL_URLS = {
    "/data/t": "/data/t",
    "/data/t/": "/data/t",
    "//data//t": "/data/t",
    "/data/./x/../t": "/data/t",
    "/": "/",
    "/data/p%20q": "/data/p%20q",
    "/data/day=2026%3A01 x#?é": "/data/day=2026%3A01 x#?é",
    "/data/s3://x": "/data/s3:/x",
    "file:///data/t": "/data/t",
    "file:///data/p%20q": "/data/p%20q",
    "file://localhost/data/t": "/data/t",
    "FILE:///data/t": "/data/t",
    "file:/data/t": "/data/t",
    "file:/": "/",
    "file:///": "/",
}


@pytest.mark.parametrize("url", LOCAL_URLS)
def test_url_of_a_local_place(url):
    location = parse_location(url)
    assert location == Location("file", "", LOCAL_URLS[url])
    assert parse_location(location.url) == location


@pytest.mark.parametrize("path", ["t", "./t", "a/b=c/t", "a:b/t", "a%20b", "~/t", "..", "x://".replace("://", ":y")])
def test_url_of_a_relative_path(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_location(path).path == os.path.normpath(tmp_path / path)


UNKNOWN = ["webhdfs", "s3n", "http", "https", "wasb", "wasbs", "dbfs", "adl", "gcs", "ftp", "x+y.z-1"]


@pytest.mark.parametrize("scheme", UNKNOWN)
def test_url_of_an_unknown_scheme_is_refused(scheme):
    with pytest.raises(ConfigError, match="is unknown\nhint: known schemes are") as caught:
        parse_location(f"{scheme}://host/path")
    assert f"`{scheme}`" in str(caught.value)


BAD = [
    "",
    "s3://",
    "s3:///path",
    "s3:/bucket/path",
    "hdfs:/path",
    "file:relative",
    "file://",
    "file://host/path",
    "s3://bucket//a",
    "s3://bucket/a//b",
    "s3://bucket/../b",
    "s3://bucket/./b",
    "s3://bucket:9000/a",
    "hdfs://user@namenode:8020/t",
    "hdfs://namenode:/t",
    "hdfs://namenode:port/t",
    "hdfs://namenode:8020/a:b",
    "hdfs://namenode:8020/a//b",
    "hdfs://namenode:8020/../b",
    "hdfs:///a/./b",
    "viewfs://cluster:8020/t",
    "viewfs://cluster/a:b",
    "memory://",
    "az://",
    "abfss://@account.dfs.core.windows.net/t",
    "abfss://container@/t",
    "abfss://container@onelake.dfs.fabric.microsoft.com/t",
    "abfss://container@account.dfs.core.chinacloudapi.cn/t",
    "s3://bucket/a\nb",
    "/data/\x00",
]


@pytest.mark.parametrize("url", BAD, ids=ascii)
def test_url_that_is_none_is_refused(url):
    with pytest.raises(ConfigError):
        parse_location(url)


WITH_USERINFO = [
    f"s3://AKIAEXAMPLE:{SECRET}@bucket/t",
    f"s3a://AKIAEXAMPLE:{SECRET}@bucket//t",
    f"s3n://AKIAEXAMPLE:{SECRET}@bucket/t",
    f"s3:/AKIAEXAMPLE:{SECRET}@bucket/t",
    f"https://user:{SECRET}@host/t",
    f"file://user:{SECRET}@host/t",
    f"gs://user:{SECRET}@bucket/t",
    f"hdfs://user:{SECRET}@namenode/t",
    f"abfss://user:{SECRET}@account.dfs.core.windows.net/t",
    f"s3://AKIAEXAMPLE:{SECRET}@bucket/\n",
    f"memory://user:{SECRET}@name/..",
]


@pytest.mark.parametrize("url", WITH_USERINFO, ids=ascii)
def test_url_with_userinfo_is_refused_and_never_shown(url):
    with pytest.raises(ConfigError) as caught:
        parse_location(url)
    for part in ("AKIAEXAMPLE", *SECRET.split("/")):
        assert part not in str(caught.value)
        assert part not in repr(caught.value)


def test_url_decides_the_kind_of_store(tmp_path):
    kinds = {
        str(tmp_path): LocalStore,
        f"file://{tmp_path}": LocalStore,
        "memory://x/y": SharedMemoryStore,
        "s3://b/t": CloudStore,
        "s3a://b/t": CloudStore,
        "az://c/t": CloudStore,
        "abfss://c@a.dfs.core.windows.net/t": CloudStore,
        "gs://b/t": CloudStore,
        "hdfs://n:8020/t": HdfsStore,
        "viewfs://c/t": HdfsStore,
    }
    for url, kind in kinds.items():
        assert type(open_at(url)) is kind


RELATIVE = [
    ("s3://b/t", "s3a://b/t/k=v/x.split", "k=v/x.split"),
    ("s3a://b/t/", "s3://b/t/x", "x"),
    ("s3://b", "s3://b/t/x", "t/x"),
    ("s3://b/t", "s3://b/t", None),
    ("s3://b", "s3://b", None),
    ("s3://b/t", "s3://b/t2/x", None),
    ("s3://b/t", "s3://c/t/x", None),
    ("s3://b/t", "gs://b/t/x", None),
    ("az://c/t", "abfss://c@a.dfs.core.windows.net/t/x", "x"),
    ("abfss://c@a.dfs.core.windows.net/t", "abfs://c/t/x", "x"),
    ("abfss://c@a.dfs.core.windows.net/t", "abfss://c@b.dfs.core.windows.net/t/x", None),
    ("/data/t", "file:///data/t/a%20b/x", "a%20b/x"),
    ("/data/t", "file:/data/t/x", "x"),
    ("/data/t", "/data/t2/x", None),
    ("/", "/data/x", "data/x"),
]


@pytest.mark.parametrize(("root", "other", "expected"), RELATIVE)
def test_url_relative_to_another(root, other, expected):
    assert parse_location(root).relative(parse_location(other)) == expected


def test_url_schemes_are_told_from_keys():
    for url in ("s3://b/k", "file:/tmp/t", "file:///t", "weird+x://y"):
        assert has_scheme(url)
    for key in ("k=v/a.split", "a:b", "a/b://c", "%3A//x", "file:x", "day=2026:/x", ""):
        assert not has_scheme(key)


@given(st.text(max_size=30))
def test_url_parsing_refuses_or_reads_but_never_breaks(text):
    try:
        location = parse_location(text)
    except ConfigError:
        return
    assert parse_location(location.url) == location


@given(st.lists(st.text("ab=%20 #:@é", min_size=1, max_size=4), min_size=1, max_size=3).map("/".join))
def test_url_paths_are_literal(path):
    assert parse_location(f"s3://bucket/{path}").path == path
    assert Location("s3", "bucket", "").relative(parse_location(f"s3a://bucket/{path}")) == path
