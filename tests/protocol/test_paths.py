"""Paths: every spelling of a file becomes one, and none leaves the table."""

from __future__ import annotations

import posixpath
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indextables.location import parse_location
from indextables.protocol.paths import (
    HIVE_NULL,
    escape_partition_value,
    named_split_id,
    normalize_path,
    split_path,
    unescape_partition_value,
)
from indextables.store.base import check_key

TABLES = {
    "disk": "/data/logs/table",
    "root of the disk": "/",
    "s3": "s3://bucket/some/table",
    "bucket": "s3://bucket",
    "azure": "abfss://box@account.dfs.core.windows.net/table",
    "azure without an account": "az://box/table",
    "gcs": "gs://bucket/table",
    "memory": "memory://test/table",
}
SPELLINGS = {
    "disk": [
        "/data/logs/table/{}",
        "//data/logs/table/{}",
        "/data//logs/./table//{}",
        "file:/data/logs/table/{}",
        "file:///data/logs/table/{}",
        "file://localhost/data/logs/table/{}",
        "FILE:///data/logs/table/{}",
    ],
    "root of the disk": ["/{}", "file:///{}"],
    "s3": ["s3://bucket/some/table/{}", "s3a://bucket/some/table/{}", "S3A://bucket/some/table/{}"],
    "bucket": ["s3://bucket/{}", "s3a://bucket/{}"],
    "azure": [
        "abfss://box@account.dfs.core.windows.net/table/{}",
        "abfs://box@account.dfs.core.windows.net/table/{}",
        "abfss://box@ACCOUNT.blob.core.windows.net/table/{}",
        "az://box/table/{}",
    ],
    "azure without an account": ["abfss://box@any.dfs.core.windows.net/table/{}", "az://box/table/{}"],
    "gcs": ["gs://bucket/table/{}"],
    "memory": ["memory://test/table/{}"],
}
KEYS = [
    "a.split",
    "splits/split-1.split",
    "day=2026%3A01/k=a b/x.split",
    "k=ü/\U0001f600.split",
    "a:b/c",
    "..a/b..",
    "x\\y",
    "~",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("kind", TABLES)
def test_every_spelling_is_one_file(kind, key) -> None:
    table = parse_location(TABLES[kind])
    assert normalize_path(key, table) == key
    for spelling in SPELLINGS[kind]:
        assert normalize_path(spelling.format(key), table) == key


OUTSIDE = {
    "disk": ["/data/logs/table2/a", "/data/logs/a", "/etc/passwd", "/data/logs/table", "/data/logs/tabl/e/a"],
    "s3": [
        "s3://other/some/table/a",
        "s3://bucket/some/table2/a",
        "s3://bucket/a",
        "/some/table/a",
        "gs://bucket/some/table/a",
    ],
    "bucket": ["s3://bucket2/a", "s3://bucket", "az://bucket/a", "file:///a"],
    "azure": ["abfss://box@other.dfs.core.windows.net/table/a", "abfss://crate@account.dfs.core.windows.net/table/a"],
    "gcs": ["s3://bucket/table/a"],
    "memory": ["memory://other/table/a", "/table/a"],
}


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in OUTSIDE.items() for path in paths])
def test_what_lies_elsewhere_is_refused(kind, path) -> None:
    with pytest.raises(ValueError, match="outside the table"):
        normalize_path(path, parse_location(TABLES[kind]))


DOTS = ["..", "../a", "a/..", "a/../b", "a/../../b", "../../etc/passwd"]


@pytest.mark.parametrize("tail", DOTS)
@pytest.mark.parametrize("kind", TABLES)
def test_parent_segments_are_refused(kind, tail) -> None:
    table = parse_location(TABLES[kind])
    for path in [tail, *(spelling.format(tail) for spelling in SPELLINGS[kind])]:
        with pytest.raises(ValueError, match=re.escape("`..` segment")):
            normalize_path(path, table)


SEGMENTS = ["", ".", "./a", "a/.", "a/./b", "a//b", "a/"]
CHARACTERS = ["a\nb", "a\0", "\x1b[31m", "a\x7f", "\ud800", "a/\udfff", "a\r/b"]
LOG_FILES = ["_transaction_log", "_transaction_log/00000000000000000000.json"]
HALF_URLS = ["s3:/bucket/a", "x:/a", "C:/a", "s3://", "s3:///a", "file://host/a", "s3://bucket/a//b"]
OTHER_URLS = ["hdfs://name/a", "https://bucket/a", "a://b", "s3://user:secret@bucket/a"]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("path", [*SEGMENTS, *CHARACTERS, *LOG_FILES, *HALF_URLS, *OTHER_URLS])
def test_strange_paths_are_refused(kind, path) -> None:
    with pytest.raises(ValueError, match=" ") as caught:
        normalize_path(path, parse_location(TABLES[kind]))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    "tail", ["_transaction_log/x", "_transaction_log", "a/", "file:/etc/passwd", "s3:/x/y", "a\nb"]
)
def test_strange_paths_are_refused_in_every_spelling(kind, tail) -> None:
    for spelling in SPELLINGS[kind]:
        with pytest.raises(ValueError, match=" "):
            normalize_path(spelling.format(tail), parse_location(TABLES[kind]))


