"""A cold index fetched in parts answers as one that is fetched whole, over tables of many splits."""

from __future__ import annotations

import concurrent.futures
import itertools
import multiprocessing
import os
import random
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import IndexTablesError
from indextables.split.partial import packing, partial_index, sparse_cache, tantivy_files
from indextables.split.search import cold_indexes

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("message", pa.string()),
        ("level", pa.string()),
        ("trace", pa.string()),
        ("amount", pa.float64()),
    ]
)
INDEXING = {"message": "text"}
PROPERTIES = {"spark.indextables.indexing.fastfields": "level,amount"}
NUM_SPLITS, ROWS = 8, 300
WORDS = ["error", "disk", "full", "timeout", "after", "write", "The", "naïve", "42", "read"]
# Predicates that leave one split, half of them, all, and none; the rows decide the last two.
PLACES = [None, "id < 300", "id < 1200", "id >= 0", "id > 1000000", "amount > 10", "id < 1200 AND amount > 50"]
# The indexes here are small; these make parts of them worth a fetch, in pieces so small that every index has many.
SMALL = [
    (packing, "_SMALL_PIECE", 512),
    (packing, "_LARGE_PIECE", 1_024),
    (tantivy_files, "_SMALL_DICTIONARY_BYTES", 0),
    (partial_index, "_SMALL_DICTIONARY_BYTES", 0),
    (cold_indexes, "SMALL_INDEX_BYTES", 0),
]


def rows(rng: random.Random, number: int) -> pa.Table:
    def text() -> str | None:
        words = [rng.choice(WORDS) if rng.random() < 0.8 else f"rare{rng.randrange(900)}" for _ in range(7)]
        return None if rng.random() < 0.03 else " ".join(words)

    first = number * ROWS
    return pa.table(
        {
            "id": range(first, first + ROWS),
            "day": [f"d{number % 4}"] * ROWS,
            "message": [text() if rng.random() > 0.01 else f"only{number}" for _ in range(ROWS)],
            "level": [rng.choice(["INFO", "WARN", "ERROR", None]) for _ in range(ROWS)],
            "trace": [f"{rng.getrandbits(48):012x}" for _ in range(ROWS)],
            "amount": [rng.choice([rng.random() * 100, None]) for _ in range(ROWS)],
        },
        schema=SCHEMA,
    )


def random_query(rng: random.Random, traces: list[str]) -> str:
    """A query as a user types it."""
    word, other = rng.choice(WORDS), rng.choice(WORDS)
    rare = f"rare{rng.randrange(950)}"
    simple = rng.choice(
        [
            word,
            rare,
            f"only{rng.randrange(NUM_SPLITS + 1)}",
            f"{word} {rare}",
            f'"{word} {other}"',
            f'"{word} {other}"~2',
            f"message:{rare}",
            f"level:{rng.choice(['INFO', 'ERROR', 'info', 'NONE'])}",
            f"trace:{rng.choice([*traces, 'ffff'])}",
            f"trace:IN [{rng.choice(traces)} {rng.choice(traces)}]",
            f"level:IN [INFO ERROR] AND {word}",
            f"rare{rng.randrange(9)}*",
            f"{word[:3]}*",
            f"{word}~1",
            f"amount:[10 TO {rng.randrange(11, 90)}]",
            "level:*",
            "amount:*",
            "*",
        ]
    )
    return rng.choice(
        [
            simple,
            simple,
            f"{simple} AND {other}",
            f"{simple} OR {rare}",
            f"{word} AND NOT {simple}",
            f"({simple} OR {rare})^2 {other}",
        ]
    )


WAYS: dict[str, Callable[[it.Table, str, str | None], Any]] = {
    "rows": lambda t, query, where: t.search(query, where=where),
    "first row": lambda t, query, where: t.search(query, where=where, limit=1),
    "ten rows": lambda t, query, where: t.search(query, where=where, limit=10, columns=["id", "message"]),
    "ten best": lambda t, query, where: t.search(query, where=where, limit=10, score=True),
    "all scores": lambda t, query, where: t.search(query, where=where, columns=["id"], score=True),
    "snippets": lambda t, query, where: t.search(query, where=where, limit=5, snippet="message"),
    "ordered": lambda t, query, where: t.search(query, where=where, limit=7, order_by="amount"),
    "count": lambda t, query, where: t.count(query, where=where),
    "groups": lambda t, query, where: t.aggregate("level", query=query, where=where),
    "days": lambda t, query, where: t.aggregate("day", query=query, where=where),
    "statistics": lambda t, query, where: t.stats("amount", query=query, where=where),
    "batches": lambda t, query, where: pa.Table.from_batches(t.to_batches(query, where=where), SCHEMA),
}


def answer(table: it.Table, way: str, query: str, where: str | None) -> Any:
    try:
        found = WAYS[way](table, query, where)
    except IndexTablesError as error:
        return type(error), str(error)
    return found.to_pylist() if isinstance(found, pa.Table) else found


def questions(rng: random.Random, traces: list[str], count: int) -> list[tuple[str, str, str | None]]:
    return [(rng.choice(list(WAYS)), random_query(rng, traces), rng.choice(PLACES)) for _ in range(count)]


def opened(place: Path, cache: Path, cold: str) -> it.Table:
    return it.Table.open(str(place), options={"cache.disk.path": str(cache), "search.cold": cold})


