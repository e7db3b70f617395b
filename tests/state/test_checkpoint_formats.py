"""Checkpoints in every format, side by side and one after the other; the hint; what is damaged; what is counted."""

from __future__ import annotations

import json
import logging

import pytest
from tests.conftest import SCHEMA, live_paths, make_add
from tests.doubles.faulty_store import Fault, FaultyStore
from tests.doubles.metered_store import MeteredStore

import indextables as it
from indextables.config import Config
from indextables.errors import (
    CheckpointCorruptionError,
    CheckpointValidationError,
    CheckpointWriteError,
    RetentionError,
    StorageError,
)
from indextables.log.segment import NEAR_VERSIONS
from indextables.protocol.checkpoint.json_checkpoint import json_checkpoint_key
from indextables.protocol.checkpoint.parquet_checkpoint import parquet_checkpoint_key, parquet_sidecar_key
from indextables.protocol.names import LOG_DIRECTORY, state_keys, version_key
from indextables.store import open_store

FORMATS = ["avro", "json", "parquet"]
HINT_FORMATS = {"avro": "avro-state", "json": "json", "parquet": "parquet"}
NO_CACHE = {"cache.disk.enabled": "false"}


@pytest.fixture
def url(tmp_path) -> str:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA, configuration={"owner": "me"})
    log.add_files([make_add(f"{n}.split", size=n) for n in range(20)], application_id="app", batch_id=3)
    log.replace_files(["3.split"], [make_add("new.split", doc_mapping_json='[{"name":"a"}]')])
    log.record_skipped_file("4.split", reason="odd")
    return log.url


def handle(url: str, **options) -> it.TransactionLog:
    return it.TransactionLog(url, options={**NO_CACHE, **options})


def remove_versions(url: str, below: int) -> None:
    store = open_store(url, Config.resolve())
    for version in range(below):
        store.delete(version_key(version))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", ["500", "1M"])
def test_everything_survives_in_every_format(url, kind, size) -> None:
    before = it.TransactionLog(url).snapshot()
    hint = handle(url, **{"state.format": kind, "checkpoint.maxFileSize": size}).checkpoint()
    named = "json-multipart" if (kind, size) == ("json", "500") else HINT_FORMATS[kind]
    assert (hint.version, hint.format, hint.num_files, hint.size) == (3, named, 20, 20)
    assert hint.size_in_bytes == before.total_bytes
    in_parts = kind != "avro" and size == "500"
    assert ((hint.parts or 1) > 1) == in_parts
    assert handle(url).last_checkpoint() == hint
    remove_versions(url, 3)
    after = handle(url).snapshot()
    assert after.source == HINT_FORMATS[kind]
    assert after.files.sort_by("path").to_pylist() == before.files.sort_by("path").to_pylist()
    assert after.metadata == before.metadata
    assert after.protocol == before.protocol
    assert after.skips == before.skips
    assert after.transactions == before.transactions == {"app": (3, 1)}
    assert (after.timestamp_ms, after.txn_id) == (before.timestamp_ms, before.txn_id)
    assert handle(url).add_files([make_add("later.split")]) == 4


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4", "brotli", "none"])
def test_parquet_checkpoints_use_the_codec_that_is_asked_for(url, codec, tmp_path) -> None:
    import pyarrow.parquet as pq

    handle(url, **{"state.format": "parquet", "checkpoint.compression": codec}).checkpoint()
    column = pq.ParquetFile(tmp_path / "t" / parquet_checkpoint_key(3)).metadata.row_group(0).column(0)
    assert column.compression == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    assert len(live_paths(handle(url))) == 20


def test_automatic_checkpoints_are_written_in_the_format_that_is_asked_for(url) -> None:
    log = handle(url, **{"state.format": "parquet", "checkpoint.interval": 2})
    log.add_files([make_add("a.split")])
    log.wait_for_checkpoint()
    assert log.last_checkpoint().format == "parquet"
    assert handle(url).snapshot().source == "parquet"


def test_json_checkpoints_leave_an_old_protocol_as_it_is(url, tmp_path) -> None:
    (tmp_path / "t" / version_key(4)).write_bytes(b'{"protocol":{"minReaderVersion":2,"minWriterVersion":2}}\n')
    log = handle(url, **{"state.format": "json"})
    assert log.checkpoint().version == 4
    assert log.protocol().min_writer_version == 2
    assert handle(url).checkpoint().version == 5, "an Avro state raises the table in a version of its own"
    assert handle(url).protocol().min_writer_version == 4
    assert log.checkpoint().version == 5
    assert handle(url).snapshot().source == "json", "JSON is the way back"


@pytest.mark.parametrize("named", FORMATS)
def test_of_several_formats_the_one_that_the_hint_names_is_read(url, named) -> None:
    for kind in [*FORMATS, named]:
        handle(url, **{"state.format": kind}).checkpoint()
    assert handle(url).last_checkpoint().format == HINT_FORMATS[named]
    assert handle(url).snapshot().source == HINT_FORMATS[named]


