"""The rows that a table is given: random histories against a plain model, in whatever steps they are followed."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.conftest import make_add

import indextables as it
from indextables.clock import format_timestamp_ms
from indextables.errors import ConfigError, IndexTablesError, RetentionError
from indextables.log.commit.operations import MoveHorizon
from indextables.scan.added_rows import AddedRows, Limit, Position

SCHEMA = pa.schema([("id", pa.int64())])
_names = itertools.count()

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "overwrite", "merge", "properties", "checkpoint"]),
        st.lists(st.integers(1, 50), max_size=4),
    ),
    max_size=14,
)
LIMITS = st.builds(
    Limit,
    st.one_of(st.none(), st.integers(1, 4)),
    st.one_of(st.none(), st.integers(1, 120)),
)


class History:
    """A table in memory, and what each of its versions adds and removes, as it was told."""

    def __init__(self) -> None:
        self.url = f"memory://added-{next(_names)}/table"
        self.log = it.TransactionLog(self.url)
        self.log.initialize(SCHEMA)
        self.added: list[list[str]] = [[]]
        self.removes: list[bool] = [False]
        self.live: list[list[str]] = [[]]
        self.sizes: dict[str, int] = {}

    def step(self, kind: str, sizes: list[int]) -> None:
        names = [f"f{next(_names)}" for _ in sizes]
        adds = [make_add(name, size=size) for name, size in zip(names, sizes, strict=True)]
        paths = [add.path for add in adds]
        self.sizes |= {add.path: add.size for add in adds}
        live = self.live[-1]
        if kind == "append":
            self.log.add_files(adds)
            self._note(paths, False, [*live, *paths])
        elif kind == "overwrite":
            self.log.overwrite_files(adds)
            self._note(paths, bool(live), paths)
        elif kind == "merge" and live:
            self.log.replace_files(live[:2], adds)
            self._note([], False, [*live[2:], *paths])
        elif kind == "properties":
            self.log.set_properties({"spark.indextables.read.minPartitions": str(next(_names) + 1)})
            self._note([], False, live)
        elif kind == "checkpoint":
            before = self.log.reader.segment().newest
            self.log.checkpoint()
            for _ in range(self.log.reader.segment().newest - before):
                self._note([], False, live)

    def _note(self, added: list[str], removes: bool, live: list[str]) -> None:
        self.added.append(added)
        self.removes.append(removes)
        self.live.append(live)

    @property
    def newest(self) -> int:
        return len(self.added) - 1

    def rows(self, on_removed_rows: str) -> AddedRows:
        """By a handle that knows nothing, as after a restart."""
        return AddedRows(it.TransactionLog(self.url), on_removed_rows=on_removed_rows)

    def expected(self, start: Position, on_removed_rows: str) -> list[str]:
        """All that is given from a position on, up to the first version that is refused."""
        found = sorted(self.live[start.version]) if start.whole else []
        for version in range(start.version + start.whole, self.newest + 1):
            if self.removes[version] and on_removed_rows == "fail":
                break
            if not (self.removes[version] and on_removed_rows == "skip"):
                found += self.added[version]
        return found


def follow(history: History, start: Position, on_removed_rows: str, limits: list[Limit]) -> list[list[str]]:
    """The paths of one batch after the other, until nothing comes or a version is refused; each batch is read twice."""
    batches: list[list[str]] = []
    position = start
    for limit in itertools.chain(limits, itertools.repeat(Limit())):
        rows = history.rows(on_removed_rows)
        end = position
        with contextlib.suppress(*([IndexTablesError] if on_removed_rows == "fail" else [])):
            end = rows.advance(position, history.newest, limit)
        if end == position:
            return batches
        paths = rows.files(position, end)["path"].to_pylist()
        assert paths == history.rows(on_removed_rows).files(position, end)["path"].to_pylist()
        assert limit.max_files is None or len(paths) <= limit.max_files
        taken = sum(history.sizes[path] for path in paths)
        assert limit.max_bytes is None or taken <= limit.max_bytes or len(paths) == 1
        batches.append(paths)
        position = end
    raise AssertionError("unreachable")


@settings(max_examples=60)
@given(
    STEPS,
    STEPS,
    st.sampled_from(["fail", "ignore", "skip"]),
    st.lists(LIMITS, max_size=12),
    st.one_of(st.none(), st.integers(0, 14)),
)
def test_all_batches_together_are_what_was_added(before, after, on_removed_rows, limits, version) -> None:
    history = History()
    for step in before:
        history.step(*step)
    start = Position(history.newest, whole=True)
    if version is not None:
        start = history.rows(on_removed_rows).at_version(min(version, history.newest + 1), history.newest)
    for step in after:
        history.step(*step)
    batches = follow(history, start, on_removed_rows, limits)
    expected = history.expected(start, on_removed_rows)
    given_paths = [path for batch in batches for path in batch]
    assert sorted(given_paths) == sorted(expected)
    if not start.whole:
        assert given_paths == expected, "in the order of versions"


def grown() -> History:
    history = History()
    for _ in range(3):
        history.step("append", [10, 10])
    return history


def test_a_limit_of_bytes_always_lets_one_file_pass() -> None:
    history = grown()
    assert [len(batch) for batch in follow(history, Position(1), "fail", [Limit(max_bytes=1)] * 9)] == [1] * 6
    assert [len(batch) for batch in follow(history, Position(1), "fail", [Limit(max_bytes=45)] * 9)] == [4, 2]
    assert [len(batch) for batch in follow(history, Position(1), "fail", [Limit(5, 45)] * 9)] == [4, 2]
    assert [len(batch) for batch in follow(history, Position(3, whole=True), "fail", [Limit(5)] * 9)] == [5, 1]


def test_versions_that_came_after_the_last_look_are_read_or_missed() -> None:
    history = grown()
    rows = history.rows("fail")
    assert rows.newest() == 3
    history.step("append", [5])
    assert rows.files(Position(3), Position(5)).num_rows == 3
    with pytest.raises(RetentionError, match="from version 5"):
        rows.files(Position(3), Position(6))


def test_a_version_that_removes_rows_is_told_once_all_before_it_was_given() -> None:
    history = grown()
    history.step("overwrite", [7])
    rows = history.rows("fail")
    end = rows.advance(Position(1), 4, Limit())
    assert end == Position(4)
    with pytest.raises(IndexTablesError, match="through version 4 because it removes rows") as refused:
        rows.advance(end, 4, Limit())
    assert "onRemovedRows" in str(refused.value)
    with pytest.raises(IndexTablesError, match="through version 4"):
        rows.files(Position(1), Position(5))


def test_a_start_at_a_moment() -> None:
    history = grown()
    times = [history.log.snapshot(version=version).timestamp_ms for version in range(4)]
    rows = history.rows("fail")
    for moment in {*times, times[0] - 1, times[-1] + 1}:
        first = next((version for version in range(4) if times[version] >= moment), 4)
        if moment <= times[-1]:
            assert rows.at_moment(format_timestamp_ms(moment), 3) == Position(first)
    with pytest.raises(ConfigError, match="in the future"):
        rows.at_moment("2999-01-01", 3)
    with pytest.raises(ConfigError, match="as a timestamp"):
        rows.at_moment("soon", 3)


def test_a_start_after_the_next_version_is_refused() -> None:
    history = grown()
    assert history.rows("fail").at_version(4, 3) == Position(4)
    with pytest.raises(ConfigError, match="the table is at version 3"):
        history.rows("fail").at_version(5, 3)


def test_versions_that_are_gone_are_never_passed_over(tmp_path) -> None:
    log = it.TransactionLog(tmp_path)
    log.initialize(SCHEMA)
    for number in range(4):
        log.add_files([make_add(f"f{number}")])
    log.checkpoint()
    newest = log.reader.segment().newest
    remove_versions(log, range(3))
    rows = AddedRows(it.TransactionLog(tmp_path))
    for attempt in (
        lambda: rows.advance(Position(2), newest, Limit()),
        lambda: rows.files(Position(1), Position(4)),
        lambda: rows.at_version(1, newest),
        lambda: rows.advance(Position(1, whole=True), newest, Limit()),
    ):
        with pytest.raises(RetentionError, match="was cleaned up or purged") as gone:
            attempt()
        assert "checkpointLocation" in str(gone.value)
    assert rows.files(Position(3), Position(newest + 1)).num_rows == 2
    assert rows.files(Position(newest, whole=True), Position(newest + 1)).num_rows == 4


def test_a_file_in_the_place_of_one_that_was_cleaned_up_is_noticed(tmp_path) -> None:
    log = it.TransactionLog(tmp_path)
    log.initialize(SCHEMA)
    for number in range(4):
        log.add_files([make_add(f"f{number}")])
    log.checkpoint()
    newest = log.reader.segment().newest
    other = it.TransactionLog(tmp_path / "other")
    other.initialize(SCHEMA)
    other.add_files([make_add("ghost")])
    other.add_files([make_add("ghost-too")])
    remove_versions(log, range(3))
    ghost = version_path(other, 2).read_bytes()
    version_path(log, 2).write_bytes(ghost)
    with pytest.raises(RetentionError, match="was cleaned up or purged"):
        AddedRows(it.TransactionLog(tmp_path)).advance(Position(2), newest, Limit(max_files=1))


def test_versions_that_stand_in_states_alone_are_followed_where_they_only_add(shared) -> None:
    log = it.TransactionLog(shared / "fixtures/upstream-0.5.4/05_many_transactions")
    newest = log.reader.segment().newest
    rows = AddedRows(log)
    end = rows.advance(Position(2), newest, Limit(max_files=3))
    assert rows.files(Position(2), end).num_rows == 3
    followed = [rows.files(Position(version), Position(version + 1)) for version in range(2, newest + 1)]
    live = set(log.snapshot().files["path"].to_pylist())
    first = set(log.snapshot(version=1).files["path"].to_pylist())
    assert sorted(path for files in followed for path in files["path"].to_pylist()) == sorted(live - first)
    assert live > first


def test_versions_that_stand_in_states_alone_and_remove_files_are_refused(shared) -> None:
    log = it.TransactionLog(shared / "fixtures/upstream-0.5.4/12_partition_drop")
    with pytest.raises(RetentionError, match="from version 2"):
        AddedRows(log, on_removed_rows="ignore").files(Position(2), Position(3))


def version_path(log: it.TransactionLog, version: int) -> Path:
    return Path(log.url, "_transaction_log", f"{version:020}.json")


def remove_versions(log: it.TransactionLog, versions: range) -> None:
    for version in versions:
        version_path(log, version).unlink()


def test_versions_whose_files_were_purged_are_refused(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t")
    log.initialize(pa.schema([("id", pa.int64())]))
    for name in "abcd":
        log.add_files([make_add(name)])
    log.commit(MoveHorizon(3, if_version=4))
    rows = AddedRows(it.TransactionLog(log.url))
    assert rows.advance(rows.at_version(3, 5), 5, Limit()) == Position(6)
    with pytest.raises(RetentionError, match="from version 2 because that version was cleaned up or purged"):
        rows.at_version(2, 5)
    with pytest.raises(RetentionError, match="or purged"):
        rows.files(Position(1), Position(5))