@pytest.fixture(scope="module", autouse=True)
def _small():
    with pytest.MonkeyPatch.context() as patched:
        for module, name, size in SMALL:
            patched.setattr(module, name, size)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table of several splits, one of them merged."""
    place = tmp_path_factory.mktemp("cold") / "table"
    rng = random.Random(1)
    table = it.Table.create(str(place), SCHEMA, indexing=INDEXING, properties=PROPERTIES)
    parts = [rows(rng, number) for number in range(NUM_SPLITS)]
    for part in parts[:2]:
        table.append(part)
    table.merge_splits()
    for part in parts[2:]:
        table.append(part)
    return place, parts[0]["trace"].to_pylist()[:3] + parts[5]["trace"].to_pylist()[:3]


@pytest.fixture(params=[b"\0", b"\xff", b"random"], ids=["zeros", "ones", "random"])
def poison(request, monkeypatch):
    """What is in places that were not fetched."""
    rng = random.Random(7)

    def poisoned(path: str, size: int) -> int:
        pattern = rng.randbytes(4_096) if request.param == b"random" else request.param * 4_096
        with open(path, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write((pattern * (size // 4_096 + 1))[:size])
        return 0

    monkeypatch.setattr(sparse_cache, "make_hole", poisoned)


@pytest.mark.one_case
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("poison")
def test_parts_answer_as_the_whole(made, tmp_path, seed) -> None:
    place, traces = made
    rng = random.Random(seed)
    whole, warm = opened(place, tmp_path / "whole", "whole"), opened(place, tmp_path / "warm", "partial")
    for number, (way, query, where) in enumerate(questions(rng, traces, 40)):
        right = answer(whole, way, query, where)
        cold = opened(place, tmp_path / f"cold{number}", "partial")
        assert answer(cold, way, query, where) == right, (way, query, where)
        assert answer(warm, way, query, where) == right, (way, query, where)
    assert (tmp_path / "warm" / "partial-indexes").exists()


@pytest.mark.one_case
@pytest.mark.parametrize("options", [{"cache.disk.enabled": "false"}, {"cache.disk.maxSize": "20K"}])
@pytest.mark.usefixtures("poison")
def test_a_cache_that_keeps_nothing_changes_no_answer(made, tmp_path, options) -> None:
    place, traces = made
    rng = random.Random(3)
    whole = opened(place, tmp_path / "whole", "whole")
    small = it.Table.open(str(place), options={"cache.disk.path": str(tmp_path / "small"), **options})
    for way, query, where in questions(rng, traces, 25):
        small.flush_search_cache()
        assert answer(small, way, query, where) == answer(whole, way, query, where), (way, query, where)


def _ask_all(place: str, cache: str, asked: list[tuple[str, str, str | None]], answers) -> None:
    for module, name, size in SMALL:
        setattr(module, name, size)
    table = opened(Path(place), Path(cache), "partial")
    answers.put([answer(table, *question) for question in asked])


def test_processes_that_share_a_cache_answer_alike(made, tmp_path) -> None:
    place, traces = made
    rng = random.Random(5)
    asked = questions(rng, traces, 40)
    whole = opened(place, tmp_path / "whole", "whole")
    right = [answer(whole, *question) for question in asked]
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    given = [rng.sample(range(40), 40) for _ in range(2)]
    shared = str(tmp_path / "shared")
    workers = [
        context.Process(target=_ask_all, args=(str(place), shared, [asked[n] for n in order], answers))
        for order in given
    ]
    for worker in workers:
        worker.start()
    found = [answers.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(map(repr, found)) == sorted(repr([right[n] for n in order]) for order in given)
    # What they left is right for a third.
    table = opened(place, tmp_path / "shared", "partial")
    assert [answer(table, *question) for question in asked] == right


def test_threads_on_one_handle_answer_alike(made, tmp_path) -> None:
    place, traces = made
    asked = questions(random.Random(6), traces, 60)
    whole = opened(place, tmp_path / "whole", "whole")
    right = [answer(whole, *question) for question in asked]
    table = opened(place, tmp_path / "parts", "partial")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda question: answer(table, *question), asked)) == right


def test_mixed_orders_of_scored_and_unscored_queries_change_no_score(made, tmp_path) -> None:
    """The engine keeps what it read first of a field."""
    place, _ = made
    whole = opened(place, tmp_path / "whole", "whole")
    steps = ["count", "ten best", "groups"]
    for number, order in enumerate(itertools.permutations(steps)):
        table = opened(place, tmp_path / str(number), "partial")
        for way in order:
            for query in ("error AND disk", "rare5 OR full"):
                assert answer(table, way, query, None) == answer(whole, way, query, None), (order, way)


def _ask_within(limit: str, place: str, cache: str, asked: list[tuple[str, str, str | None]], answers) -> None:
    table = opened(Path(place), Path(cache), "partial")
    table.count("nothing")  # load the libraries
    answers.put("started")  # the thread of the queue is not what is tested
    if limit == "descriptors":
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    else:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20), used + (512 << 20)))
    _ask_all(place, cache, asked, answers)


@pytest.mark.parametrize("limit", ["descriptors", "address space"])
def test_a_process_with_little_room_answers_alike(made, tmp_path, limit) -> None:
    place, traces = made
    asked = questions(random.Random(8), traces, 25)
    whole = opened(place, tmp_path / "whole", "whole")
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    worker = context.Process(target=_ask_within, args=(limit, str(place), str(tmp_path / "parts"), asked, answers))
    worker.start()
    assert answers.get(timeout=120) == "started"
    found = answers.get(timeout=120)
    worker.join()
    assert found == [answer(whole, *question) for question in asked]


def test_a_full_disk_changes_no_answer(made, tmp_path) -> None:
    place, traces = made
    disk = tmp_path / "small"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.decode().strip()}")
    try:
        whole, parts = opened(place, tmp_path / "whole", "whole"), opened(place, disk / "cache", "partial")
        for question in questions(random.Random(9), traces, 30):
            assert answer(parts, *question) == answer(whole, *question), question
        room = os.statvfs(disk)
        assert room.f_bavail * room.f_frsize < 32 << 10
        parts.flush_search_cache()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