@pytest.mark.parametrize("named", FORMATS)
def test_where_the_one_that_the_hint_names_is_damaged_another_is_read(url, named, tmp_path) -> None:
    for kind in [*FORMATS, named]:
        handle(url, **{"state.format": kind}).checkpoint()
    keys = {"avro": state_keys(3)[0], "json": json_checkpoint_key(3), "parquet": parquet_checkpoint_key(3)}
    path = tmp_path / "t" / keys[named]
    path.write_bytes(path.read_bytes()[:-30])
    remove_versions(url, 3)
    snapshot = handle(url).snapshot()
    assert snapshot.source in HINT_FORMATS.values()
    assert snapshot.source != HINT_FORMATS[named]
    assert snapshot.num_files == 20


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_checkpoint_is_reported_bypassed_and_replaced_by_the_next(url, kind, tmp_path, caplog) -> None:
    log = handle(url, **{"state.format": kind})
    log.checkpoint()
    keys = {"avro": state_keys(3)[0], "json": json_checkpoint_key(3), "parquet": parquet_checkpoint_key(3)}
    path = tmp_path / "t" / keys[kind]
    path.write_bytes(path.read_bytes()[:-30])
    with caplog.at_level(logging.WARNING, logger="indextables"):
        assert len(live_paths(handle(url))) == 20
    assert "skipping the state of version 3" in caplog.text
    hint = handle(url, **{"state.format": kind}).checkpoint()
    assert hint.version == 4
    assert handle(url).history(limit=1)["operation"].to_pylist() == ["COMPACT"]
    assert handle(url).snapshot().source == HINT_FORMATS[kind]
    assert len(live_paths(handle(url))) == 20


def test_an_automatic_checkpoint_replaces_a_damaged_one_in_its_place(url, tmp_path) -> None:
    log = handle(url, **{"checkpoint.interval": 1000})
    log._checkpointer.write(3, log.config)
    path = tmp_path / "t" / state_keys(3)[0]
    path.write_bytes(path.read_bytes()[:-30])
    written = handle(url)._checkpointer.write(3, log.config)
    assert written.hint.version == 4
    assert log.history(limit=1)["operation"].to_pylist() == ["CHECKPOINT"]
    assert handle(url).snapshot().source == "avro-state"


def test_a_state_that_lost_a_manifest_is_replaced_on_request(url, tmp_path) -> None:
    log = handle(url)
    log.checkpoint()
    for manifest in (tmp_path / "t" / LOG_DIRECTORY / "manifests").iterdir():
        manifest.unlink()
    assert handle(url).checkpoint().version == 4
    remove_versions(url, 4)
    assert len(live_paths(handle(url))) == 20


def test_a_parquet_checkpoint_that_was_begun_and_not_finished_is_not_one(url, tmp_path) -> None:
    log = handle(url, **{"state.format": "parquet", "checkpoint.maxFileSize": 3000})
    assert log.checkpoint().parts > 1
    parts = sorted((tmp_path / "t" / parquet_checkpoint_key(3)).iterdir())
    parts[-1].unlink()
    (tmp_path / "t" / parquet_sidecar_key(3)).unlink()
    assert handle(url).snapshot().source == "replay"
    assert handle(url, **{"state.format": "parquet"}).checkpoint().version == 4


def test_json_parts_of_a_writer_that_died_are_not_in_the_way(url, tmp_path) -> None:
    log = handle(url, **{"state.format": "json", "checkpoint.maxFileSize": 500})
    log.checkpoint()
    (tmp_path / "t" / json_checkpoint_key(3)).unlink()
    assert handle(url).snapshot().source == "replay"
    assert log.checkpoint().version == 3
    assert handle(url).snapshot().source == "json"


def test_a_checkpoint_of_another_transaction_is_never_adopted(url, tmp_path) -> None:
    handle(url, **{"state.format": "json"}).checkpoint()
    other = it.TransactionLog(tmp_path / "other")
    other.initialize(SCHEMA)
    for number in range(3):
        other.add_files([make_add(f"{number}.split")])
    target = tmp_path / "other" / json_checkpoint_key(3)
    target.write_bytes((tmp_path / "t" / json_checkpoint_key(3)).read_bytes())
    assert len(live_paths(handle(other.url))) == 3
    with pytest.raises(CheckpointValidationError, match="two kinds of writers"):
        handle(other.url, **{"state.format": "json"}).checkpoint()


# The hint


def commit(url: str, count: int, **options) -> None:
    log = handle(url, **options)
    for number in range(count):
        log.add_files([make_add(f"more-{number}.split")])
        log.wait_for_checkpoint()


class Listed:
    """A store that notes from where it is listed."""

    def __init__(self, url: str) -> None:
        self._inner = open_store(url, Config.resolve())
        self.after: list[str] = []

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def list(self, prefix: str = "", *, after: str = ""):
        self.after.append(after)
        return self._inner.list(prefix, after=after)


