"""Combined indexes change no answer: random tables, predicates and questions, with and without them."""

from __future__ import annotations

import datetime as dt
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import BadSplitWarning, ConfigError
from indextables.maintain.caches import flush_searchers
from indextables.scan.scan_tasks import PlannedScan
from indextables.scan.search import Projection, checked, found_rows
from indextables.scan.split_scan import TableScan
from indextables.split.index import cache_entries
from indextables.split.index.cache_entries import COMBINED
from indextables.split.search import combined, groups, open_splits
from indextables.split.search.combined import CannotCombineError, CombinedIndex, Together
from indextables.split.search.fetching import wait_for_fetches
from indextables.split.search.searcher import SplitSearcher

SCHEMA = pa.schema(
    [
        ("part", pa.int32()),
        ("id", pa.int64()),
        ("word", pa.string()),
        ("message", pa.string()),
        ("x", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
WORDS = ["disk", "full", "net", "slow", "ok", "retry", "axolotl"]
QUERIES = [
    *("disk", "absent", "axolotl", "disk AND full", "disk OR net", "NOT disk", '"disk full"', "dis*", "message:slwo~1"),
    *("word:a", "word:a AND disk", "id:[10 TO 40]", "id:>=30", "x:>0.5", "x:NaN", "_exists_:x", "word:IN [a b]"),
    *("part:3", "*", "retry -slow", "at:>=2026-01-02", "message:/n.t/", "disk^2 full"),
]
WHERES = [None, "part = 2", "part < 6", "part >= 0", "part IN (1, 5, 9)", "id < 40", "part < 6 AND id >= 20", "x > 1"]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch) -> None:
    monkeypatch.setattr(groups, "_LEAST", 2)
    monkeypatch.setattr(groups, "_LEAST_TO_CUT", 3)
    monkeypatch.setattr(groups, "_LEAST_ALONE", 2)
    monkeypatch.setattr(groups, "_ONE_IN", 3)
    monkeypatch.setattr(groups, "_MOST", 8)


def random_rows(chosen: random.Random, parts: range, first_id: int = 0) -> pa.Table:
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [
        {
            "part": part,
            "id": None if chosen.random() < 0.1 else first_id + chosen.randrange(60),
            "word": chosen.choice([None, "a", "b", "ab"]),
            "message": " ".join(chosen.choices(WORDS, [20, 20, 9, 9, 9, 9, 1], k=chosen.randrange(1, 6))),
            "x": chosen.choice([None, 0.5, 1.5, -2.0, float("nan")] if part % 5 == 0 else [None, 0.5, 1.5, -2.0]),
            "at": start + dt.timedelta(hours=chosen.randrange(96)),
        }
        for part in parts
        for _ in range(chosen.randrange(1, 25))
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def make_table(place: Path, seed: int = 0, *, num_parts: int = 12, **options: str) -> it.Table:
    chosen = random.Random(seed)
    options = {"cache.disk.path": str(place / "cache"), **options}
    table = it.Table.create(place / "t", SCHEMA, partition_by=["part"], indexing={"message": "text"}, options=options)
    table.append(random_rows(chosen, range(num_parts)))
    return table


def reopened(place: Path, **options: str) -> it.Table:
    options = {key.replace("_", "."): value for key, value in options.items()}
    return it.Table.open(
        place / "t", options={"cache.disk.path": str(place / "cache"), "search.combined": "on", **options}
    )


def made(place: Path) -> list[Path]:
    """The combined indexes on disk."""
    return [path for path in (place / "cache" / COMBINED).glob("*") if not path.name.endswith(".tmp")]


def questions(table: it.Table, query: str | None, where: str | None) -> dict[str, object]:
    """Every kind of answer."""
    asked = {"query": query, "where": where}
    return {
        "count": table.count(query, where=where),
        "all": table.search(query, where=where).to_pylist(),
        "first": [
            table.search(query, where=where, columns=["id", "at"], limit=limit).to_pylist() for limit in (1, 3, 50)
        ],
        "ordered": table.search(query, where=where, order_by="id", limit=5).to_pylist(),
        "scored": table.search(query, where=where, score=True, limit=7).to_pylist(),
        "streamed": [row for batch in table.to_batches(query, where=where) for row in batch.to_pylist()],
        "snippets": table.search(query, where=where, snippet="message", limit=2, columns=["part"]).to_pylist(),
        "terms": [table.aggregate(column, **asked).to_pylist() for column in ("word", "id", "part", "x")],
        "stats": [table.stats(column, **asked).to_pylist() for column in ("id", "at", "word")],
        "days": table.date_histogram("at", interval="1d", **asked).to_pylist(),
        "tens": table.histogram("id", interval=10, **asked).to_pylist(),
    }


def assert_same(ours: it.Table, plain: it.Table, query: str | None, where: str | None) -> None:
    assert repr(questions(ours, query, where)) == repr(questions(plain, query, where)), (query, where)


@pytest.fixture
def together(monkeypatch) -> list[str]:
    """The answers that combined indexes gave."""
    answers: list[str] = []

    def note(name: str) -> None:
        whole = getattr(Together, name)

        def noted(self, *given, **named):
            answers.append(name)
            return whole(self, *given, **named)

        monkeypatch.setattr(Together, name, noted)

    for name in ("count", "row_numbers", "aggregate", "keywords", "best"):
        note(name)
    return answers


@pytest.mark.parametrize("seed", range(3))
def test_no_answer_changes(tmp_path, together, seed) -> None:
    chosen = random.Random(seed)
    make_table(tmp_path, seed)
    ours, plain = reopened(tmp_path), reopened(tmp_path, search_combined="off")
    assert plain.count("disk") == ours.count("disk") > 0  # all indexes are on disk
    for query in chosen.sample(QUERIES, 6):
        for where in [None, *chosen.sample(WHERES[1:], 2)]:
            for _ in range(2):
                assert_same(ours, plain, query, where)
    assert_same(ours, plain, None, "part < 6")
    assert made(tmp_path)
    assert {"count", "row_numbers", "aggregate"} <= set(together)


@pytest.mark.parametrize("seed", range(2))
def test_histories_change_no_answer(tmp_path, together, seed) -> None:
    """Appends, other indexing, merges and travel in time between the questions; cold and warm processes."""
    chosen = random.Random(100 + seed)
    table = make_table(tmp_path, seed, num_parts=5)
    ours, plain = reopened(tmp_path), reopened(tmp_path, search_combined="off")
    for step in range(5):
        change = chosen.choice(["append", "append", "index", "merge", "restore", "cold"])
        if change == "append":
            table.append(random_rows(chosen, range(chosen.randrange(8), 8), 100 * step))
        elif change == "index":
            table.set_properties({"indexing.typemap.word": chosen.choice(["text", "string"])})
        elif change == "merge":
            table.merge_splits(target_size=chosen.choice(["1M", "20K"]))
        elif change == "restore":
            table.restore(version=max(1, table.version - 1))
        else:
            ours, plain = reopened(tmp_path), reopened(tmp_path, search_combined="off")
        ours, plain, table = (each.refresh() or each for each in (ours, plain, table))
        for query in chosen.sample(QUERIES, 3):
            for _ in range(3):
                assert_same(ours, plain, query, chosen.choice(WHERES))
    assert together


def warm(place: Path, query: str = "disk OR net", **options: str) -> tuple[it.Table, int]:
    """A table whose groups have their combined indexes, and its count."""
    table = reopened(place, **options)
    found = {table.count(query) for _ in range(4)}
    assert len(found) == 1
    return table, found.pop()


def test_every_group_gets_an_index_that_stays(tmp_path, together) -> None:
    make_table(tmp_path)
    table, _ = warm(tmp_path)
    names = {path.name for path in made(tmp_path)}
    assert names
    together.clear()
    table.count("full AND net")
    assert together == ["count"] * len(table._ask("net", None, "fail")._groups())
    warm(tmp_path)
    assert {path.name for path in made(tmp_path)} == names
    table.append(random_rows(random.Random(5), range(40, 41)))
    warm(tmp_path)
    assert {path.name for path in made(tmp_path)} > names


def test_flushing_removes_them(tmp_path) -> None:
    make_table(tmp_path)
    table, found = warm(tmp_path)
    assert made(tmp_path)
    flush_searchers({"cache.disk.path": str(tmp_path / "cache")})
    assert not made(tmp_path)
    assert not list((tmp_path / "cache" / "indexes").iterdir())
    assert table.count("disk OR net") == found


def test_processes_make_them_at_once(tmp_path) -> None:
    make_table(tmp_path)
    expected = reopened(tmp_path, search_combined="off").count("disk OR net")
    program = """
        import sys
        import indextables as it
        from indextables.split.search import groups
        groups._LEAST, groups._LEAST_TO_CUT, groups._LEAST_ALONE, groups._ONE_IN, groups._MOST = 2, 3, 2, 3, 8
        options = {"cache.disk.path": sys.argv[1] + "/cache", "search.answers.maxSize": "0"}
        table = it.Table.open(sys.argv[1] + "/t", options=options)
        print(*{table.count("disk OR net") for _ in range(6)})
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=120)[0].split() for process in running] == [[str(expected)]] * 3
    assert made(tmp_path)
    assert not list((tmp_path / "cache" / COMBINED).glob("*.tmp"))


def test_a_process_that_is_killed_while_it_makes_one_leaves_nothing_wrong(tmp_path, monkeypatch) -> None:
    make_table(tmp_path)
    expected = reopened(tmp_path, search_combined="off").count("disk OR net")
    program = """
        import os, signal, sys
        import indextables as it
        from indextables.split.search import groups
        groups._LEAST, groups._LEAST_TO_CUT, groups._LEAST_ALONE, groups._ONE_IN, groups._MOST = 2, 3, 2, 3, 8
        link, left = os.link, [int(sys.argv[2])]
        def dying(*given, **named):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return link(*given, **named)
        os.link = dying
        options = {"cache.disk.path": sys.argv[1] + "/cache", "search.answers.maxSize": "0"}
        table = it.Table.open(sys.argv[1] + "/t", options=options)
        for _ in range(6):
            table.count("disk OR net")
    """
    for num_links in (0, 7, 15):
        command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path), str(num_links)]
        assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    left = list((tmp_path / "cache" / COMBINED).glob("*.tmp"))
    assert len(left) == 3
    assert not made(tmp_path)
    monkeypatch.setattr(cache_entries, "_YOUNG_MS", 0)
    assert warm(tmp_path, cache_disk_maxSize="1G")[1] == expected
    assert made(tmp_path)
    assert not [path for path in left if path.exists()]


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSPC])
def test_a_file_system_without_links_has_none(tmp_path, monkeypatch, together, number) -> None:
    make_table(tmp_path)
    expected = reopened(tmp_path, search_combined="off").count("disk OR net")

    def refuse(*given, **named) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    assert warm(tmp_path)[1] == expected
    assert not made(tmp_path)


def test_missing_indexes_are_fetched_in_the_background(tmp_path, monkeypatch, together) -> None:
    """No question waits for them; the question after the fetch makes the combined index."""
    monkeypatch.setattr(open_splits, "_MOST_BYTES_AT_ONCE", 0)
    make_table(tmp_path)
    expected = reopened(tmp_path, search_combined="off").count("disk OR net")
    shutil.rmtree(tmp_path / "cache")
    begun, fetch = threading.Event(), SplitSearcher.fetch_whole

    def late(self: SplitSearcher) -> None:
        assert begun.wait(60)
        fetch(self)

    monkeypatch.setattr(SplitSearcher, "fetch_whole", late)
    table = reopened(tmp_path)
    assert table.count("absent") == 0  # term filters answer, so that no index is fetched
    assert table.count("axolotl AND absent") == 0
    assert table.count("disk OR net") == expected
    begun.set()
    assert wait_for_fetches(60)
    assert {table.count("disk OR net") for _ in range(2)} == {expected}
    assert made(tmp_path)
    assert "count" in together


def test_a_failed_fetch_leaves_the_splits_to_themselves(tmp_path, monkeypatch, together) -> None:
    monkeypatch.setattr(open_splits, "_MOST_BYTES_AT_ONCE", 0)
    make_table(tmp_path)

    def failing(self: SplitSearcher) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(SplitSearcher, "fetch_whole", failing)
    table = reopened(tmp_path)
    assert [table.count("absent") for _ in range(5)] == [0] * 5
    assert wait_for_fetches(60)
    assert not made(tmp_path)
    assert not together


def test_rows_that_wait_for_others_keep_their_order(tmp_path, together) -> None:
    """Rows of several groups are read at once, with every limit, also where some groups have no index."""
    make_table(tmp_path, num_parts=30)
    plain, _ = warm(tmp_path, search_combined="off")
    ours, _ = warm(tmp_path)
    groups_of = ours._ask("net", None, "fail")._groups()
    assert len(groups_of) > 3
    for query in ("axolotl", "disk AND slow AND net", "disk"):
        for limit in (1, 2, 5, 17, 1000):
            for refused in (None, 0, 1, len(groups_of) - 1):
                if refused is not None:
                    known = groups_of[refused]
                    index, known._index, known._is_refused = known._index, None, True
                found, expected = (repr(each.search(query, limit=limit).to_pylist()) for each in (ours, plain))
                assert found == expected, (query, limit, refused)
                if refused is not None:
                    known._index, known._is_refused = index, False
    assert "row_numbers" in together


def test_they_can_be_switched_off(tmp_path, together) -> None:
    table = make_table(tmp_path, **{"search.combined": "off"})
    expected = table.count("disk OR net")
    assert {table.count("disk OR net") for _ in range(6)} == {expected}
    assert not made(tmp_path)
    assert not together


def test_rows_of_later_splits_replace_those_of_bad_ones(tmp_path) -> None:
    make_table(tmp_path)
    ours = warm(tmp_path, search_rows="pages")[0]
    plain = warm(tmp_path, search_rows="pages", search_combined="off")[0]
    bad = plain.search("disk OR net", limit=1, columns=["part"])["part"][0].as_py()
    [file] = (tmp_path / "t").glob(f"part={bad}/splits/*")
    file.unlink()
    found = []
    for table in (ours, plain):
        with pytest.warns(BadSplitWarning):
            found.append(table.search("disk OR net", limit=3, bad_splits="skip").to_pylist())
    assert len(found[0]) == 3
    assert bad not in {row["part"] for row in found[0]}
    assert repr(found[0]) == repr(found[1])


def test_without_a_cache_on_disk_there_are_none(tmp_path, together) -> None:
    make_table(tmp_path)
    expected = reopened(tmp_path, search_combined="off").count("disk OR net")
    table = it.Table.open(tmp_path / "t", options={"cache.disk.enabled": "false", "search.combined": "on"})
    assert {table.count("disk OR net") for _ in range(4)} == {expected}
    assert not together


@pytest.mark.parametrize("suffix", [".term", ".idx", "meta.json"])
def test_damage_is_found_before_it_is_used(tmp_path, suffix) -> None:
    make_table(tmp_path)
    _, expected = warm(tmp_path)
    for path in made(tmp_path):
        for file in (path / "files").glob(f"*{suffix}"):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0x55
            times = file.stat()
            file.write_bytes(data)  # the links share it
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    program = """
        import sys
        import indextables as it
        from indextables.split.search import groups
        groups._LEAST, groups._LEAST_TO_CUT, groups._LEAST_ALONE, groups._ONE_IN, groups._MOST = 2, 3, 2, 3, 8
        options = {"cache.disk.path": sys.argv[1] + "/cache", "search.answers.maxSize": "0"}
        table = it.Table.open(sys.argv[1] + "/t", options=options)
        print(*{table.count("disk OR net") for _ in range(6)})
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert ran.stdout.split() == [str(expected)]


def test_splits_that_share_a_segment_are_refused(tmp_path) -> None:
    make_table(tmp_path)
    table, _ = warm(tmp_path, search_combined="off")
    searchers = table._opened._known.values()
    CombinedIndex(searchers, table._opened._cache, table._opened._combined)
    with pytest.raises(CannotCombineError, match="share a segment"):
        CombinedIndex([*searchers, searchers[0]], table._opened._cache, table._opened._combined)


def test_eviction_drops_them_first_and_counts_each_file_once(tmp_path) -> None:
    make_table(tmp_path)
    table, expected = warm(tmp_path)
    root = tmp_path / "cache"
    roots = {str(root / kind): size for kind, size in cache_entries._KINDS.items()}
    once = {
        facts.st_ino: facts.st_size
        for kind in ("indexes", COMBINED)
        for facts in (file.lstat() for file in (root / kind).glob("*/files/*"))
    }
    counted = sum(size(str(entry)) for place, size in roots.items() for entry in Path(place).glob("*"))
    assert abs(counted - sum(once.values())) < len(once) * 4
    entries = len(list((root / "indexes").iterdir()))
    limited = reopened(tmp_path, cache_disk_maxSize="1K")
    limited._opened._cache._entries.evict()  # all are in use
    assert len(list((root / "indexes").iterdir())) == entries
    assert made(tmp_path)
    table._opened.groups.clear()  # the links are not in use any more, the indexes are
    limited._opened._cache._entries.evict()
    assert not made(tmp_path)
    assert table.count("disk OR net") == expected
    table.flush_search_cache()
    limited._opened._cache._entries.evict()
    assert not list((root / "indexes").iterdir())
    assert warm(tmp_path)[1] == expected


def test_large_splits_are_searched_alone(tmp_path, monkeypatch, together) -> None:
    monkeypatch.setattr(groups, "MOST_ROWS_OF_A_SPLIT", 2)
    make_table(tmp_path)
    warm(tmp_path)
    assert not [name for name in together if name != "count"]
    assert not made(tmp_path)


def scores(table: it.Table, query: str, **asked: object) -> list[dict]:
    return table.search(query, score=True, columns=["id", "message"], **asked).to_pylist()


@pytest.mark.parametrize("query", ["disk", "disk full", "net OR axolotl", '"disk full"', "disk^3 slow"])
def test_scores_by_the_table_are_those_of_one_split(tmp_path, query) -> None:
    rows = random_rows(random.Random(3), range(8))
    made_of_one = it.Table.create(
        tmp_path / "one", SCHEMA, indexing={"message": "text"}, options={"cache.disk.path": str(tmp_path / "cache")}
    )
    made_of_one.append(rows)
    table = make_table(tmp_path)
    table.overwrite(rows)
    ours = reopened(tmp_path, score_scope="table")
    for asked in ({}, {"limit": 5}, {"where": "id < 30"}, {"where": "part < 4", "limit": 6}, {"order_by": "id"}):
        expected = scores(made_of_one, query, **asked)
        for _ in range(2):
            found = scores(ours, query, **asked)
            assert sorted(map(repr, found)) == sorted(map(repr, expected)) or "limit" in asked
            assert [row["_score"] for row in found] == [row["_score"] for row in expected] or "order_by" in asked
    by_split = scores(reopened(tmp_path), query)
    assert by_split == scores(reopened(tmp_path, search_combined="off"), query)


def test_scores_by_the_table_are_refused_where_no_index_holds_it(tmp_path, monkeypatch) -> None:
    make_table(tmp_path)
    without = it.Table.open(tmp_path / "t", options={"cache.disk.enabled": "false", "score.scope": "table"})
    with pytest.raises(ConfigError, match="no index can hold its 12 splits: there is no cache on disk"):
        scores(without, "disk")
    assert without.count("disk") > 0
    table = reopened(tmp_path, score_scope="table")
    monkeypatch.setattr(groups, "MOST_ROWS_OF_A_SPLIT", 2)
    with pytest.raises(ConfigError, match="100,000 rows or more"):
        scores(table, "disk")
    monkeypatch.undo()
    monkeypatch.setattr(combined, "_MOST_SEGMENTS", 3)
    with pytest.raises(ConfigError, match="over 3 segments"):
        scores(reopened(tmp_path, score_scope="table"), "disk")
    monkeypatch.undo()
    table.merge_splits(where="part = 1")
    assert scores(reopened(tmp_path, score_scope="table"), "disk")


def test_scores_by_the_table_are_refused_where_only_some_splits_are_known(tmp_path) -> None:
    make_table(tmp_path)
    table = reopened(tmp_path, score_scope="table")
    config, opened = table._log.config, table._opened
    part = TableScan(table._log.snapshot(), config, opened, query="disk", is_whole=False)
    with pytest.raises(ConfigError, match="only some of its splits are known"):
        found_rows(part, checked(part, Projection(score=True)))
    for limit in (None, 3):
        with pytest.raises(ConfigError, match="each task has only some of its splits"):
            PlannedScan(
                table._log, table._log.snapshot(), Projection(score=True, limit=limit), query="disk", settings={}
            )


def test_tasks_of_a_scan_change_no_answer(tmp_path, together) -> None:
    make_table(tmp_path)
    settings = {"cache.disk.path": str(tmp_path / "cache")}
    log = reopened(tmp_path)._log
    plain = reopened(tmp_path, search_combined="off").search("disk OR net").to_pylist()
    for _ in range(4):
        planned = PlannedScan(log, log.snapshot(), Projection(limit=1_000), query="disk OR net", settings=settings)
        scan = planned.scan_of(SCHEMA.names)
        found = [row for task in planned.tasks() for batch in scan.read(task) for row in batch.to_pylist()]
        assert repr(found) == repr(plain)
    assert "row_numbers" in together
