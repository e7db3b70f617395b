"""How many indexes stay open: by mappings, descriptors, threads and address space, and fewer once one was refused."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import textwrap
import weakref

import pyarrow as pa
import pytest

import indextables as it
from indextables.runtime.caching import BoundedCache
from indextables.split.search import open_indexes

NUM_SPLITS = 40
SCHEMA = pa.schema([("part", pa.int32()), ("message", pa.string())])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("open")
    options = {"cache.disk.path": str(place / "cache")}
    table = it.Table.create(place / "t", SCHEMA, partition_by=["part"], indexing={"message": "text"}, options=options)
    rows = [{"part": part, "message": f"common word{part}"} for part in range(NUM_SPLITS) for _ in range(3)]
    table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    assert table.num_files == NUM_SPLITS
    assert table.count("common") == NUM_SPLITS * 3
    return place


def run(place, before: str, after: str = "") -> dict:
    """Ask in a new process, where `before` has run; `after` may fill `found`."""
    program = f"""
        import json, os, resource, sys
        import indextables as it
        from indextables.split.search import open_indexes
        {{before}}
        found = {{{{}}}}
        table = it.Table.open(sys.argv[1] + "/t", options={{{{"cache.disk.path": sys.argv[1] + "/cache"}}}})
        for _ in range(2):
            assert table.count("common") == {NUM_SPLITS * 3}
            assert table.count("word7") == 3
            assert table.search("word8 OR word9", score=True).num_rows == 6
        found["open"] = sum(searcher.is_open for searcher in table._opened._known.values())
        found["most"] = open_indexes._open_indexes.max_weight
        {{after}}
        print(json.dumps(found))
    """
    lines = textwrap.dedent(program).format(before=before, after=after)
    ran = subprocess.run(
        [sys.executable, "-c", lines, str(place)], check=False, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_all_stay_open_by_default(place) -> None:
    assert run(place, "")["open"] == NUM_SPLITS


def test_descriptors_limit_them(place) -> None:
    found = run(place, "resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))")
    assert 0 < found["open"] <= 120 // 8 + 2  # threads may just let go of some


def test_mappings_limit_them(place) -> None:
    found = run(place, "open_indexes._most_mappings = lambda: 300")
    assert 0 < found["open"] <= 100 // 9 + 2


def test_threads_limit_them(place) -> None:
    found = run(place, "open_indexes._num_threads = lambda: 40")
    assert 0 < found["open"] <= 12


_MEASURE = (
    "warm = it.Table.open(sys.argv[1] + '/t', options={'cache.disk.path': sys.argv[1] + '/cache'}); "
    "warm.count('common'); warm.flush_search_cache(); "
    "size = [int(line.split()[1]) << 10 for line in open('/proc/self/status') if line.startswith('VmSize')][0]; "
)


def test_address_space_limits_them(place) -> None:
    """As Spark limits the memory of its workers."""
    limit = "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))"
    assert run(place, limit)["open"] == NUM_SPLITS
    found = run(place, f"open_indexes._BYTES_PER_INDEX = 100 << 20; {limit}")
    assert 0 < found["open"] <= 12


def test_with_little_address_space_left_every_answer_is_right(place) -> None:
    """The engine's threads and mappings would take more than is left."""
    limit = "resource.setrlimit(resource.RLIMIT_AS, (size + (60 << 20), size + (60 << 20)))"
    hidden = "open_indexes._shares = lambda *limits: open_indexes._Limits(10**6, 10**6, 10**6, None)"
    assert run(place, f"{_MEASURE}{hidden}; {limit}")["open"]


def test_a_refused_index_means_fewer_open(place, monkeypatch) -> None:
    """A machine that lets ten be open at once."""
    table = it.Table.open(place / "t", options={"cache.disk.path": str(place / "cache")})
    monkeypatch.setattr(
        open_indexes, "_open_indexes", BoundedCache(open_indexes._WHOLE, weigh=lambda kept: kept.weight)
    )
    monkeypatch.setattr(open_indexes, "_PAUSES", (0.01, 0.01, 0.01))
    living: weakref.WeakSet = weakref.WeakSet()
    open_one = open_indexes.open_index

    class Counted:
        def __init__(self, index) -> None:
            self._searcher = index.searcher()

        def searcher(self):
            return self

        def __getattr__(self, name):
            return getattr(self._searcher, name)

    def open_index(directory, fields):
        if len(living) >= 10:
            raise OSError(errno.ENOMEM, "no room for one more")
        counted = Counted(open_one(directory, fields))
        living.add(counted)
        return counted

    monkeypatch.setattr(open_indexes, "open_index", open_index)
    for _ in range(3):
        assert table.count("common OR word3") == NUM_SPLITS * 3
    assert open_indexes._open_indexes.max_weight < open_indexes._WHOLE
    assert 0 < sum(searcher.is_open for searcher in table._opened._known.values()) <= 10


def test_weights_are_shares_of_the_scarcest() -> None:
    shares = open_indexes._shares
    assert shares(1024, None, -1, 65_530) == (512, 1_000_000, 20_000, None)
    assert shares(80, 400, 1 << 30, 3_000) == (10, 100, 1_000, 1 << 28)
    assert shares(-1, None, -1, 65_530).descriptors == 1_000_000