def test_the_first_listing_begins_near_the_checkpoint_that_the_hint_names(url) -> None:
    commit(url, 20)
    store = Listed(url)
    log = it.TransactionLog(url, store=store, options=NO_CACHE)
    assert log.snapshot().version == 23
    assert store.after == [version_key(19 - NEAR_VERSIONS)]
    assert len(log.snapshot(version=2).files) == 20
    assert store.after[-1] == ""
    assert log.versions() == list(range(24))
    assert log.history().num_rows == 24
    assert log.history(limit=2).num_rows == 2
    assert log.snapshot(timestamp="2100-01-01T00:00:00Z").version == 23


def test_a_cold_open_is_four_calls(url) -> None:
    commit(url, 17)
    store = MeteredStore(open_store(url, Config.resolve()))
    it.TransactionLog(url, store=store, options=NO_CACHE).snapshot()
    assert dict(store.calls) == {"get": 3, "list": 1}, "the hint, a listing, the state, and the version it stands for"


@pytest.mark.parametrize(
    "hint",
    [
        {"version": 5},
        {"version": 10},
        {"version": 999},
        {"version": 22},
        {"version": 20, "format": "no such thing"},
        {"version": 0},
    ],
)
def test_a_wrong_hint_changes_nothing(url, hint, tmp_path) -> None:
    commit(url, 20)
    (tmp_path / "t" / LOG_DIRECTORY / "_last_checkpoint").write_text(json.dumps(hint))
    assert len(live_paths(handle(url))) == 40
    assert handle(url).snapshot().version == 23
    assert handle(url).add_files([make_add("next.split")]) == 24
    assert len(handle(url).snapshot(version=1).files) == 20


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": -1}', b"\xff"])
def test_a_damaged_hint_changes_nothing(url, content, tmp_path, caplog) -> None:
    commit(url, 20)
    (tmp_path / "t" / LOG_DIRECTORY / "_last_checkpoint").write_bytes(content)
    with caplog.at_level(logging.WARNING, logger="indextables"):
        assert len(live_paths(handle(url))) == 40
    assert "damaged hint" in caplog.text
    with pytest.raises(CheckpointCorruptionError):
        handle(url).last_checkpoint()
    assert handle(url).checkpoint().version == 23
    assert handle(url).last_checkpoint().version == 23


def test_where_the_hinted_checkpoint_is_damaged_older_ones_are_found(url, tmp_path) -> None:
    commit(url, 20, **{"cleanup.enabled": "false"})
    path = tmp_path / "t" / state_keys(20)[0]
    path.write_bytes(path.read_bytes()[:-30])
    store = Listed(url)
    log = it.TransactionLog(url, store=store, options=NO_CACHE)
    assert log.snapshot().version == 23
    assert len(live_paths(log)) == 40
    assert log.snapshot().source == "avro-state"
    remove_versions(url, 10)
    assert len(live_paths(handle(url))) == 40
    with pytest.raises(RetentionError, match="it has the versions 10 to 23"):
        handle(url).snapshot(version=9)


# Metrics and log lines


def test_metrics_count_what_was_done(url) -> None:
    log = handle(url)
    assert log.metrics().checkpoints_created == 0
    log.checkpoint()
    first = log.metrics()
    assert (first.checkpoints_created, first.checkpoints_failed) == (1, 0)
    assert first.checkpoint_bytes > 100
    assert first.compression_ratio > 0
    assert first.checkpoint_last_ms == first.checkpoint_total_ms > 0
    log.checkpoint()
    assert log.metrics().checkpoints_created == 1, "what is there already is adopted"
    handle(url, **{"state.format": "json"}).checkpoint()
    for enabled, source in [("true", "json"), ("false", "replay")]:
        reading = handle(url, **{"checkpoint.enabled": enabled})
        reading.list_files()
        reading.list_files()
        loads = reading.metrics().loads
        assert set(loads) == {source}
        assert loads[source].count == 1
        assert loads[source].total_ms == loads[source].last_ms > 0


def test_log_lines_tell_of_checkpoints_and_loads(url, caplog) -> None:
    with caplog.at_level(logging.DEBUG, logger="indextables"):
        handle(url).checkpoint()
        handle(url).list_files()
    assert "created a checkpoint at version 3: 20 files" in caplog.text
    assert "version 3 was loaded from avro-state in" in caplog.text


@pytest.mark.parametrize("kind", FORMATS)
def test_what_the_store_refuses_is_an_error_about_the_checkpoint(url, kind) -> None:
    def script(call):
        return Fault.UNAVAILABLE if call.verb.startswith("put") else Fault.NONE

    store = FaultyStore(open_store(url, Config.resolve()), script)
    log = it.TransactionLog(url, store=store, options={**NO_CACHE, "state.format": kind})
    with pytest.raises(CheckpointWriteError, match="checkpoint of version 3") as caught:
        log.checkpoint()
    assert isinstance(caught.value.__cause__, StorageError)
    assert handle(url).snapshot().source == "replay"
