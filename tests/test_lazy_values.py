"""Lazy properties and bounded caches: shared by threads, forked, and interrupted at every step."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import pickle
import random
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA
from tests.doubles.metered_store import MeteredStore
from tests.interrupts import interrupted_at

import indextables as it
from indextables.config import Config
from indextables.log.cache import LogCache
from indextables.log.files import LiveFiles
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.runtime.caching import BoundedCache, lazy_property
from indextables.split.split_file import SplitFile
from indextables.store import open_store

NUM_THREADS = 4
WAIT_SECONDS = 10


class Slow:
    """A value that is computed once all threads compute one."""

    def __init__(self, meeting: threading.Barrier | None = None) -> None:
        self.meeting = meeting
        self.num_computed = 0

    @lazy_property
    def value(self) -> int:
        """Doc."""
        self.num_computed += 1
        if self.meeting is not None:
            self.meeting.wait(WAIT_SECONDS)
        return self.num_computed


def _side_by_side(works):
    with concurrent.futures.ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(work) for work in works]]


def test_lazy_properties_of_many_instances_are_computed_side_by_side():
    meeting = threading.Barrier(NUM_THREADS)
    slow = [Slow(meeting) for _ in range(NUM_THREADS)]
    assert _side_by_side([lambda one=one: one.value for one in slow]) == [1] * NUM_THREADS


def test_threads_that_ask_one_instance_compute_its_value_once():
    slow, start = Slow(), threading.Barrier(NUM_THREADS)

    def ask():
        start.wait(WAIT_SECONDS)
        return slow.value

    assert _side_by_side([ask] * NUM_THREADS) == [1] * NUM_THREADS
    assert slow.value == 1
    assert Slow.value.__doc__ == "Doc."


def test_a_lazy_property_that_failed_is_computed_again():
    class Failing:
        tries = 0

        @lazy_property
        def value(self) -> int:
            self.tries += 1
            if self.tries == 1:
                raise KeyboardInterrupt
            return self.tries

    failing = Failing()
    with pytest.raises(KeyboardInterrupt):
        _ = failing.value
    assert failing.value == 2


def test_a_forked_child_computes_what_a_thread_of_its_parent_was_computing():
    begun, ended = threading.Event(), threading.Event()

    class Held:
        is_child = False

        @lazy_property
        def value(self) -> int:
            if not self.is_child:
                begun.set()
                ended.wait(WAIT_SECONDS)
            return 7

    held = Held()
    thread = threading.Thread(target=lambda: held.value)
    thread.start()
    begun.wait(WAIT_SECONDS)

    def child(answers):
        held.is_child = True
        answers.put(held.value)

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=child, args=(answers,))
    process.start()
    try:
        assert answers.get(timeout=WAIT_SECONDS) == 7
    finally:
        ended.set()
        thread.join()
        process.kill()
        process.join()


def test_a_cache_keeps_what_was_used_last():
    cache: BoundedCache[str, int] = BoundedCache(2)
    assert cache.put("a", 1) == []
    assert cache.put("b", 2) == []
    assert cache.get("a") == 1
    assert cache.put("c", 3) == [2]
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    cache.clear()
    assert len(cache) == 0


def test_a_cache_is_bounded_by_weight_and_age():
    now = [0.0]
    cache: BoundedCache[str, bytes] = BoundedCache(10, weigh=len, ttl_seconds=5, timer=lambda: now[0])
    cache.put("a", b"1234")
    cache.put("b", b"12345")
    assert cache.put("large", b"12345678901") == []
    assert cache.get("large") is None
    assert cache.put("c", b"123") == [b"1234"]
    now[0] = 4.9
    assert cache.get("c") == b"123"
    now[0] = 5.0
    assert cache.get("c") is None


def test_an_interrupt_at_any_step_leaves_a_cache_usable():
    """An exception is raised before every line in turn, as a signal handler may do it."""
    step = 0
    while True:
        cache: BoundedCache[int, int] = BoundedCache(3, weigh=lambda value: 1)
        step += 1
        if step != interrupted_at(
            step, lambda cache=cache: [(cache.put(key, key), cache.get(key)) for key in range(6)]
        ):
            break
        for key in range(20, 30):
            cache.put(key, key)
            assert cache.get(key) == key
        assert len(cache) == 3
    assert step > 20


def test_an_interrupt_at_any_step_leaves_the_caches_of_a_log_usable():
    step = 0
    while True:
        cache = LogCache(60.0, lambda: 0.0, enabled=True)
        step += 1

        def use(cache=cache):
            for key in range(20):
                cache.metadata.put(key, f"value {key}")
                cache.metadata.get(key)

        if step != interrupted_at(step, use):
            break
        for key in range(40):
            cache.metadata.put(key, f"value {key}")
            assert cache.metadata.get(key) == f"value {key}"
        cache.clear()
        assert cache.metadata.get(0) is None
    assert step > 60


def test_file_lists_of_many_tables_are_read_side_by_side():
    meeting = threading.Barrier(NUM_THREADS)

    class MeetingSource:
        def tables(self, keep=None, columns=None):
            meeting.wait(WAIT_SECONDS)
            yield FILES_SCHEMA.empty_table()

    files = [LiveFiles(MeetingSource()) for _ in range(NUM_THREADS)]
    tables = _side_by_side([lambda one=one: one.table for one in files])
    assert [table.num_rows for table in tables] == [0] * NUM_THREADS
    assert pickle.loads(pickle.dumps(files[0])).table.num_rows == 0


class CountingStore(MeteredStore):
    """Lets reads of fine filters go on once so many are in flight."""

    is_remote = True

    def __init__(self, inner, fine_filters: dict[str, tuple[int, int]]) -> None:
        super().__init__(inner)
        self._fine_filters = fine_filters
        self._meeting = threading.Barrier(len(fine_filters))
        self.most_in_flight = 0

    def get_ranges(self, key, ranges):
        if self._fine_filters.get(key) in list(ranges):
            self._meeting.wait(WAIT_SECONDS)
            self.most_in_flight = self._meeting.parties
        return super().get_ranges(key, ranges)


def test_fine_filters_of_many_splits_are_read_side_by_side(tmp_path):
    url, texts = str(tmp_path / "t"), random.Random(5)
    table = it.Table.create(url, SCHEMA, indexing={"message": "text"})
    for number in range(NUM_THREADS):
        messages = [f"common {texts.randbytes(40).hex()}" for _ in range(2000)]
        table.append(pa.table({"id": range(2000), "message": messages, "day": [str(number)] * 2000}, schema=SCHEMA))
    plain = open_store(url, Config.resolve())
    fine_filters = {}
    for path in table.files()["path"].to_pylist():
        member = SplitFile.open(plain, path).directory.fine_filter
        fine_filters[path] = (member.offset, member.end)
    store = CountingStore(plain, fine_filters)
    log = it.TransactionLog(url, store=store, options={"cache.disk.path": str(tmp_path / "cache")})
    assert it.Table(log, log.snapshot()).count("common") == NUM_THREADS * 2000
    assert store.most_in_flight == NUM_THREADS


def test_threads_search_one_new_handle_of_a_wide_table(tmp_path):
    names = [f"c{number}" for number in range(300)]
    schema = pa.schema([(name, pa.int64()) for name in names])
    url = str(tmp_path / "t")
    it.Table.create(url, schema).append(pa.table({name: range(10) for name in names}, schema=schema))
    switch_seconds = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(10):
            table, start = it.Table.open(url), threading.Barrier(NUM_THREADS)

            def search(number, table=table, start=start):
                start.wait(WAIT_SECONDS)
                return table.search(columns=[names[-1 - number]], where="c0 = 7")[0].to_pylist()

            assert _side_by_side([lambda n=n: search(n) for n in range(NUM_THREADS)]) == [[7]] * NUM_THREADS
    finally:
        sys.setswitchinterval(switch_seconds)


def test_a_handle_never_goes_back_behind_what_another_thread_has_written(tmp_path):
    table = it.Table.create(str(tmp_path / "t"), SCHEMA)
    rows = pa.table({"id": [1], "message": ["a"], "day": ["b"]}, schema=SCHEMA)
    log, appended = table.log, threading.Event()
    snapshot = log.snapshot

    def slow_snapshot():
        """The snapshot; the first thread that has it is overtaken."""
        found = snapshot()
        if threading.current_thread() is late:
            overtaken.set()
            appended.wait(WAIT_SECONDS)
        return found

    overtaken = threading.Event()
    late = threading.Thread(target=table.refresh)
    log.snapshot = slow_snapshot
    late.start()
    overtaken.wait(WAIT_SECONDS)
    version = table.append(rows)
    appended.set()
    late.join()
    assert table.version == version
    assert table.count() == 1


def test_nothing_uses_the_property_that_locks_a_class():
    source = Path(it.__file__).parent
    users = [path.name for path in source.rglob("*.py") if "@functools.cached_property" in path.read_text()]
    assert users == []
