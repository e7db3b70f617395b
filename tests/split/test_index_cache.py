"""Extracted indexes: shared, bounded, whole or not there, and never in the way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import threading
import time

import pytest
import tantivy

from indextables.config import Config
from indextables.errors import CorruptSplitError, StorageError
from indextables.split.index import index_cache
from indextables.split.index.index_cache import IndexCache

FILES = {"meta.json": b"{}", "a.term": b"terms" * 1_000}
NUM_BYTES = sum(map(len, FILES.values()))


def extract(into: str) -> None:
    for name, data in FILES.items():
        with open(os.path.join(into, name), "wb") as file:
            file.write(data)


def never(into: str) -> None:
    raise AssertionError("it was extracted again")


def cache_at(tmp_path, **options: str) -> IndexCache:
    return IndexCache(Config.resolve(options={"cache.disk.path": str(tmp_path / "cache"), **options}))


def entries(tmp_path) -> list:
    return sorted((tmp_path / "cache" / "indexes").iterdir())


def contents(directory: str) -> dict[str, bytes]:
    found = {}
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as file:
            found[name] = file.read()
    return found


def use(cache: IndexCache, identity: str, fill=extract) -> str:
    with cache.directory(identity, fill) as directory:
        assert contents(directory) == FILES
        return directory


def test_an_index_is_extracted_once_for_all(tmp_path) -> None:
    first = use(cache_at(tmp_path), "a")
    assert use(cache_at(tmp_path), "a", never) == first
    assert use(cache_at(tmp_path), "b") != first
    assert first.startswith(str(tmp_path))
    for path in (tmp_path / "cache" / "indexes", *entries(tmp_path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["cut", "flip", "missing", "link", "record", "record gone"])
def test_damage_is_noticed_and_mended(tmp_path, damage) -> None:
    path = os.path.join(use(cache_at(tmp_path), "a"), "a.term")
    record = os.path.join(os.path.dirname(os.path.dirname(path)), "record")
    if damage == "cut":
        os.truncate(path, 10)
    elif damage == "flip":
        with open(path, "r+b") as file:
            file.write(b"X")
    elif damage == "missing":
        os.unlink(path)
    elif damage == "link":
        os.rename(path, tmp_path / "elsewhere")
        os.symlink(tmp_path / "elsewhere", path)
    elif damage == "record":
        os.truncate(record, 20)
    else:
        os.unlink(record)
    use(cache_at(tmp_path), "a")
    use(cache_at(tmp_path), "b")
    use(cache_at(tmp_path), "a", never)


def flip_quietly(path: str, position: int) -> None:
    """Flip a bit of a file, and leave its size and times as they are."""
    facts = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << position % 8]))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def in_another_process(work, *given) -> None:
    process = multiprocessing.get_context("spawn").Process(target=work, args=given)
    process.start()
    process.join()
    assert process.exitcode == 0


def _use_whole(place, fill) -> None:
    use(cache_at(place), "a", fill)


@pytest.mark.parametrize("name", ["a.term", "meta.json"])
def test_a_flipped_bit_is_noticed_though_size_and_times_are_kept(tmp_path, name) -> None:
    directory = use(cache_at(tmp_path), "a")
    flip_quietly(os.path.join(directory, name), 1)
    in_another_process(_use_whole, tmp_path, extract)
    in_another_process(_use_whole, tmp_path, never)


def test_every_flipped_bit_of_a_record_does_no_harm(tmp_path) -> None:
    directory = use(cache_at(tmp_path), "a")
    record = os.path.join(os.path.dirname(directory), "record")
    for position in range(os.path.getsize(record)):
        flip_quietly(record, position)
        index_cache._verified.clear()
        use(cache_at(tmp_path), "a")


def test_a_process_compares_checksums_once(tmp_path, monkeypatch) -> None:
    directory = use(cache_at(tmp_path), "a")
    index_cache._verified.clear()
    compared = []
    whole = index_cache._checksum
    monkeypatch.setattr(index_cache, "_checksum", lambda path: compared.append(path) or whole(path))
    for _ in range(3):
        use(cache_at(tmp_path), "a", never)
    assert len(compared) == len(FILES)
    flip_quietly(os.path.join(directory, "a.term"), 7)
    use(cache_at(tmp_path), "a")
    assert len(compared) > len(FILES)


def test_the_size_is_bounded_and_what_was_used_longest_ago_goes(tmp_path) -> None:
    cache = cache_at(tmp_path, **{"cache.disk.maxSize": str(NUM_BYTES * 3)})
    for number, identity in enumerate("abc"):
        record = os.path.join(os.path.dirname(use(cache, identity)), "record")
        os.utime(record, (number, number))
    use(cache, "a", never)
    use(cache, "d")
    assert len(entries(tmp_path)) == 3
    for identity in "acd":
        use(cache, identity, never)


def test_what_is_in_use_stays_and_goes_when_it_is_released(tmp_path) -> None:
    cache = cache_at(tmp_path, **{"cache.disk.maxSize": str(NUM_BYTES)})
    with cache.directory("a", extract) as first:
        with cache_at(tmp_path, **{"cache.disk.maxSize": str(NUM_BYTES)}).directory("b", extract) as second:
            assert contents(first) == contents(second) == FILES
            assert len(entries(tmp_path)) == 2
        assert contents(first) == FILES
        assert len(entries(tmp_path)) == 1
    use(cache, "a", never)


def test_an_index_larger_than_the_cache_is_not_kept(tmp_path) -> None:
    use(cache_at(tmp_path, **{"cache.disk.maxSize": "10"}), "a")
    assert entries(tmp_path) == []


@pytest.mark.parametrize("options", [{"cache.disk.enabled": "false"}, {"cache.disk.maxSize": "0"}])
def test_without_a_cache_an_index_is_extracted_for_one_use(tmp_path, options) -> None:
    cache = cache_at(tmp_path, **options)
    with cache.directory("a", extract) as directory:
        assert contents(directory) == FILES
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert not os.path.exists(directory)
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_others_may_write_is_not_used(tmp_path) -> None:
    (tmp_path / "cache" / "indexes").mkdir(parents=True)
    (tmp_path / "cache" / "indexes").chmod(0o777)
    directory = use(cache_at(tmp_path), "a")
    assert not directory.startswith(str(tmp_path))
    assert not os.path.exists(directory)
    assert entries(tmp_path) == []


@pytest.mark.parametrize("what", ["a file", "a link"])
def test_a_cache_that_cannot_be_is_not_used(tmp_path, what) -> None:
    (tmp_path / "cache").mkdir()
    if what == "a file":
        (tmp_path / "cache" / "indexes").write_text("")
    else:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "cache" / "indexes").symlink_to(tmp_path / "elsewhere")
    directory = use(cache_at(tmp_path), "a")
    assert not os.path.exists(directory)


@pytest.mark.parametrize("error", [CorruptSplitError("cannot"), StorageError("cannot"), KeyboardInterrupt()])
def test_an_index_that_cannot_be_extracted_leaves_nothing(tmp_path, error) -> None:
    def fail(into: str) -> None:
        extract(into)
        raise error

    with pytest.raises(type(error)), cache_at(tmp_path).directory("a", fail):
        pass
    assert entries(tmp_path) == []
    use(cache_at(tmp_path), "a")


def test_threads_extract_an_index_once(tmp_path) -> None:
    cache = cache_at(tmp_path)
    count = []

    def slowly(into: str) -> None:
        count.append(into)
        time.sleep(0.05)
        extract(into)

    threads = [threading.Thread(target=use, args=(cache, "a", slowly)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(count) == 1


def _hammer(root, seed: int, faults) -> None:
    cache = cache_at(root, **{"cache.disk.maxSize": str(NUM_BYTES * 2)})
    for turn in range(60):
        try:
            use(cache, str((turn * seed) % 5))
        except BaseException as error:
            faults.put(repr(error))


@pytest.mark.slow
def test_processes_share_a_small_cache(tmp_path) -> None:
    context = multiprocessing.get_context("spawn")
    faults = context.Queue()
    workers = [context.Process(target=_hammer, args=(tmp_path, seed, faults)) for seed in (1, 2, 3, 4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert faults.empty()
    assert not [path for path in entries(tmp_path) if path.name.endswith(".tmp")]


def _stall(root, pipe) -> None:
    def half(into: str) -> None:
        with open(os.path.join(into, "a.term"), "wb") as file:
            file.write(b"te")
        pipe.send("half")
        time.sleep(60)

    with cache_at(root).directory("a", half):
        pass


def test_a_process_that_dies_leaves_nothing_that_is_taken_for_whole(tmp_path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=_stall, args=(tmp_path, theirs))
    worker.start()
    assert ours.recv() == "half"
    (making,) = entries(tmp_path)
    os.utime(making, (0, 0))
    use(cache_at(tmp_path), "b")
    assert making.exists()  # its process lives
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    use(cache_at(tmp_path), "a")
    assert not making.exists()
    use(cache_at(tmp_path), "a", never)


def test_a_directory_left_without_a_record_goes(tmp_path) -> None:
    use(cache_at(tmp_path), "a")
    left = tmp_path / "cache" / "indexes" / "left.tmp"
    left.mkdir()
    os.utime(left, (0, 0))
    use(cache_at(tmp_path), "b")
    assert not left.exists()


def test_a_search_changes_nothing_that_is_compared(tmp_path) -> None:
    def build(into: str) -> None:
        schema = tantivy.SchemaBuilder().add_text_field("f0").build()
        index = tantivy.Index(schema, path=into)
        writer = index.writer(15_000_000, 1)
        document = tantivy.Document()
        document.add_text("f0", "some words")
        writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()

    for fill in (build, never):
        with cache_at(tmp_path).directory("a", fill) as directory:
            index = tantivy.Index.open(directory)
            assert index.searcher().search(index.parse_query("words", ["f0"]), 10).count == 1


def make_sparse(tmp_path, name: str, *, size: int, filled: int, used: int) -> object:
    """Make an entry of the other kind by hand."""
    entry = tmp_path / "cache" / "partial-indexes" / name
    (entry / "files").mkdir(parents=True)
    for path in (entry.parent, entry):
        path.chmod(0o700)
    with open(entry / "files" / "a.idx", "wb") as file:
        os.ftruncate(file.fileno(), size)
        file.write(b"x" * filled)
    (entry / "record").write_bytes(b"")
    os.utime(entry / "record", (used, used))
    return entry


def test_all_kinds_of_entries_share_the_limit_and_holes_take_no_room(tmp_path) -> None:
    old = make_sparse(tmp_path, "old", size=64 << 20, filled=100 << 10, used=1)
    new = make_sparse(tmp_path, "new", size=64 << 20, filled=100 << 10, used=2)
    room = {"cache.disk.maxSize": str(220 << 10)}
    use(cache_at(tmp_path, **room), "a")
    assert old.exists()
    assert new.exists()
    make_sparse(tmp_path, "newest", size=64 << 20, filled=100 << 10, used=3)
    use(cache_at(tmp_path, **room), "b")
    assert not old.exists()
    assert new.exists()
    assert len(entries(tmp_path)) == 2


def test_entries_in_a_directory_that_others_may_write_stay(tmp_path) -> None:
    old = make_sparse(tmp_path, "old", size=64 << 20, filled=100 << 10, used=1)
    old.parent.chmod(0o777)
    use(cache_at(tmp_path, **{"cache.disk.maxSize": "10K"}), "a")
    assert old.exists()
