"""Compiled classes on disk: used only where they are whole, private, and of the very same sources and Spark."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from tests.spark_runs import needs_spark, run_program

from indextables.config import Config
from indextables.spark.jvm import class_cache, java_classes
from indextables.spark.jvm.class_cache import ClassCache

KEY = hashlib.sha256(b"sources").hexdigest()
CLASSES = bytes(range(256)) * 100
DAY = 24 * 60 * 60


@pytest.fixture
def settings(tmp_path) -> Config:
    return Config.resolve(options={"cache.disk.path": str(tmp_path)})


@pytest.fixture
def cache(settings) -> ClassCache:
    cache = ClassCache(settings)
    cache.store(KEY, CLASSES)
    assert cache.load(KEY) == CLASSES
    return cache


@pytest.fixture
def entry(cache, tmp_path) -> Path:
    (path,) = (tmp_path / "classes").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    return path


def test_another_key_has_another_entry(cache) -> None:
    assert cache.load(hashlib.sha256(b"other sources").hexdigest()) is None
    cache.store("ab", b"other")
    assert (cache.load(KEY), cache.load("ab")) == (CLASSES, b"other")


def test_no_damaged_byte_is_used(cache, entry) -> None:
    whole = entry.read_bytes()
    for position in [*range(0, len(whole), 997), len(whole) - 1]:
        entry.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        assert cache.load(KEY) is None, position
    for size in (0, 1, 31, 32, 33, len(whole) - 1):
        entry.write_bytes(whole[:size])
        assert cache.load(KEY) is None, size
    entry.write_bytes(whole + b"\0")
    assert cache.load(KEY) is None
    cache.store(KEY, CLASSES)
    assert cache.load(KEY) == CLASSES


def test_an_entry_of_absurd_size_is_not_read(cache, entry) -> None:
    os.truncate(entry, class_cache._MOST_BYTES + 1)
    assert cache.load(KEY) is None


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_entry_that_others_may_write_is_not_used(cache, entry, mode) -> None:
    entry.chmod(mode)
    assert cache.load(KEY) is None


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_directory_that_others_may_write_is_not_used(cache, entry, mode, caplog) -> None:
    entry.parent.chmod(mode)
    assert cache.load(KEY) is None
    before = entry.read_bytes()
    with caplog.at_level(logging.INFO):
        cache.store(KEY, b"new")
    assert "are not kept" in caplog.text
    assert entry.read_bytes() == before


def test_what_another_user_owns_is_not_used(cache, entry) -> None:
    with mock.patch.object(os, "geteuid", return_value=os.getuid() + 1):
        assert cache.load(KEY) is None
        cache.store(KEY, b"new")
    assert cache.load(KEY) == CLASSES
    if os.getuid() == 0:
        os.chown(entry, 12345, -1)
        assert cache.load(KEY) is None


def test_links_are_not_followed(cache, entry, tmp_path) -> None:
    elsewhere = tmp_path / "elsewhere"
    entry.rename(elsewhere)
    entry.symlink_to(elsewhere)
    assert cache.load(KEY) is None
    entry.unlink()
    os.link(elsewhere, entry)
    assert cache.load(KEY) is None
    elsewhere.unlink()
    assert cache.load(KEY) == CLASSES
    entry.parent.rename(tmp_path / "moved")
    (tmp_path / "classes").symlink_to(tmp_path / "moved")
    assert cache.load(KEY) is None
    cache.store("ab", b"new")
    assert not (tmp_path / "moved" / "ab.classes").exists()


def test_a_pipe_or_a_directory_in_place_of_an_entry_is_not_read(cache, entry) -> None:
    entry.unlink()
    os.mkfifo(entry, 0o600)
    assert cache.load(KEY) is None
    entry.unlink()
    entry.mkdir()
    assert cache.load(KEY) is None
    cache.store(KEY, CLASSES)
    assert [path.name for path in entry.parent.iterdir()] == [entry.name]


def test_a_switched_off_cache_touches_nothing(tmp_path) -> None:
    cache = ClassCache(Config.resolve(options={"cache.disk.path": str(tmp_path), "cache.disk.enabled": "false"}))
    assert not cache.is_enabled
    cache.store(KEY, CLASSES)
    assert cache.load(KEY) is None
    assert list(tmp_path.iterdir()) == []


def test_entries_unused_for_a_month_go_when_a_new_one_is_written(cache, entry) -> None:
    now = entry.stat().st_mtime
    old, draft, young = (entry.with_name(name) for name in ("old.classes", "left.tmp", "young.classes"))
    for path, days in ((old, 31), (draft, 31), (young, 29)):
        path.write_bytes(b"")
        os.utime(path, (now - days * DAY, now - days * DAY))
    os.utime(entry, (now - 31 * DAY, now - 31 * DAY))
    assert cache.load(KEY) == CLASSES  # used: it is young again
    assert old.exists()
    cache.store("ab", b"new")
    assert {path.name for path in entry.parent.iterdir()} == {entry.name, young.name, "ab.classes"}


def test_a_full_disk_leaves_no_draft(cache, entry) -> None:
    with mock.patch.object(os, "fsync", side_effect=OSError(28, "No space left on device")):
        cache.store("ab", b"new")
    assert [path.name for path in entry.parent.iterdir()] == [entry.name]


WRITER = """
import sys
from indextables.config import Config
from indextables.spark.jvm.class_cache import ClassCache
cache = ClassCache(Config.resolve(options={"cache.disk.path": sys.argv[1]}))
for _ in range(50):
    cache.store(sys.argv[2], bytes.fromhex(sys.argv[3]) * 100_000)
    found = cache.load(sys.argv[2])
    assert found is not None and len(set(found)) == 1, found
