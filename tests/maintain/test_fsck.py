"""fsck finds nothing in healthy tables, and every kind of damage in others."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from tests.aging import AgingStore
from tests.doubles.metered_store import MeteredStore
from tests.maintain.whole_tables import (
    SCHEMA,
    directory_of,
    flip,
    make_table,
    merge_all,
    one_split,
    rows,
    the_split,
)

import indextables as it
from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.errors import TableNotFoundError
from indextables.log.commit.operations import MoveHorizon, Restore
from indextables.maintain.fsck.fsck import FSCK_SCHEMA, examine, fsck
from indextables.maintain.workers import LocalWorkers, working_with
from indextables.protocol.avro.state_manifest import encode_state_manifest
from indextables.protocol.names import LOG_DIRECTORY, state_keys, version_key
from indextables.store import open_store

HOUR_MS = 3_600_000


def found(log: it.TransactionLog, **how) -> list[tuple[str, str]]:
    return [(row["severity"], row["check"]) for row in fsck(log, **how).to_pylist()]


def is_clean(table: it.Table) -> bool:
    return all(table.fsck(deep=deep).num_rows == 0 for deep in (True, False))


# Healthy tables


@pytest.mark.parametrize("partition_by", [(), ("day",)])
@pytest.mark.parametrize("kind", ["avro", "json", "parquet"])
def test_a_table_with_checkpoints_of_each_format_is_clean(tmp_path, kind, partition_by) -> None:
    properties = {"spark.indextables.state.format": kind, "spark.indextables.checkpoint.interval": "4"}
    table = make_table(tmp_path / "t", appends=9, partition_by=partition_by, properties=properties)
    table.log.record_skipped_file(table.files()["path"][0].as_py(), reason="too large")
    table.log.add_files([], application_id="stream", batch_id=7)
    table.checkpoint()
    examined = examine(table.log)
    assert examined.problems == []
    assert (examined.num_splits, examined.num_versions) == (table.num_files, table.version + 1)
    assert examined.num_checkpoints >= 3
    assert is_clean(table)


def test_a_new_table_is_clean(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=0)
    assert is_clean(table)
    assert table.fsck().schema == FSCK_SCHEMA


def test_a_table_in_memory_is_clean() -> None:
    assert is_clean(make_table("memory://fsck/clean"))


def test_merged_overwritten_and_restored_tables_are_clean(tmp_path) -> None:
    table = make_table(tmp_path / "t")
    merge_all(table)
    table.overwrite(rows(100))
    assert is_clean(table)
    table.log.commit(Restore(table.log.snapshot(version=2), table.url))
    assert is_clean(table.refresh())
    assert is_clean(it.Table.open(table.url, version=1))
    table.checkpoint()
    assert is_clean(table)


def test_columns_of_all_types_hold_their_statistics(tmp_path) -> None:
    schema = pa.schema(
        [
            ("small", pa.int8()),
            ("ratio", pa.float32()),
            ("flag", pa.bool_()),
            ("day", pa.date32()),
            ("moment", pa.timestamp("us", tz="UTC")),
            ("local", pa.timestamp("us")),
            ("price", pa.decimal128(9, 2)),
            ("text", pa.string()),
            ("raw", pa.binary()),
            ("list", pa.list_(pa.int64())),
        ]
    )
    moment = dt.datetime(2026, 1, 31, 12, 30, 0, 5, dt.UTC)
    data = pa.table(
        {
            "small": [-128, None, 127],
            "ratio": [0.1, float("nan"), float("-inf")],
            "flag": [True, None, False],
            "day": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
            "moment": [moment, None, moment],
            "local": [None, None, None],
            "price": [Decimal("-1.25"), Decimal("99999.99"), None],
            "text": ["\U0010ffff" * 40, "", "é" * 50],
            "raw": [b"\xff", b"", None],
            "list": [[1], None, []],
        },
        schema=schema,
    )
    table = it.Table.create(tmp_path / "t", schema)
    table.append(data)
    assert table.fsck().to_pylist() == []


def test_a_table_is_clean_after_clean_up(tmp_path) -> None:
    now = [SYSTEM_CLOCK.now_ms()]
    store = AgingStore(open_store(str(tmp_path / "t"), Config.resolve()), lambda: now[0])
    options = {
        "checkpoint.interval": 1000,
        "logRetention.duration": "1 hours",
        "state.retention.hours": 0,
        "state.retention.versions": 1,
    }
    log = it.TransactionLog(str(tmp_path / "t"), store=store, options=options)
    log.initialize(SCHEMA)
    for _ in range(3):
        for number in range(3):
            it.Table(log, log.snapshot()).append(rows(number))
        log.checkpoint()
        now[0] += 100 * HOUR_MS
    log = it.TransactionLog(str(tmp_path / "t"), store=store)
    assert log.versions()[0] > 0
    with_splits = examine(log)
    assert with_splits.problems == []
    assert with_splits.num_splits == 9


def test_many_workers_find_what_one_finds(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("indextables.maintain.workers._MOST_ITEMS_PER_SHARE", 1)
    table = make_table(tmp_path / "t", appends=1)
    flip(the_split(table), 40)
    with working_with(LocalWorkers()):
        many = table.fsck()
    assert many.num_rows == 1
    assert many.to_pylist() == table.fsck().to_pylist()


def test_tables_of_other_writers_have_only_warnings(shared, tmp_path) -> None:
    for place in sorted(path for path in (shared / "fixtures/upstream-0.5.4").iterdir() if path.is_dir()):
        shutil.copytree(place, tmp_path / place.name)
        log = it.TransactionLog(tmp_path / place.name)
        assert set(found(log)) == {("warning", "format")}
        assert fsck(log).num_rows == log.snapshot().num_files
        the_split(log).unlink()
        assert ("error", "split") in found(log)


def test_no_table(tmp_path) -> None:
    with pytest.raises(TableNotFoundError):
        fsck(it.TransactionLog(tmp_path))


# Damage to splits


def flip_rows(path: Path, log) -> None:
    flip(path, 40)


def flip_index(path: Path, log) -> None:
    flip(path, directory_of(log).index_range[0] + 3)


def flip_filter(path: Path, log) -> None:
    flip(path, directory_of(log).fine_filter.offset + 3)


def flip_footer(path: Path, log) -> None:
    flip(path, directory_of(log).footer_start_offset + 100)


def cut(path: Path, log) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def remove(path: Path, log) -> None:
    path.unlink()


def replace_by_another(path: Path, log) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


@pytest.mark.parametrize(
    ("damage", "check", "is_quick"),
    [
        (flip_rows, "rows", False),
        (flip_index, "index", False),
        (flip_filter, "index", False),
        (flip_footer, "split", True),
        (cut, "split", True),
        (remove, "split", True),
        (replace_by_another, "split", True),
    ],
)
def test_damage_to_a_split_is_found(tmp_path, damage, check, is_quick) -> None:
    log = one_split(tmp_path / "t")
    assert found(log) == []
    path = the_split(log)
    damage(path, log)
    (problem,) = fsck(log).to_pylist()
    assert (problem["severity"], problem["check"], problem["version"]) == ("error", check, 1)
    assert path == Path(log.url) / problem["path"]
    assert found(log, deep=False) == ([("error", "split")] if is_quick else [])


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"size": 77}, "split", "bytes and the log says 77"),
        ({"num_records": 4}, "split", "3 rows and the log says 4"),
        ({"footer_start_offset": 100, "tags": None}, "split", "the log says 100 to"),
        ({"tags": {"indextables.footerOffset": "100"}}, "split", "the log says 100 to"),
        ({"min_values": {"id": "2"}}, "statistics", "`id` holds `1`, below"),
        ({"max_values": {"id": "8"}}, "statistics", "`id` holds `9`, above"),
        ({"max_values": {"message": "z"}}, "statistics", "`message` holds `zz`, above"),
        ({"min_values": {"score": "0.75"}}, "statistics", "`score` holds `0.5`"),
        ({"max_values": {"id": "8"}, "tags": None}, "statistics", "rule out"),
        ({"stats": '{"numRecords":3,"nullCount":{"message":2}}'}, "statistics", "null in 1 rows and the log says 2"),
        ({"stats": '{"numRecords":9}'}, "statistics", "announce 9 rows"),
        ({"partition_values": {"day": "y"}}, "partition", "`day` is `x` in its rows and the log says `y`"),
        ({"partition_values": {}}, "partition", "the log says null"),
    ],
)
def test_what_the_log_says_wrongly_is_found(tmp_path, changes, check, words) -> None:
    (problem,) = fsck(one_split(tmp_path / "t", **changes)).to_pylist()
    assert (problem["severity"], problem["check"]) == ("error", check)
    assert words in problem["problem"]


@pytest.mark.parametrize(
    "changes",
    [
        {"min_values": None, "max_values": None, "stats": None},
        {"min_values": {"id": "-7", "message": ""}, "max_values": {"message": "zzz"}},
        {"min_values": {"id": "1"}, "max_values": {"id": "9"}, "tags": None},
        {"min_values": {"score": "odd"}},
        {"footer_start_offset": None, "footer_end_offset": None, "num_records": None},
    ],
)
def test_what_is_wide_or_unsaid_is_no_problem(tmp_path, changes) -> None:
    assert found(one_split(tmp_path / "t", **changes)) == []


def test_a_greatest_value_beside_nan_is_found(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t")
    table = it.Table.create(tmp_path / "o", SCHEMA)
    table.append(pa.table({"id": [1], "message": ["a"], "day": ["x"], "score": [float("nan")]}, schema=SCHEMA))
    add = it.actions.Add(**{**msgspec.structs.asdict(_only_add(table)), "max_values": {"score": "3.5"}})
    log.initialize(SCHEMA)
    shutil.copytree(tmp_path / "o" / "splits", tmp_path / "t" / "splits")
    log.add_files([add])
    (problem,) = fsck(log).to_pylist()
    assert "holds NaN" in problem["problem"]


def _only_add(table: it.Table) -> it.actions.Add:
    return next(action for action in table.log.read_version(1) if isinstance(action, it.actions.Add))


# Damage to the log


@pytest.fixture(scope="module")
def first_logged(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("logged") / "t"
    table = make_table(place, appends=0, properties={"spark.indextables.checkpoint.interval": "4"})
    for number in range(12):
        table.append(rows(number * 10, 1))
        table.log.wait_for_checkpoint()
    return place


@pytest.fixture
def logged(first_logged, tmp_path) -> it.Table:
    """Versions 0 to 12 with states of 4, 8 and 12."""
    shutil.copytree(first_logged, tmp_path / "t")
    return it.Table.open(tmp_path / "t")


def log_file(table: it.Table, name: str) -> Path:
    return Path(table.url) / name


def manifest_of(table: it.Table, version: int) -> Path:
    state = table.log.states.state_at(version)
    return log_file(table, f"_transaction_log/{state.manifests[-1].path.removeprefix('_transaction_log/')}")


def test_a_flipped_manifest_is_found(logged) -> None:
    flip(manifest_of(logged, 8), 300)
    problems = logged.fsck().to_pylist()
    assert {(row["check"], row["version"]) for row in problems} >= {("manifest", 8)}
    assert all("hash in its name" in row["problem"] for row in problems)


def test_a_missing_manifest_is_found(logged) -> None:
    manifest_of(logged, 12).unlink()
    (problem,) = logged.fsck().to_pylist()
    assert (problem["check"], problem["version"], problem["problem"]) == ("manifest", 12, "it is missing")


def test_a_damaged_state_is_found(logged) -> None:
    flip(log_file(logged, state_keys(8)[0]), 900)
    assert ("error", "checkpoint") in found(logged.log)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_damaged_checkpoint_of_another_format_is_found(tmp_path, kind) -> None:
    table = make_table(tmp_path / "t", properties={"spark.indextables.state.format": kind})
    table.checkpoint()
    place = tmp_path / "t" / "_transaction_log"
    checkpoint = next(path for path in place.rglob(f"*checkpoint.{kind}*") if path.is_file())
    flip(checkpoint, checkpoint.stat().st_size // 2)
    assert ("error", "checkpoint") in found(table.log)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: {"tombstones": (FIRST,), "num_files": state.num_files - 1}, "lacks 1 files"),
        (lambda state: {"skips": {}}, "skips differ"),
        (lambda state: {"transactions": {"stream": (8, 2)}}, "stream batches differ"),
        (
            lambda state: {"metadata": msgspec.structs.replace(state.metadata, description="else")},
            "metadata differs",
        ),
        (
            lambda state: {"protocol": msgspec.structs.replace(state.protocol, min_writer_version=3)},
            "protocol differs",
        ),
        (lambda state: {"num_files": 99}, "says 99 files and holds"),
    ],
)
def test_a_state_that_differs_from_the_versions_is_found(tmp_path, change, words) -> None:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(SCHEMA)
    for name in (FIRST, "b.split"):
        (tmp_path / "t" / name).write_bytes(b"x" * 100)
        log.add_files([it.actions.Add(path=name, partition_values={}, size=100, modification_time=1, data_change=True)])
    log.record_skipped_file("b.split", reason="large")
    log.add_files([], application_id="stream", batch_id=7)
    version = log.checkpoint().version
    state = log.states.state_at(version)
    wrong = encode_state_manifest(msgspec.structs.replace(state, **change(state)), codec="zstd")
    log_file(log, state_keys(version)[0]).write_bytes(wrong)
    problems = [row for row in fsck(log).to_pylist() if row["check"] == "checkpoint"]
    assert len(problems) == 1
    assert words in problems[0]["problem"]
    assert problems[0]["version"] == version


FIRST = "a.split"


def test_a_state_of_another_transaction_is_a_warning(logged) -> None:
    state = logged.log.states.state_at(8)
    other = encode_state_manifest(msgspec.structs.replace(state, version_txn_id="another"), codec="zstd")
    log_file(logged, state_keys(8)[0]).write_bytes(other)
    assert found(logged.log) == [("warning", "checkpoint")]


@pytest.mark.parametrize("version", [0, 3, 8, 12])
def test_a_damaged_version_is_found(logged, version) -> None:
    flip(log_file(logged, version_key(version)), 30)
    problems = [row for row in logged.fsck().to_pylist() if row["check"] == "version"]
    assert [(row["version"], row["path"]) for row in problems] == [(version, version_key(version))]


@pytest.mark.parametrize("version", [1, 5, 8, 10])
def test_a_gap_is_found(logged, version) -> None:
    log_file(logged, version_key(version)).unlink()
    problems = [row for row in logged.fsck().to_pylist() if row["check"] == "version"]
    assert [row["version"] for row in problems] == [version]


def test_a_gap_above_the_states_is_found(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=5)
    log_file(table, version_key(3)).unlink()
    assert {(row["check"], row["version"]) for row in table.fsck().to_pylist()} == {("log", 3), ("version", 3)}


def test_a_lost_version_0_is_found(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=2)
    log_file(table, version_key(0)).unlink()
    assert {(row["check"], row["version"]) for row in table.fsck().to_pylist()} == {("log", None), ("version", 0)}


def test_a_version_on_another_one_is_found(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=3)
    other = make_table(tmp_path / "o", appends=3)
    shutil.copy(log_file(other, version_key(2)), log_file(table, version_key(2)))
    problems = [row for row in table.fsck().to_pylist() if row["check"] == "version"]
    assert [row["version"] for row in problems] == [2]
    assert "follows another version" in problems[0]["problem"]


@pytest.mark.parametrize("content", [b'{"version": 99}', b"nonsense", b'{"version": 12, "numFiles": 1}'])
def test_a_wrong_hint_is_a_warning(logged, content) -> None:
    log_file(logged, "_transaction_log/_last_checkpoint").write_bytes(content)
    assert found(logged.log) == [("warning", "hint")]


def test_a_missing_file_of_an_old_version_is_found_until_the_horizon_passes(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=2)
    old = the_split(table)
    table.overwrite(rows(50))
    assert is_clean(table)
    old.unlink()
    (problem,) = table.fsck().to_pylist()
    assert (problem["check"], problem["version"], problem["problem"]) == ("split", 2, "it is missing")
    table.log.commit(MoveHorizon(3, table.version))
    assert is_clean(table.refresh())


def test_a_file_of_an_old_version_with_another_size_is_found(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=1)
    old = the_split(table)
    table.overwrite(rows(50))
    old.write_bytes(b"short")
    assert found(table.log) == [("error", "split")]


# While others write


class Meddling:
    """A store in which something happens right before a call."""

    def __init__(self, inner, verb: str, suffix: str, deed) -> None:
        self._inner = inner
        self._verb, self._suffix, self._deed = verb, suffix, deed

    def __getattr__(self, name):
        real = getattr(self._inner, name)
        if name != self._verb:
            return real

        def call(key="", *arguments, **named):
            if key.endswith(self._suffix) and self._deed is not None:
                deed, self._deed = self._deed, None
                deed()
            return real(key, *arguments, **named)

        return call


@pytest.mark.parametrize("verb", ["head", "get_ranges"])
def test_a_purge_meanwhile_is_no_damage(tmp_path, verb) -> None:
    table = make_table(tmp_path / "t", appends=2)
    paths = [Path(table.url) / path for path in table.files()["path"].to_pylist()]

    def purge() -> None:
        other = it.Table.open(table.url)
        version = other.overwrite(rows(70))
        other.log.commit(MoveHorizon(version, version))
        for path in paths:
            path.unlink()

    store = Meddling(table.log.reader.store, verb, ".split", purge)
    log = it.TransactionLog(table.url, store=store)
    assert found(log) == []
    assert found(it.TransactionLog(table.url)) == []


def test_what_is_gone_without_a_purge_is_damage(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=1)
    path = the_split(table)

    def overwrite() -> None:
        it.Table.open(table.url).overwrite(rows(70))
        path.unlink()

    store = Meddling(table.log.reader.store, "head", ".split", overwrite)
    assert found(it.TransactionLog(table.url, store=store)) == [("error", "split")]


@pytest.mark.parametrize("suffix", ["00001.json", "v00000000000000000004/_manifest.avro", "_last_checkpoint"])
def test_a_clean_up_meanwhile_is_no_damage(logged, suffix) -> None:
    def clean_up() -> None:
        for version in range(8):
            log_file(logged, version_key(version)).unlink()
        shutil.rmtree(log_file(logged, state_keys(4)[0]).parent)

    store = Meddling(logged.log.reader.store, "get", suffix, clean_up)
    assert found(it.TransactionLog(logged.url, store=store)) == []


class _CheckpointingStore(MeteredStore):
    """A directory where another process writes a checkpoint after each of the first listings."""

    def __init__(self, inner, table: it.Table, times: int) -> None:
        super().__init__(inner)
        self._table = table
        self._left = times

    def list(self, prefix="", *, after=""):
        found = list(super().list(prefix, after=after))
        if prefix == LOG_DIRECTORY and self._left:
            self._left -= 1
            self._table.append(rows(self._left))
            self._table.checkpoint()
        return iter(found)


@pytest.mark.one_case
@pytest.mark.parametrize("times", [1, 2, 20])
@pytest.mark.parametrize("kind", ["avro", "json", "parquet"])
def test_checkpoints_of_another_process_are_no_problem(tmp_path, kind, times) -> None:
    table = make_table(tmp_path / "t", appends=2, properties={"spark.indextables.state.format": kind})
    store = _CheckpointingStore(open_store(table.url, Config.resolve()), it.Table.open(table.url), times)
    assert found(it.TransactionLog(table.url, store=store)) == []


def test_damage_is_found_beside_checkpoints_of_another_process(tmp_path) -> None:
    table = make_table(tmp_path / "t", appends=3)
    table.checkpoint()
    (tmp_path / "t" / version_key(1)).write_bytes(b"nothing of a version")
    store = _CheckpointingStore(open_store(table.url, Config.resolve()), it.Table.open(table.url), 20)
    assert ("error", "version") in found(it.TransactionLog(table.url, store=store))
