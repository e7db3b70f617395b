"""Decoded manifests: mapped from disk, verified, and bounded in what they hold; read ahead by so much and no more."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from tests.conftest import make_add

from indextables.config import Config
from indextables.errors import CheckpointCorruptionError
from indextables.protocol.avro.file_entry import encode_manifest, manifest_name
from indextables.protocol.avro.state_manifest import ManifestInfo
from indextables.protocol.file_table import AddedFile, files_table
from indextables.runtime.pools import InlinePools, ThreadPools
from indextables.state import manifest_cache
from indextables.state.manifest_cache import DecodedManifests
from indextables.state.manifests import ManifestReader
from indextables.store import open_store


def table_of(*names: str) -> pa.Table:
    return files_table(AddedFile(make_add(name), 1, 1) for name in names)


def large(name: str) -> pa.Table:
    return table_of(*(f"{name}-{'x' * 1000}-{number}" for number in range(2_000)))


def never() -> pa.Table:
    raise AssertionError("it was decoded again")


@pytest.fixture
def options(tmp_path) -> dict[str, str]:
    return {"cache.disk.path": str(tmp_path / "cache")}


def on_disk(tmp_path) -> list:
    return sorted((tmp_path / "cache" / "manifests").iterdir())


def test_what_was_stored_is_handed_out_mapped_and_the_decoded_table_let_go(options) -> None:
    cache = DecodedManifests(Config.resolve(options=options))
    before = pa.total_allocated_bytes()
    tables = [cache.get(f"m-{number}", lambda number=number: large(str(number))) for number in range(5)]
    assert sum(table.nbytes for table in tables) > 10_000_000
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_another_process_opens_what_is_there(options) -> None:
    first = DecodedManifests(Config.resolve(options=options)).get("m", lambda: table_of("a", "b"))
    again = DecodedManifests(Config.resolve(options=options)).get("m", never)
    assert again.equals(first)


def test_damage_on_disk_is_noticed_and_mended(options, tmp_path) -> None:
    DecodedManifests(Config.resolve(options=options)).get("m", lambda: table_of("a"))
    (file,) = on_disk(tmp_path)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    fresh = DecodedManifests(Config.resolve(options=options))
    assert fresh.get("m", lambda: table_of("b"))["path"].to_pylist() == ["b"]


def test_damage_after_the_first_use_is_noticed_too(options, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(manifest_cache, "_MOST_OPEN_BYTES", 0)
    cache = DecodedManifests(Config.resolve(options=options))
    cache.get("m", lambda: table_of("a"))
    cache.get("m", never)
    (file,) = on_disk(tmp_path)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    os.utime(file, (1, 1))
    assert cache.get("m", lambda: table_of("b"))["path"].to_pylist() == ["b"]


def test_what_was_verified_once_is_not_hashed_again(options, monkeypatch) -> None:
    monkeypatch.setattr(manifest_cache, "_MOST_OPEN_BYTES", 0)
    DecodedManifests(Config.resolve(options=options)).get("m", lambda: table_of("a"))
    hashed = []
    original = manifest_cache._is_whole
    monkeypatch.setattr(manifest_cache, "_is_whole", lambda buffer: hashed.append(1) or original(buffer))
    cache = DecodedManifests(Config.resolve(options=options))
    for _ in range(3):
        cache.get("m", never)
    assert len(hashed) == 1


def test_without_a_disk_memory_is_bounded_by_bytes(monkeypatch) -> None:
    monkeypatch.setattr(manifest_cache, "_MOST_OPEN_BYTES", 5_000_000)
    cache = DecodedManifests(Config.resolve(options={"cache.disk.enabled": "false"}))
    before = pa.total_allocated_bytes()
    for number in range(20):
        assert cache.get(f"m-{number}", lambda number=number: large(str(number))).num_rows == 2_000
    assert pa.total_allocated_bytes() - before < 6_000_000
    cache.get("m-19", never)


def test_a_table_larger_than_the_bound_is_handed_out_and_not_kept(monkeypatch) -> None:
    monkeypatch.setattr(manifest_cache, "_MOST_OPEN_BYTES", 100)
    cache = DecodedManifests(Config.resolve(options={"cache.disk.enabled": "false"}))
    assert cache.get("m", lambda: table_of("a"))["path"].to_pylist() == ["a"]
    assert cache.get("m", lambda: table_of("b"))["path"].to_pylist() == ["b"]


def test_the_size_on_disk_is_bounded(options, tmp_path) -> None:
    cache = DecodedManifests(Config.resolve(options={**options, "cache.disk.maxSize": "5000000"}))
    for number in range(6):
        cache.get(f"m-{number}", lambda number=number: large(str(number)))
    assert 0 < sum(file.stat().st_size for file in on_disk(tmp_path)) <= 5_000_000
    small = DecodedManifests(Config.resolve(options={**options, "cache.disk.maxSize": "1000"}))
    assert small.get("other", lambda: large("other")).num_rows == 2_000


class CountingPools(ThreadPools):
    """Counts what was begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0

    def submit(self, purpose, work, *, workers):
        self.begun += 1
        return super().submit(purpose, work, workers=workers)


@pytest.fixture
def manifests(tmp_path) -> tuple[str, list[ManifestInfo]]:
    url = str(tmp_path / "t")
    store = open_store(url, Config.resolve())
    infos = []
    for number in range(12):
        data = encode_manifest(table_of(*(f"{number}-{at}" for at in range(10))), codec="zstd")
        store.put(f"_transaction_log/manifests/{manifest_name(data)}", data)
        infos.append(_info(f"manifests/{manifest_name(data)}", 10))
    return url, infos


def _info(path: str, num_entries: int) -> ManifestInfo:
    return ManifestInfo(path=path, num_entries=num_entries, min_added_at_version=1, max_added_at_version=1)


def reader(url: str, pools, **options) -> ManifestReader:
    config = Config.resolve(options={"cache.disk.enabled": "false", **options})
    return ManifestReader(open_store(url, config), config, pools)


@pytest.mark.parametrize(("entries", "most"), [(10, (os.cpu_count() or 1) + 1), (1_000, 8), (1, 1)])
def test_no_more_is_read_ahead_than_memory_should_hold(manifests, entries, most) -> None:
    url, infos = manifests
    pools = CountingPools()
    found = []
    for table in reader(url, pools, **{"state.entriesPerManifest": entries}).tables(infos, 1):
        assert pools.begun - len(found) <= min(most, 8)
        found.append(table["path"][0].as_py())
    assert found == [f"{number}-0" for number in range(12)]
    pools.shutdown()


@pytest.mark.parametrize("pools", [InlinePools(), ThreadPools()])
def test_the_order_is_kept_and_an_error_comes_in_its_place(manifests, pools) -> None:
    url, infos = manifests
    infos[5] = _info(infos[5].path, 11)
    with pytest.raises(CheckpointCorruptionError, match="has 10 files, and its state declares 11"):
        list(reader(url, pools, **{"state.entriesPerManifest": 1}).tables(infos, 1))
    assert len(list(reader(url, pools, **{"state.read.parallelism": 1}).tables(infos[:5], 1))) == 5


def test_reading_can_be_left_in_the_middle(manifests) -> None:
    url, infos = manifests
    pools = CountingPools()
    tables = reader(url, pools).tables(infos, 1)
    assert next(tables).num_rows == 10
    tables.close()
    pools.shutdown()
    assert pools.begun <= 8