"""


def test_two_processes_at_once_leave_a_whole_entry(settings, tmp_path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), KEY, byte], stderr=subprocess.PIPE)
        for byte in ("01", "02")
    ]
    for writer in writers:
        _, said = writer.communicate(timeout=120)
        assert writer.returncode == 0, said
    found = ClassCache(settings).load(KEY)
    assert found is not None
    assert set(found) in ({1}, {2})
    assert len(list((tmp_path / "classes").iterdir())) == 1


def test_the_key_names_everything_that_classes_depend_on(spark) -> None:
    jvm = spark.sparkContext._gateway.jvm
    sources = {"A.java": b"class A {}", "B.java": b"class B {}"}
    key = java_classes._key(spark, jvm, sources)
    assert key == java_classes._key(spark, jvm, dict(reversed(sources.items())))
    others = [
        {"A.java": b"class A {}"},
        {"A.java": b"class A {}", "B.java": b"class B { }"},
        {"A.java": b"class A {}", "C.java": b"class B {}"},
        {"A.javaclass A {}": b"", "B.java": b"class B {}"},
    ]
    keys = {java_classes._key(spark, jvm, other) for other in others}
    with mock.patch.object(spark, "version", "4.9.9"):
        keys.add(java_classes._key(spark, jvm, sources))
    with mock.patch.object(java_classes, "_CLASSES_OF_JARS", java_classes._CLASSES_OF_JARS[:2]):
        keys.add(java_classes._key(spark, jvm, sources))
    assert len(keys) == 6
    assert key not in keys
    with mock.patch.object(java_classes, "_CLASSES_OF_JARS", ("java.lang.String",)):  # no file holds it
        assert java_classes._key(spark, jvm, sources) is None


def test_a_session_says_where_classes_are_kept(spark, tmp_path) -> None:
    session = spark.newSession()
    session.conf.set("spark.indextables.Cache.Disk.Path", str(tmp_path / "here"))
    session.conf.set("spark.indextables.search.driver.maxRows", "3")
    cache = ClassCache(java_classes._cache_settings(session))
    assert cache._path("k") == str(tmp_path / "here" / "classes" / "k.classes")
    session.conf.set("spark.indextables.cache.disk.enabled", "false")
    assert not ClassCache(java_classes._cache_settings(session)).is_enabled


PROGRAM = """
import json, logging, sys
from unittest import mock
import indextables as it
from indextables.spark.jvm import java_classes
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
compiled = mock.Mock(wraps=java_classes.compile_sources)
with mock.patch.object(java_classes, "compile_sources", compiled):
    spark = it.spark.session(master="local[1]", config=json.loads(sys.argv[1]))
it.write("t", [{"id": 1, "message": "disk full"}], text=["message"], mode="overwrite")
spark.sql("CREATE TABLE named USING indextables LOCATION 't'")
found = spark.sql("SELECT id FROM named WHERE message TEXTSEARCH 'disk'").collect()
print(json.dumps([compiled.call_count, [row.id for row in found]]))
"""


def run_session(place: Path, settings: dict[str, str] | None = None) -> tuple[int, str]:
    """How often a new process compiled the sources, and its messages. Its search finds the row in any case."""
    done = run_program([sys.executable, "-c", PROGRAM, json.dumps(settings or {})], place)
    assert done.returncode == 0, done.stderr
    num_compiled, found = json.loads(done.stdout.splitlines()[-1])
    assert found == [1]
    return num_compiled, done.stderr


@needs_spark
def test_a_second_process_compiles_nothing_until_the_entry_is_damaged(tmp_path) -> None:
    assert run_session(tmp_path)[0] == 1
    (entry,) = (tmp_path / "cache" / "indextables" / "classes").iterdir()
    assert run_session(tmp_path)[0] == 0
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    num_compiled, said = run_session(tmp_path)
    assert num_compiled == 1
    assert "hash" in said
    assert entry.read_bytes() == whole


@needs_spark
@pytest.mark.slow
def test_an_entry_that_java_refuses_is_compiled_again(tmp_path) -> None:
    assert run_session(tmp_path)[0] == 1
    (entry,) = (tmp_path / "cache" / "indextables" / "classes").iterdir()
    whole = entry.read_bytes()
    for content in (b"no classes", whole[32:].replace(b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")):
        entry.write_bytes(hashlib.sha256(content).digest() + content)
        num_compiled, said = run_session(tmp_path)
        assert num_compiled == 1
        assert "Java refuses" in said
        assert entry.read_bytes() == whole
    assert run_session(tmp_path, {"spark.indextables.cache.disk.enabled": "false"})[0] == 1
