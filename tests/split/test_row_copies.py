"""Decoded copies of splits: the same rows as by pages, whole or not there, shared, bounded."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import random
import resource
import signal
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.split.split_examples import every_type, open_split, small_table, write_split

from indextables.config import Config
from indextables.errors import CorruptSplitError, SchemaError
from indextables.runtime.cancellation import Cancellation
from indextables.split.index.index_cache import IndexCache
from indextables.split.rows import copy_files, row_copies, row_reader
from indextables.split.rows.copy_files import FULL, copy_name
from indextables.split.rows.row_copies import RowCopies, take_pieces
from indextables.split.search.split_rows import SplitRows, wait_for_copies
from indextables.split.split_file import SplitFile

IDENTITY = "memory://table/a.split:1:id"


def config_at(place, **options: str) -> Config:
    return Config.resolve(options={"cache.disk.path": str(place / "cache"), **options})


def rows_of(split: SplitFile, place, identity: str = IDENTITY, **options: str) -> SplitRows:
    config = config_at(place, **options)
    return SplitRows(split, identity, RowCopies(config), IndexCache(config).added)


def make(rows: SplitRows) -> None:
    rows.make_copy(Cancellation())


def files(place, ending: str = "") -> list[str]:
    root = place / "cache" / "rows"
    return sorted(entry.name for entry in root.iterdir() if entry.name.endswith(ending)) if root.exists() else []


def read(rows: SplitRows, numbers, columns) -> pa.Table:
    batches = list(rows.read(pa.array(numbers, pa.uint64()), columns))
    return pa.Table.from_batches(batches) if batches else None


def is_copied(rows: SplitRows, columns, numbers=(0,)) -> bool:
    return rows.pieces(pa.array(list(numbers), pa.uint64()), columns) is not None


@pytest.fixture
def small(tmp_path) -> SplitFile:
    return open_split(tmp_path / "t", write_split(str(tmp_path / "t"), small_table(3_000)))


def buffers_of(array: pa.Array) -> list[pa.Buffer]:
    found = [buffer for buffer in array.buffers() if buffer is not None]
    if isinstance(array, pa.ExtensionArray):
        return buffers_of(array.storage)
    if pa.types.is_dictionary(array.type):
        return [*found, *buffers_of(array.dictionary)]
    return found


def test_rows_of_every_type_are_the_same_and_none_refers_to_the_file(tmp_path, monkeypatch) -> None:
    table = pa.concat_tables([every_type()] * 700)
    split = open_split(tmp_path / "t", write_split(str(tmp_path / "t"), table))
    monkeypatch.setattr(row_reader, "_WAVE_BYTES", 20_000)  # several batches a copy
    rows = rows_of(split, tmp_path)
    make(rows)
    kept = [name for name in table.column_names if is_copied(rows, [name])]
    assert set(table.column_names) - set(kept) == {"views"}
    (copy,) = {piece.copy for piece in rows.pieces(pa.array([0], pa.uint64()), ["string"])}
    assert len(copy._batches) >= 2
    mapped = [
        (buffer.address, buffer.address + buffer.size)
        for batch in copy._batches
        for column in batch.columns
        for buffer in buffers_of(column)
        if buffer.size
    ]
    low, high = min(start for start, _ in mapped), max(end for _, end in mapped)
    assert high - low < 1 << 26
    numbers = sorted(random.Random(1).sample(range(table.num_rows), 500))
    for name in table.column_names:
        expected = pa.Table.from_batches(split.rows(pa.array(numbers, pa.uint64()), [name]))
        pieces = rows.pieces(pa.array(numbers, pa.uint64()), [name])
        answers = [read(rows, numbers, [name])] + ([take_pieces(pieces, [name])] if pieces else [])
        for found in answers:
            assert found.schema.equals(expected.schema, check_metadata=True)
            found.validate(full=True)
            # NaN is not equal to itself.
            assert repr(found.to_pylist()) == repr(expected.to_pylist())
            for chunk in found.column(0).chunks:
                assert not [b for b in buffers_of(chunk) if b.size and low <= b.address < high], name


def test_any_choice_of_rows_and_columns_is_the_same(tmp_path, small, monkeypatch) -> None:
    monkeypatch.setattr(row_reader, "_WAVE_BYTES", 5_000)
    rows = rows_of(small, tmp_path)
    make(rows)
    rng = random.Random(2)
    for _ in range(100):
        numbers = sorted(rng.sample(range(3_000), rng.choice([1, 2, 10, 500, 3_000])))
        if rng.random() < 0.2:
            rng.shuffle(numbers)
        columns = rng.choice([["number"], ["text"], ["text", "number"]])
        assert read(rows, numbers, columns).equals(small_table(3_000).select(columns).take(numbers))
    assert read(rows, [], ["number"]) is None
    assert pa.Table.from_batches(rows.read(None, ["number"])).equals(small_table(3_000).select(["number"]))


def test_rows_that_are_not_there_are_refused_as_by_pages(tmp_path, small) -> None:
    rows = rows_of(small, tmp_path)
    make(rows)
    with pytest.raises(CorruptSplitError, match="row `3000` is requested"):
        read(rows, [1, 3_000], ["number"])
    with pytest.raises(SchemaError, match="column `other`"):
        read(rows, [1], ["other"])


def test_a_copy_is_made_once_it_pays_by_the_reads_of_all_processes(tmp_path, small) -> None:
    for count in range(4):
        read(rows_of(small, tmp_path), range(0, 3_000, 7), ["number", "text"])  # each like a process of its own
        assert wait_for_copies(30)
        assert files(tmp_path, ".rows") == [], count
        assert len(files(tmp_path, ".spent")) == 1
    assert os.path.getsize(tmp_path / "cache" / "rows" / files(tmp_path, ".spent")[0]) == FULL
    read(rows_of(small, tmp_path), [1], ["number"])
    assert wait_for_copies(30)
    assert files(tmp_path) == [f"{copy_name(IDENTITY)}.note", f"{copy_name(IDENTITY)}.rows"]
    assert is_copied(rows_of(small, tmp_path), ["number"])


def test_few_rows_of_a_large_split_count_little(tmp_path) -> None:
    split = open_split(tmp_path / "t", write_split(str(tmp_path / "t"), small_table(200_000)))
    few, many = split.share_of_decoding(1, ["number"]), split.share_of_decoding(100_000, ["number", "text"])
    assert few < 0.2 < 0.9 < many <= 1.0


def test_pages_alone_are_read_if_asked_for(tmp_path, small) -> None:
    make(rows_of(small, tmp_path))
    rows = rows_of(small, tmp_path, **{"search.rows": "pages"})
    assert not is_copied(rows, ["number"])
    for _ in range(8):
        assert read(rows, [5], ["number"]).to_pylist() == [{"number": 5}]
    assert files(tmp_path, ".spent") == []
    off = rows_of(small, tmp_path, **{"cache.disk.enabled": "false"})
    assert read(off, [5], ["number"]).to_pylist() == [{"number": 5}]
    assert not is_copied(off, ["number"])


def flip(path: str, position: int, *, quietly: bool) -> None:
    facts = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << position % 8]))
    if quietly:
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@pytest.mark.parametrize("is_open", [True, False])
def test_a_flipped_bit_gives_no_wrong_row(tmp_path, is_open) -> None:
    table = small_table(40)
    split = open_split(tmp_path / "t", write_split(str(tmp_path / "t"), table))
    path = tmp_path / "cache" / "rows" / f"{copy_name(IDENTITY)}.rows"
    rng = random.Random(3)
    rows = rows_of(split, tmp_path)
    for count in range(60):
        if not path.exists():
            make(rows)
        assert is_copied(rows, ["number"])
        time.sleep(0.01)  # times of files are coarse
        flip(str(path), rng.randrange(path.stat().st_size), quietly=count % 2 == 0)
        if not is_open:
            row_copies._mapped.clear()
        assert read(rows, range(40), ["number", "text"]).equals(table)
        assert not path.exists()


@pytest.mark.parametrize("damage", ["cut", "longer", "empty", "link", "directory", "other", "note", "no note", "gone"])
def test_damage_is_dropped_and_pages_are_read(tmp_path, small, damage) -> None:
    rows = rows_of(small, tmp_path)
    make(rows)
    root = tmp_path / "cache" / "rows"
    path, note = root / f"{copy_name(IDENTITY)}.rows", root / f"{copy_name(IDENTITY)}.note"
    data = path.read_bytes()
    row_copies._mapped.clear()
    if damage in ("cut", "longer", "empty"):
        path.write_bytes({"cut": data[:-100], "longer": data + b"x", "empty": b""}[damage])
    elif damage == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif damage == "directory":
        path.unlink()
        path.mkdir()
    elif damage == "other":
        make(rows_of(small, tmp_path, "another"))
        (root / f"{copy_name('another')}.rows").rename(path)
    elif damage == "note":
        note.write_bytes(b"\xff\xfe 1 2 3")
    elif damage == "no note":
        note.unlink()
    else:
        path.unlink()
    assert read(rows, [7, 9], ["number", "text"]).equals(small_table(3_000).take([7, 9]))
    assert is_copied(rows, ["number"]) == (damage in ("note", "no note"))


def test_a_copy_is_compared_once_a_boot(tmp_path, small, monkeypatch) -> None:
    make(rows_of(small, tmp_path))
    compared = []
    whole = copy_files._is_whole
    monkeypatch.setattr(copy_files, "_is_whole", lambda *given: compared.append(1) or whole(*given))
    for boot, times in (("one", 1), ("one", 1), ("two", 2), ("two", 2)):
        monkeypatch.setattr(copy_files, "_boot", lambda boot=boot: boot)
        row_copies._mapped.clear()
        assert is_copied(rows_of(small, tmp_path), ["number"])
        assert len(compared) == times


def test_a_removed_copy_stays_readable_where_it_is_mapped(tmp_path, small) -> None:
    row_copies._mapped.clear()
    rows = rows_of(small, tmp_path)
    make(rows)
    pieces = rows.pieces(pa.array([4, 8], pa.uint64()), ["number", "text"])
    assert RowCopies(config_at(tmp_path)).files.clear() == 1
    assert files(tmp_path) == []
    assert take_pieces(pieces, ["number", "text"]).equals(small_table(3_000).take([4, 8]))
    assert not is_copied(rows, ["number"])
    assert not row_copies._mapped.values()


def test_copies_take_a_share_of_the_cache_and_go_first(tmp_path, small) -> None:
    make(rows_of(small, tmp_path, "probe"))
    size = (tmp_path / "cache" / "rows" / f"{copy_name('probe')}.rows").stat().st_size
    RowCopies(config_at(tmp_path)).files.clear()
    limit = {"cache.disk.maxSize": str(int(size * 3.5 / 0.3))}
    for number in range(5):
        make(rows_of(small, tmp_path, f"split {number}", **limit))
        time.sleep(0.01)
    assert files(tmp_path, ".rows") == sorted(f"{copy_name(f'split {number}')}.rows" for number in (2, 3, 4))
    cache = IndexCache(config_at(tmp_path, **limit))

    def extract(into: str) -> None:
        with open(os.path.join(into, "a"), "wb") as file:
            file.write(bytes(int(size * 3.5 / 0.3) - size - size // 2))

    with cache.directory("index", extract):
        assert files(tmp_path, ".rows") == [f"{copy_name('split 4')}.rows"]
    assert cache.holds("index")


def test_use_decides_which_copy_goes(tmp_path, small) -> None:
    for number in range(3):
        make(rows_of(small, tmp_path, f"split {number}"))
    root = tmp_path / "cache" / "rows"
    for path in root.iterdir():
        os.utime(path, ns=(1, 1))
    row_copies._mapped.clear()
    assert is_copied(rows_of(small, tmp_path, "split 1"), ["number"])
    store = RowCopies(config_at(tmp_path)).files
    assert store.shrink(store.num_bytes() // 2) > 0
    assert files(tmp_path, ".rows") == [f"{copy_name('split 1')}.rows"]


def test_a_split_that_is_too_large_gets_no_copy(tmp_path, small) -> None:
    rows = rows_of(small, tmp_path, **{"cache.disk.maxSize": "20k"})
    make(rows)
    assert files(tmp_path) == []
    assert read(rows, [3], ["number"]).to_pylist() == [{"number": 3}]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_full_disk_gives_no_copy_and_every_answer(tmp_path, small, monkeypatch, number) -> None:
    def full(path: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(copy_files, "_seal", full)
    rows = rows_of(small, tmp_path)
    for _ in range(6):
        assert read(rows, [3], ["number"]).to_pylist() == [{"number": 3}]
        assert wait_for_copies(30)
    make(rows)
    assert files(tmp_path, ".rows") == files(tmp_path, ".tmp") == []


def test_a_directory_of_others_is_not_used(tmp_path, small) -> None:
    root = tmp_path / "cache" / "rows"
    root.mkdir(parents=True, mode=0o777)
    root.chmod(0o777)
    rows = rows_of(small, tmp_path)
    for _ in range(8):
        assert read(rows, [3], ["number", "text"]).num_rows == 1
    assert wait_for_copies(30)
    assert files(tmp_path) == []


def _make_slowly(place, started) -> None:
    split = open_split(place / "t", _finished(place))
    whole = SplitFile.rows

    def rows(self, *given):
        for batch in whole(self, *given):
            yield batch
            started.set()
            time.sleep(60)

    SplitFile.rows = rows
    make(rows_of(split, place))


def _finished(place):
    return pickle.loads((place / "finished").read_bytes())


def _keep(place, finished) -> None:
    (place / "finished").write_bytes(pickle.dumps(finished))


def test_a_maker_that_is_killed_leaves_no_copy_and_its_file_goes(tmp_path) -> None:
    finished = write_split(str(tmp_path / "t"), small_table(3_000))
    _keep(tmp_path, finished)
    spawn = multiprocessing.get_context("spawn")
    started = spawn.Event()
    maker = spawn.Process(target=_make_slowly, args=(tmp_path, started))
    maker.start()
    assert started.wait(60)
    assert len(files(tmp_path, ".tmp")) == 1
    rows = rows_of(open_split(tmp_path / "t", finished), tmp_path)
    make(rows)
    assert files(tmp_path, ".rows") == []  # another process makes it
    os.kill(maker.pid, signal.SIGKILL)
    maker.join()
    assert read(rows, [3], ["number"]).to_pylist() == [{"number": 3}]
    make(rows)
    assert is_copied(rows, ["number"])
    (left,) = files(tmp_path, ".tmp")
    os.utime(tmp_path / "cache" / "rows" / left, ns=(1, 1))
    RowCopies(config_at(tmp_path)).files.shrink()
    assert files(tmp_path, ".tmp") == []
    assert is_copied(rows, ["number"])


def _make_and_read(place) -> None:
    rows = rows_of(open_split(place / "t", _finished(place)), place)
    for _ in range(8):
        make(rows)
        assert read(rows, [3, 2_999], ["number", "text"]).equals(small_table(3_000).take([3, 2_999]))
        RowCopies(config_at(place)).files.clear()


def test_makers_and_removers_at_once_do_no_harm(tmp_path) -> None:
    _keep(tmp_path, write_split(str(tmp_path / "t"), small_table(3_000)))
    spawn = multiprocessing.get_context("spawn")
    makers = [spawn.Process(target=_make_and_read, args=(tmp_path,)) for _ in range(2)]
    for maker in makers:
        maker.start()
    problems = []

    def in_thread() -> None:
        try:
            _make_and_read(tmp_path)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for maker in makers:
        maker.join()
    assert [maker.exitcode for maker in makers] == [0, 0]
    assert problems == []
    assert files(tmp_path, ".tmp") == []


def _read_without_room(place) -> None:
    rows = rows_of(open_split(place / "t", _finished(place)), place)
    expected = list(rows.by_pages(pa.array([5], pa.uint64()), ["text"]))
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + (8 << 20), resource.RLIM_INFINITY))
    assert not is_copied(rows, ["text"])
    assert list(rows.read(pa.array([5], pa.uint64()), ["text"])) == expected
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert is_copied(rows, ["text"])


def test_without_address_space_pages_are_read(tmp_path) -> None:
    table = pa.table({"text": [f"{number:0500}" for number in range(40_000)]})
    finished = write_split(str(tmp_path / "t"), table)
    _keep(tmp_path, finished)
    make(rows_of(open_split(tmp_path / "t", finished), tmp_path))
    process = multiprocessing.get_context("spawn").Process(target=_read_without_room, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 0


def test_reading_from_copies_takes_no_more_and_more_memory(tmp_path, small) -> None:
    rows = rows_of(small, tmp_path)
    make(rows)
    numbers = pa.array(range(0, 3_000, 3), pa.uint64())

    def read_often() -> int:
        for _ in range(300):
            assert sum(batch.num_rows for batch in rows.read(numbers, ["number", "text"])) == 1_000
        return pa.total_allocated_bytes()

    assert read_often() == read_often()
    num_maps = len(Path("/proc/self/maps").read_text().splitlines())
    for _ in range(50):
        row_copies._mapped.clear()
        assert is_copied(rows, ["number"])
    assert len(Path("/proc/self/maps").read_text().splitlines()) <= num_maps + 5