@pytest.mark.parametrize(
    "key", ["_transaction_logs/a", "a/_transaction_log/b", "_transaction_log.split", "...", ".hidden"]
)
def test_what_only_looks_strange_is_accepted(key) -> None:
    assert normalize_path(key, parse_location("s3://bucket/table")) == key


PLACES = ["/data/logs/table/", "s3://bucket/some/table/", "memory://test/table/", "_transaction_log", "bucket", "table"]
SCHEMES = ["s3:", "s3a://", "file:", "file://", ":", "@"]
TEXTS = ["", ".", "..", "/", "//", "a", "b=c", "\\", "%2e%2e", "%2F", "\n", "\0", "\U0001f600", " "]
pieces = st.sampled_from([*PLACES, *SCHEMES, *TEXTS])


@given(st.sampled_from(sorted(TABLES)), st.lists(pieces, max_size=6).map("".join) | st.text(max_size=20))
@example("disk", "/data/logs/table/file:/etc/passwd")
@example("root of the disk", "/s3://bucket/a")
def test_what_is_accepted_stays_below_the_root_and_stays_as_it_is(kind, path) -> None:
    table = parse_location(TABLES[kind])
    try:
        accepted = normalize_path(path, table)
    except ValueError:
        return
    assert normalize_path(accepted, table) == accepted
    assert not accepted.startswith(("/", "_transaction_log/"))
    assert posixpath.normpath(posixpath.join("/root", accepted)).removeprefix("/root/") == accepted
    assert check_key(accepted) == accepted
    spelled = normalize_path(f"{table.url.rstrip('/')}/{accepted}", table)
    assert spelled == accepted


@given(st.text())
@example("a/b=c%2F")
@example("%")
@example("%25")
@example("\U0001f600")
@example("\x00\x1f\x7f\x80")
@example("..")
@example(".")
@example(" ")
@example(HIVE_NULL)
@example("%5F_HIVE_DEFAULT_PARTITION__")
def test_partition_values_come_back(value) -> None:
    escaped = escape_partition_value(value)
    assert not re.search(r"[/:=\x00-\x1f\x7f]", escaped)
    assert unescape_partition_value(escaped) == (value or None)


def test_null_and_the_empty_text_share_a_directory() -> None:
    assert escape_partition_value(None) == escape_partition_value("") == HIVE_NULL
    assert unescape_partition_value(HIVE_NULL) is None
    assert escape_partition_value(HIVE_NULL) != HIVE_NULL


def test_values_are_escaped_as_hive_does() -> None:
    assert escape_partition_value("2026-01-01 10:30/x=1%") == "2026-01-01 10%3A30%2Fx%3D1%25"
    assert unescape_partition_value("a%3ab%zz%") == "a:b%zz%"


@given(
    st.dictionaries(st.text(min_size=1, max_size=10), st.none() | st.text(max_size=10), max_size=3),
    st.sampled_from(sorted(TABLES)),
)
@example({"_transaction_log": "x", "s3:": "/", "..": ".."}, "disk")
@example({"\x00": "\x7f"}, "s3")
def test_new_splits_go_where_every_store_and_reader_finds_them(values, kind) -> None:
    path = split_path(tuple(values), values, "0a1b")
    assert check_key(path) == path
    assert normalize_path(path, parse_location(TABLES[kind])) == path
    *directories, folder, name = path.split("/")
    assert (folder, name) == ("splits", "split-0a1b.split")
    read = [tuple(map(unescape_partition_value, directory.split("="))) for directory in directories]
    assert read == [(column, value or None) for column, value in values.items()]


def test_where_splits_go() -> None:
    assert split_path((), {}, "x") == "splits/split-x.split"
    assert split_path(("day", "h"), {"day": "1"}, "x") == f"day=1/h={HIVE_NULL}/splits/split-x.split"


def test_the_name_of_a_split_says_its_id() -> None:
    split_id = "0f0e0d0c-1111-2222-3333-444455556666"
    for values in ({}, {"day": "1\n2"}, {"day": "split-ffffffff-1111-2222-3333-444455556666.split"}):
        assert named_split_id(split_path(tuple(values), values, split_id)) == split_id
    for other in (f"part-00000-{split_id}.split", f"split-{split_id}.parquet", f"split-{split_id.upper()}.split", "x"):
        assert named_split_id(f"splits/{other}") is None
