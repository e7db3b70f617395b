"""Filter sheets in tables: the same answers with and without them, whatever became of the table, and fewer requests."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.aging import AgingStore
from tests.doubles.metered_store import MeteredStore

import indextables as it
from indextables.config import Config
from indextables.filters import sheet_writer, splits_left
from indextables.filters.sheet import FIRST_READ, Sheet
from indextables.filters.splits_left import Query, left_by_sheets
from indextables.protocol.names import LOG_DIRECTORY, sheet_key
from indextables.scan.split_scan import TableScan
from indextables.split import writer as split_writer
from indextables.split.index.term_filter import FINE
from indextables.store import open_store

HOUR_MS = 3_600_000
SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("level", pa.string()), ("day", pa.string())])
BASE = {"checkpoint.interval": "1000000", "cache.disk.enabled": "false"}
ON = {
    **BASE,
    "state.filters": "on",
    "state.filters.minSplits": "4",
    "state.entriesPerManifest": "5",
    "search.combined": "off",
}
OFF = {**BASE, "state.filters": "off"}
QUERIES = (
    "word3",
    "absent",
    "word1 AND word2",
    "word1 AND absent",
    "word4 OR level:warn",
    "NOT word5",
    "word6 AND NOT level:info",
    '"common word7"',
    "message:IN [word8 absent word9]",
    "level:error^2 word2",
    "message:wor*",
    "id:[3 TO 8]",
    "absent OR id:5",
    "level:debug",
)
_names = itertools.count()


@pytest.fixture(autouse=True)
def _ask_for_few(monkeypatch) -> None:
    """Small tables ask sheets too."""
    monkeypatch.setattr(splits_left, "_TERMS_PER_SPLIT", 10)


def rows(number: int, day: str = "1") -> pa.Table:
    words = [f"common word{number % 11}", f"other{number} thing"]
    levels = [("info", "warn", "error")[number % 3], "info"]
    return pa.table({"id": [number, -number], "message": words, "level": levels, "day": [day, day]}, schema=SCHEMA)


def create(url: str, **options) -> it.Table:
    return it.Table.create(
        url, SCHEMA, partition_by=["day"], indexing={"message": "text", "level": "string"}, options={**ON, **options}
    )


def answers(url: str, options: dict[str, str], version: int | None = None) -> list[object]:
    table = it.Table.open(url, options=options, version=version)
    found: list[object] = []
    for query in QUERIES:
        found.append(table.count(query))
        found.append(table.search(query, columns=["id"]).sort_by("id").to_pydict())
        found.append(table.aggregate("level", query=query).sort_by("level").to_pylist())
    found.append(table.search("common", where="id > 3", columns=["id"], limit=3).to_pydict())
    return found


def left_out(table: it.Table, query: str) -> int | None:
    """How many splits sheets leave out; None if none was asked."""
    stages = {row["stage"]: row for row in table.explain(query, run=True).to_pylist()}
    return stages["sheets"]["left_out"] if "sheets" in stages else None


def fill(table: it.Table, numbers: range) -> None:
    for number in numbers:
        table.append(rows(number, day=str(number % 2)))


def test_a_search_leaves_out_what_the_sheet_rules_out(tmp_path) -> None:
    fill(create(str(tmp_path)), range(12))
    assert left_out(it.Table.open(str(tmp_path), options=ON), "word3") is None
    it.Table.open(str(tmp_path), options=ON).checkpoint()
    table = it.Table.open(str(tmp_path), options=ON)
    assert left_out(table, "word3") == 11
    assert left_out(table, "absent") == 12
    assert left_out(table, "common") == 0
    assert left_out(table, "word1 OR level:warn") == 12 - 4
    assert left_out(table, "NOT word5") == 0
    assert left_out(it.Table.open(str(tmp_path), options=OFF), "absent") is None
    assert left_out(it.Table.open(str(tmp_path), options={**ON, "search.filters.maxFetch": "0"}), "absent") is None
    assert left_out(it.Table.open(str(tmp_path), options={**ON, "search.filters.maxFetch": "10"}), "absent") == 0
    assert answers(str(tmp_path), ON) == answers(str(tmp_path), OFF)


_STEPS = st.lists(
    st.sampled_from(["append", "append", "append", "old append", "checkpoint", "drop", "merge", "restore", "retype"]),
    min_size=4,
    max_size=12,
)


@settings(max_examples=12, deadline=None)
@given(_STEPS, st.randoms(use_true_random=False))
def test_answers_are_the_same_with_and_without_sheets(steps, chance) -> None:
    url = f"memory://sheets-{next(_names)}/table"
    table = create(url)
    fill(table, range(6))
    table.checkpoint()
    numbers = itertools.count(6)
    for step in [*steps, "append"]:
        change(table, step, numbers, chance)
        assert answers(url, ON) == answers(url, OFF)
    for version in range(0, table.version, 3):
        assert answers(url, ON, version) == answers(url, OFF, version)


def change(table: it.Table, step: str, numbers, chance: random.Random) -> None:
    number = next(numbers)
    if step == "append":
        table.append(rows(number, day=str(number % 2)))
    elif step == "old append":
        with pytest.MonkeyPatch.context() as patch:
            write_older_filters(patch)
            table.append(rows(number, day=str(number % 2)))
    elif step == "checkpoint":
        table.checkpoint()
    elif step == "drop":
        table.overwrite(rows(number, day="1"), where="day = '1'")
    elif step == "merge":
        table.merge_splits()
    elif step == "restore":
        table.restore(version=chance.randrange(1, table.version + 1))
    else:
        kind = table.indexing["level"]
        table.set_properties({"indexing.level": "text" if kind == "string" else "string"})


def write_older_filters(patch: pytest.MonkeyPatch) -> None:
    """Write splits with the filters of earlier releases."""

    def filters(split: split_writer.NewSplit) -> tuple[bytes, bytes]:
        rough, fine = split._terms.filters((split_writer.ROUGH, FINE), salt=7)
        return rough, fine

    patch.setattr(split_writer.NewSplit, "_filters", filters)


def test_splits_of_earlier_releases_and_others_are_never_ruled_out(tmp_path) -> None:
    table = create(str(tmp_path))
    with pytest.MonkeyPatch.context() as patch:
        write_older_filters(patch)
        fill(table, range(3))
    fill(table, range(3, 8))
    table.checkpoint()
    fill(table, range(8, 10))
    table = it.Table.open(str(tmp_path), options=ON)
    assert left_out(table, "absent") == 5
    table.set_properties({"indexing.message": "string"})
    table = it.Table.open(str(tmp_path), options=ON)
    assert left_out(table, "message:absent") == 0
    assert left_out(table, "level:absent") == 5


def test_a_split_of_another_size_is_never_ruled_out(tmp_path) -> None:
    fill(create(str(tmp_path)), range(6))
    it.Table.open(str(tmp_path), options=ON).checkpoint()
    table = it.Table.open(str(tmp_path), options=ON)
    scan = TableScan(table.snapshot, table.log.config, table._opened, query="absent")
    query = Query(scan.tree, "absent", scan.fields)
    files = table.snapshot.files
    assert left_by_sheets(files, table.snapshot, table.log.config, table._opened, query).num_rows == 0
    sizes = pa.chunked_array([[size + (at == 2) for at, size in enumerate(files["size"].to_pylist())]], pa.int64())
    other = files.set_column(files.column_names.index("size"), "size", sizes)
    left = left_by_sheets(other, table.snapshot, table.log.config, table._opened, query)
    assert left["path"].to_pylist() == [files["path"][2].as_py()]


def sheet_path(root: Path) -> Path:
    (found,) = (root / LOG_DIRECTORY / "filters").iterdir()
    return found


@pytest.mark.parametrize("damage", ["gone", "header", "windows", "short", "empty"])
def test_damage_means_asking_the_splits(tmp_path, damage) -> None:
    fill(create(str(tmp_path)), range(8))
    it.Table.open(str(tmp_path), options=ON).checkpoint()
    right = answers(str(tmp_path), ON)
    path = sheet_path(tmp_path)
    data = path.read_bytes()
    path.write_bytes(
        {
            "gone": data,
            "header": data[:40] + bytes(20) + data[60:],
            "windows": data[:FIRST_READ] + bytes(len(data) - FIRST_READ),
            "short": data[: FIRST_READ + 10],
            "empty": b"",
        }[damage]
    )
    if damage == "gone":
        path.unlink()
    table = it.Table.open(str(tmp_path), options=ON)
    assert left_out(table, "word3") == 0
    assert answers(str(tmp_path), ON) == right
    problems = table.fsck().to_pylist()
    assert [(row["severity"], row["check"]) for row in problems] == [("warning", "filters")] * (damage != "gone")
    table.checkpoint()
    assert answers(str(tmp_path), ON) == right


def test_without_its_checksums_a_damaged_sheet_gives_wrong_answers(tmp_path, monkeypatch) -> None:
    """The tests of damage can fail."""
    fill(create(str(tmp_path)), range(8))
    it.Table.open(str(tmp_path), options=ON).checkpoint()
    right = answers(str(tmp_path), ON)
    path = sheet_path(tmp_path)
    path.write_bytes(path.read_bytes()[:FIRST_READ] + bytes(path.stat().st_size - FIRST_READ))
    monkeypatch.setattr(Sheet, "rows", lambda self, block, part, window, stored: memoryview(stored)[:-4])
    assert answers(str(tmp_path), ON) != right


def test_a_sheet_of_other_manifests_is_not_used(tmp_path) -> None:
    fill(create(str(tmp_path)), range(8))
    table = it.Table.open(str(tmp_path), options=ON)
    table.checkpoint()
    older = sheet_path(tmp_path).read_bytes()
    fill(table, range(8, 10))
    table.checkpoint()
    newest = max((tmp_path / LOG_DIRECTORY / "filters").iterdir())
    newest.write_bytes(older)
    table = it.Table.open(str(tmp_path), options=ON)
    assert left_out(table, "absent") == 0
    assert table.fsck().num_rows == 0


def test_a_sheet_is_written_once_and_where_the_settings_ask_for_it(tmp_path) -> None:
    for place, options, is_there in (
        ("auto", {"state.filters": "auto"}, False),
        ("off", {"state.filters": "off"}, False),
        ("few", {"state.filters.minSplits": "9"}, False),
        ("small", {"state.filters.maxSize": "20"}, False),
        ("on", {}, True),
    ):
        table = create(str(tmp_path / place), **options)
        fill(table, range(8))
        table.checkpoint()
        assert (tmp_path / place / LOG_DIRECTORY / "filters").exists() == is_there


def test_a_sheet_of_the_same_manifests_is_used_again(tmp_path, monkeypatch) -> None:
    """A compaction that changes nothing reads no split."""
    table = create(str(tmp_path))
    fill(table, range(8))
    table.checkpoint()
    first = sheet_path(tmp_path).read_bytes()

    def refuse(*_: object) -> None:
        raise AssertionError("a split was read")

    monkeypatch.setattr(sheet_writer.SheetWriter, "_terms", refuse)
    it.Table.open(str(tmp_path), options=ON).checkpoint()
    newest = max((tmp_path / LOG_DIRECTORY / "filters").iterdir())
    assert newest.read_bytes() == first
    assert left_out(it.Table.open(str(tmp_path), options=ON), "absent") == 8


def test_only_splits_that_no_earlier_sheet_has_are_read(tmp_path, monkeypatch) -> None:
    table = create(str(tmp_path))
    fill(table, range(8))
    table.checkpoint()
    fill(table, range(8, 11))
    asked: list[str] = []

    def read(store, file):
        asked.append(file["path"])
        return sheet_writer.read_terms(store, file)

    monkeypatch.setattr(sheet_writer.SheetWriter, "_terms", lambda self, file: read(self._store, file))
    newest = set(table.files()["path"].to_pylist()[8:])
    it.Table.open(str(tmp_path), options=ON).checkpoint()
    assert set(asked) == newest
    found = it.Table.open(str(tmp_path), options=ON)
    assert left_out(found, "absent") == 11
    assert answers(str(tmp_path), ON) == answers(str(tmp_path), OFF)
    assert found.fsck().num_rows == 0
    carried = max((tmp_path / LOG_DIRECTORY / "filters").iterdir())
    data = carried.read_bytes()
    for path in (tmp_path / LOG_DIRECTORY / "filters").iterdir():
        path.unlink()
    it.Table.open(str(tmp_path), options=ON).checkpoint()
    again = max((tmp_path / LOG_DIRECTORY / "filters").iterdir()).read_bytes()
    # All splits have as many terms, so a sheet that is made anew has the same form.
    assert again == data


def test_a_damaged_earlier_sheet_is_not_taken_over(tmp_path) -> None:
    table = create(str(tmp_path))
    fill(table, range(8))
    table.checkpoint()
    path = sheet_path(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:FIRST_READ] + bytes(len(data) - FIRST_READ))
    fill(table, range(8, 10))
    it.Table.open(str(tmp_path), options=ON).checkpoint()
    assert answers(str(tmp_path), ON) == answers(str(tmp_path), OFF)


def test_an_earlier_form_that_does_not_fit_is_given_up(tmp_path) -> None:
    table = create(str(tmp_path))
    fill(table, range(8))
    table.checkpoint()
    many = [" ".join(f"more{number}-{at}" for at in range(2_000)) for number in range(4)]
    for number, text in enumerate(many):
        table.append(pa.table({"id": [number], "message": [text], "level": ["x"], "day": ["3"]}, schema=SCHEMA))
    table.checkpoint()
    sizes = sorted(path.stat().st_size for path in (tmp_path / LOG_DIRECTORY / "filters").iterdir())
    assert sizes[-1] > 10 * (sizes[0] - FIRST_READ) + FIRST_READ
    found = it.Table.open(str(tmp_path), options=ON)
    assert left_out(found, "absent") == 12
    assert found.count("more3-77") == 1


def test_a_missing_sheet_is_written_by_the_next_compaction(tmp_path) -> None:
    table = create(str(tmp_path), **{"state.entriesPerManifest": "100"})
    fill(table, range(8))
    table.checkpoint()
    path = sheet_path(tmp_path)
    facts = path.stat()
    table.checkpoint()
    assert path.stat().st_mtime_ns == facts.st_mtime_ns
    path.unlink()
    table.checkpoint()
    assert path.stat().st_size == facts.st_size


def test_unreadable_splits_are_not_covered_and_stop_nothing(tmp_path) -> None:
    table = create(str(tmp_path))
    fill(table, range(8))
    paths = table.files()["path"].to_pylist()
    (tmp_path / paths[2]).write_bytes(b"damaged")
    (tmp_path / paths[5]).unlink()
    table.checkpoint()
    table = it.Table.open(str(tmp_path), options=ON)
    scan = TableScan(table.snapshot, table.log.config, table._opened, query="absent")
    assert [split.path for split in scan.splits] == [paths[2], paths[5]]


def test_clean_up_deletes_sheets_that_no_state_can_use() -> None:
    now_ms = [10**12]
    inner = open_store(f"memory://sheets-{next(_names)}/table", Config.resolve())
    store = AgingStore(inner, lambda: now_ms[0])
    options = {**ON, "state.retention.hours": "0", "state.retention.versions": "1", "logRetention.duration": "0"}
    log = it.TransactionLog("memory://unused", options=options, store=store)
    plain = create(inner.location.url)
    seen = []
    for number in range(4):
        fill(plain, range(6 * number, 6 * number + 6))
        log.checkpoint()
        seen.append({meta.key for meta in inner.list(f"{LOG_DIRECTORY}/filters")})
        now_ms[0] += 10 * HOUR_MS
    assert [len(keys) for keys in seen] == [1, 2, 2, 2]
    assert answers(inner.location.url, ON) == answers(inner.location.url, OFF)
    # Those of the two states that are retained.
    states = sorted({int(meta.key[24:44]) for meta in inner.list(LOG_DIRECTORY) if "/state-v" in meta.key})
    assert seen[-1] == {sheet_key(version) for version in states[-2:]}


def test_truncation_and_restore_keep_what_is_needed(tmp_path) -> None:
    table = create(str(tmp_path))
    fill(table, range(8))
    table.checkpoint()
    version = table.version
    table.overwrite(rows(50, day="1"), where="day = '1'")
    table.restore(version=version)
    assert left_out(it.Table.open(str(tmp_path), options=ON), "absent") == 8
    table.truncate_time_travel()
    assert answers(str(tmp_path), ON) == answers(str(tmp_path), OFF)
    assert table.fsck().num_rows == 0


def test_many_splits_in_an_object_store_take_few_requests() -> None:
    url = f"memory://sheets-{next(_names)}/table"
    options = {**BASE, "state.filters": "on", "state.filters.minSplits": "100"}
    table = create(url, **options, **{"state.entriesPerManifest": "1000"})
    fill(table, range(120))
    table.checkpoint()
    store = MeteredStore(open_store(url, Config.resolve()))
    log = it.TransactionLog(url, options=options, store=store)
    table = it.Table(log)
    assert table.snapshot.num_files == 120
    store.calls.clear()
    stages = {row["stage"]: row for row in table.explain("absent", run=True).to_pylist()}
    assert stages["sheets"]["left_out"] == 120
    assert stages["total"]["requests"] <= 5
    assert store.calls.total() <= 2
    store.calls.clear()
    assert table.count("absent") == 0
    assert store.calls.total() == 0
