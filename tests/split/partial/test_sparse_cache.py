"""Partly fetched indexes on local disk: what is there is right, whoever fills it, dies or damages it."""

from __future__ import annotations

import contextlib
import errno
import mmap
import multiprocessing
import os
import random
import resource
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from tests.split.partial.stored_pieces import StoredPieces, opened, sparse_cache

from indextables.errors import StorageError
from indextables.split.index.cache_entries import PARTIAL
from indextables.split.partial import sparse_cache as module
from indextables.split.partial.sparse_cache import NotKeptError, SparseEntry

_SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def _as_a_new_process():
    module._known.clear()
    module.file_system.cache_clear()
    yield
    module.file_system.cache_clear()


def entries(place: Path) -> list[Path]:
    return sorted((place / PARTIAL).iterdir())


def test_pieces_are_there_for_all_and_the_rest_is_holes(tmp_path) -> None:
    stored = StoredPieces()
    entry = opened(tmp_path, stored)
    every = range(stored.num_pieces)
    assert entry.missing(every) == list(every)
    assert not entry.is_complete
    stored.fill(entry, [3, 1])
    assert entry.missing([1, 2, 3, 2]) == [2]
    other = opened(tmp_path, stored)
    assert other.directory == entry.directory
    assert other.missing(every) == [piece for piece in every if piece not in (1, 3)]
    stored.fill(other, every)
    assert entry.is_complete
    stored.check(entry, every)
    for name, data in stored.members.items():
        assert (Path(entry.directory) / name).read_bytes() == data
    (path,) = entries(tmp_path)
    for private in (path.parent, path, path / "files"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert entry.read(0, 5, 9) == stored.members["0.idx"][5:9]


def test_what_was_not_filled_takes_no_room(tmp_path) -> None:
    stored = StoredPieces(most_bytes=8 << 20)
    entry = opened(tmp_path, stored)
    stored.fill(entry, stored.table.tails)
    names = os.listdir(entry.directory)
    facts = [os.stat(os.path.join(entry.directory, name)) for name in names]
    assert sum(fact.st_size for fact in facts) == stored.table.raw_bytes
    filled = sum(stored.table.raw_length[piece] + 16_384 for piece in stored.table.tails)
    assert sum(fact.st_blocks for fact in facts) * 512 <= filled


@pytest.mark.parametrize("wrong", ["other bytes", "too short", "of another piece"])
def test_other_bytes_are_refused(tmp_path, wrong) -> None:
    stored = StoredPieces()
    entry = opened(tmp_path, stored)
    raw = stored.raw(0)
    given = {"other bytes": bytes([raw[0] ^ 1]) + raw[1:], "too short": raw[:-1], "of another piece": stored.raw(1)}
    with pytest.raises(ValueError, match="does not match"):
        entry.fill([(1, stored.raw(1)), (0, given[wrong])])
    assert entry.missing([0, 1]) == [0, 1]


# A plain model: handles here and in other processes fill one entry.


def _obey(pipe) -> None:
    """Do what is asked, in another process."""
    handles: dict[int, SparseEntry] = {}
    with contextlib.suppress(EOFError):
        while True:
            place, seed, *step = pipe.recv()
            pipe.send(_do(StoredPieces(seed), handles, place, *step))


@pytest.fixture(scope="module")
def others():
    """Pipes to two other processes."""
    workers = []
    for _ in range(2):
        ours, theirs = _SPAWN.Pipe()
        worker = _SPAWN.Process(target=_obey, args=(theirs,), daemon=True)
        worker.start()
        theirs.close()
        workers.append((worker, ours))
    yield [pipe for _, pipe in workers]
    for worker, pipe in workers:
        pipe.close()
        worker.join(10)


def _do(stored: StoredPieces, handles: dict[int, SparseEntry], place: str, what: str, number: int, pieces) -> object:
    if what == "close":
        handles.pop(number).close() if number in handles else None
        return None
    if number not in handles:
        handles[number] = opened(place, stored)
    entry = handles[number]
    if what == "fill":
        stored.fill(entry, pieces)
        return None
    missing = entry.missing(pieces)
    stored.check(entry, set(pieces) - set(missing))
    return missing


@pytest.mark.parametrize("seed", range(8))
def test_handles_of_several_processes_agree_with_a_set(tmp_path, others, seed) -> None:
    rng = random.Random(seed)
    stored = StoredPieces(seed)
    own: dict[int, SparseEntry] = {}
    filled: set[int] = set()
    for _ in range(150):
        pieces = rng.sample(range(stored.num_pieces), rng.randrange(1, 6))
        step = (rng.choice(["fill", "missing", "missing", "close"]), rng.randrange(3), pieces)
        who = rng.randrange(3)
        if who == 2:
            answer = _do(stored, own, str(tmp_path), *step)
        else:
            others[who].send((str(tmp_path), seed, *step))
            answer = others[who].recv()
        if step[0] == "fill":
            filled |= set(pieces)
        elif step[0] == "missing":
            assert answer == sorted(set(pieces) - filled)
    for pipe in others:
        for number in range(3):
            pipe.send((str(tmp_path), seed, "close", number, []))
            pipe.recv()


def _fill_all(place: str, seed: int, faults) -> None:
    stored = StoredPieces(1)
    rng = random.Random(seed)
    try:
        for _ in range(20):
            entry = opened(place, stored)
            for piece in rng.sample(range(stored.num_pieces), stored.num_pieces):
                if entry.missing([piece]):
                    stored.fill(entry, [piece])
                stored.check(entry, [piece])
            entry.close()
            if rng.random() < 0.3:
                sparse_cache(place).clear()
    except BaseException as error:
        faults.put(repr(error))


def test_processes_fill_and_remove_an_entry_at_the_same_time(tmp_path) -> None:
    faults = _SPAWN.Queue()
    workers = [_SPAWN.Process(target=_fill_all, args=(str(tmp_path), seed, faults)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert faults.empty(), faults.get()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]


def _map_and_wait(pipe, directory: str, name: str) -> None:
    with open(os.path.join(directory, name), "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    pipe.send(bytes(mapped))
    while pipe.recv():
        pipe.send(bytes(mapped))


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_a_map_of_another_process_shows_what_is_filled(tmp_path, where) -> None:
    with contextlib.ExitStack() as held:
        place = tmp_path
        if where == "memory":
            if not os.path.isdir("/dev/shm"):
                pytest.skip("there is no tmpfs here")
            place = Path(held.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        stored = StoredPieces(num_members=1, most_bytes=200_000)
        entry = opened(place, stored)
        ours, theirs = _SPAWN.Pipe()
        worker = _SPAWN.Process(target=_map_and_wait, args=(theirs, entry.directory, "0.idx"))
        worker.start()
        assert set(ours.recv()) == {0}
        for piece in range(stored.num_pieces):
            stored.fill(entry, [piece])
            ours.send(True)
            start = stored.table.raw_start[piece]
            assert ours.recv()[start : start + stored.table.raw_length[piece]] == stored.raw(piece)
        ours.send(True)
        assert ours.recv() == stored.members["0.idx"]
        ours.send(False)
        worker.join()


# Death


def _die_in(pipe, place: str, where: str) -> None:
    def stop(*given: object) -> None:
        pipe.send("here")
        time.sleep(60)

    stored = StoredPieces(2)
    entry = opened(place, stored)
    stored.fill(entry, [0])
    if where == "between data and map":
        SparseEntry._mark = stop  # type: ignore[method-assign]
    elif where == "in the data":
        write = module._write_at
        module._write_at = lambda handle, data, offset: (write(handle, data[: len(data) // 2], offset), stop())  # type: ignore[assignment]
    elif where == "in the map":
        write = module._write_at
        module._write_at = (  # type: ignore[assignment]
            lambda handle, data, offset: (
                (write(handle, data[:1], offset), stop()) if set(bytes(data)) == {1} else write(handle, data, offset)
            )
        )
    stored.fill(entry, [1, 2, 3])


@pytest.mark.parametrize("where", ["between data and map", "in the data", "in the map"])
def test_a_killed_filler_leaves_only_pieces_that_are_whole(tmp_path, where) -> None:
    ours, theirs = _SPAWN.Pipe()
    worker = _SPAWN.Process(target=_die_in, args=(theirs, str(tmp_path), where))
    worker.start()
    assert ours.recv() == "here"
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    stored = StoredPieces(2)
    entry = opened(tmp_path, stored)
    assert entry.missing([0, 1, 2, 3]) == ([2, 3] if where == "in the map" else [1, 2, 3])
    stored.fill(entry, entry.missing(range(stored.num_pieces)))
    assert entry.is_complete
    stored.check(entry, range(stored.num_pieces))


def _die_while_making(pipe, place: str) -> None:
    def stop(*given: object) -> int:
        pipe.send("here")
        time.sleep(60)
        return 0

    module.make_hole = stop
    opened(place, StoredPieces(2))


def test_an_entry_that_was_never_finished_goes(tmp_path) -> None:
    ours, theirs = _SPAWN.Pipe()
    worker = _SPAWN.Process(target=_die_while_making, args=(theirs, str(tmp_path)))
    worker.start()
    assert ours.recv() == "here"
    (making,) = entries(tmp_path)
    os.utime(making, (0, 0))
    stored = StoredPieces(2)
    stored.fill(opened(tmp_path, stored), [0])
    assert making.exists()  # its process lives
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    stored.fill(opened(tmp_path, stored, "b"), [0])
    assert not making.exists()


# Damage


def overwrite(entry: SparseEntry, stored: StoredPieces, piece: int, data: bytes) -> None:
    """Change bytes of a piece; its file keeps size and times."""
    name, _ = stored.table.members[stored.table.member[piece]]
    path = os.path.join(entry.directory, name)
    facts = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(stored.table.raw_start[piece])
        file.write(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@pytest.mark.parametrize("damage", ["lost", "flipped"])
def test_a_map_without_its_data_costs_a_fetch_and_nothing_else(tmp_path, damage) -> None:
    """After a power cut, a map may be there and its data not."""
    stored = StoredPieces(3)
    entry = opened(tmp_path, stored)
    stored.fill(entry, [0, 1, 2])
    raw = stored.raw(1)
    overwrite(entry, stored, 1, bytes(len(raw)) if damage == "lost" else bytes([raw[0] ^ 4]))
    other = opened(tmp_path, stored)
    assert other.missing([0, 1, 2]) == [1]
    stored.fill(other, [1])
    stored.check(entry, [0, 1, 2])
    assert other.missing([0, 1, 2]) == []


def test_a_process_compares_a_piece_once_and_again_after_a_change(tmp_path, monkeypatch) -> None:
    stored = StoredPieces(3)
    entry = opened(tmp_path, stored)
    stored.fill(entry, [0, 1, 2])
    entry.close()
    compared: list[int] = []
    compare = SparseEntry._compare
    monkeypatch.setattr(SparseEntry, "_compare", lambda self, pieces: compared.extend(pieces) or compare(self, pieces))
    entry = opened(tmp_path, stored)
    assert entry.missing([0, 1, 2]) == []
    assert compared == []  # this process wrote them
    entry.close()
    module._known.clear()
    for _ in range(2):
        entry = opened(tmp_path, stored)
        assert entry.missing([0, 1]) == []
        entry.close()
    assert compared == [0, 1]
    overwrite(entry, stored, 0, bytes([stored.raw(0)[0] ^ 1]))
    assert opened(tmp_path, stored).missing([0, 1, 2]) == [0]


def test_every_changed_byte_of_a_map_does_no_harm(tmp_path) -> None:
    stored = StoredPieces(4, num_members=1)
    for position in range(module._HEAD_BYTES + stored.num_pieces):
        for flip in (0x01, 0xFF):
            entry = opened(tmp_path, stored)
            stored.fill(entry, entry.missing([0, 2]))
            entry.close()
            module._known.clear()
            (path,) = entries(tmp_path)
            data = bytearray((path / "record").read_bytes())
            data[position] ^= flip
            (path / "record").write_bytes(data)
            entry = opened(tmp_path, stored)
            there = set(range(stored.num_pieces)) - set(entry.missing(range(stored.num_pieces)))
            assert there <= {0, 2}
            stored.check(entry, there)
            entry.close()


@pytest.mark.parametrize("damage", ["cut", "longer", "missing", "link", "map cut", "map gone", "another table"])
def test_a_changed_entry_is_made_again(tmp_path, damage) -> None:
    stored = StoredPieces(5)
    entry = opened(tmp_path, stored)
    stored.fill(entry, range(stored.num_pieces))
    entry.close()
    file = Path(entry.directory) / "1.idx"
    record = Path(entry.directory).parent / "record"
    wanted = stored
    if damage == "cut":
        os.truncate(file, 10)
    elif damage == "longer":
        os.truncate(file, file.stat().st_size + 1)
    elif damage == "missing":
        file.unlink()
    elif damage == "link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    elif damage == "map cut":
        os.truncate(record, 30)
    elif damage == "map gone":
        record.unlink()
    else:
        wanted = StoredPieces(6)
    entry = opened(tmp_path, wanted)
    assert len(entry.missing(range(wanted.num_pieces))) == wanted.num_pieces
    wanted.fill(entry, range(wanted.num_pieces))
    wanted.check(entry, range(wanted.num_pieces))


def test_an_entry_that_was_replaced_takes_nothing_and_loses_nothing(tmp_path) -> None:
    stored = StoredPieces(7)
    old = opened(tmp_path, stored)
    stored.fill(old, [0])
    assert old.is_current
    with open(os.path.join(old.directory, "0.idx"), "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    before = bytes(mapped)
    os.truncate(os.path.join(old.directory, "1.idx"), 1)
    new = opened(tmp_path, stored)  # finds the damage
    assert not old.is_current
    assert new.is_current
    assert old.missing([0]) == []  # it is in the files that were opened
    for use in (lambda: stored.fill(old, [1]), lambda: old.read(0, 0, 1)):
        with pytest.raises(NotKeptError, match="replaced"):
            use()
    assert new.missing(range(stored.num_pieces)) == list(range(stored.num_pieces))
    stored.fill(new, [1])
    with pytest.raises(NotKeptError, match="replaced"):
        stored.fill(old, [1])
    assert bytes(mapped) == before
    new.close()
    old.close()
    assert opened(tmp_path, stored).missing([0, 1]) == [0]


def test_files_with_the_inodes_of_removed_ones_are_not_taken_for_them(tmp_path) -> None:
    stored = StoredPieces(7)
    entry = opened(tmp_path, stored)
    record = Path(entry.directory).parent / "record"
    copy = record.with_name("copy")
    copy.write_bytes(record.read_bytes())
    copy.rename(record)  # all other inodes are the same
    assert not entry.is_current
    with pytest.raises(NotKeptError, match="replaced"):
        stored.fill(entry, [0])


def test_one_replaced_file_is_noticed(tmp_path) -> None:
    stored = StoredPieces(7)
    entry = opened(tmp_path, stored)
    path = Path(entry.directory) / "0.idx"
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)
    assert not entry.is_current
    piece = next(piece for piece in range(stored.num_pieces) if stored.table.member[piece] == 0)
    with pytest.raises(NotKeptError):
        stored.fill(entry, [piece])


def test_a_removed_entry_takes_nothing(tmp_path) -> None:
    stored = StoredPieces(7)
    entry = opened(tmp_path, stored)
    subprocess.run(["rm", "-r", str(tmp_path / PARTIAL)], check=True)
    assert not entry.is_current
    with pytest.raises(NotKeptError):
        stored.fill(entry, [0])
    entry.close()
    entry.close()
    with pytest.raises(NotKeptError, match="closed"):
        stored.fill(entry, [0])


# Room


def test_the_least_recently_used_goes_and_what_is_open_stays(tmp_path) -> None:
    stored = StoredPieces(8, num_members=1, most_bytes=400_000)
    assert stored.table.raw_bytes > 100_000
    room = {"cache.disk.maxSize": str(int(stored.table.raw_bytes * 2.5))}
    held = opened(tmp_path, stored, "held", **room)
    stored.fill(held, range(stored.num_pieces))
    for number, identity in enumerate("ab"):
        entry = opened(tmp_path, stored, identity, **room)
        stored.fill(entry, range(stored.num_pieces))
        os.utime(Path(entry.directory).parent / "record", (number + 1, number + 1))
        entry.close()
    assert len(entries(tmp_path)) == 2
    cache = sparse_cache(tmp_path, **room)
    assert cache.holds("held")
    assert not cache.holds("a")
    assert cache.holds("b")
    stored.check(held, range(stored.num_pieces))
    assert held.is_current
    assert cache.clear() == 1
    held.close()
    assert cache.clear() == 1


def test_what_is_too_much_goes_when_it_is_closed(tmp_path) -> None:
    stored = StoredPieces(8)
    entry = opened(tmp_path, stored, **{"cache.disk.maxSize": "4096"})
    stored.fill(entry, range(stored.num_pieces))
    stored.check(entry, range(stored.num_pieces))
    entry.close()
    assert entries(tmp_path) == []


def test_without_a_cache_pieces_are_kept_for_one_use(tmp_path) -> None:
    stored = StoredPieces(8)
    first = opened(tmp_path / "cache", stored, **{"cache.disk.enabled": "false"})
    second = opened(tmp_path / "cache", stored, **{"cache.disk.enabled": "false"})
    stored.fill(first, [0, 1])
    assert first.missing([0, 1, 2]) == [2]
    assert second.missing([0, 1, 2]) == [0, 1, 2]
    assert first.is_current
    first.close()
    second.close()
    assert not os.path.exists(first.directory)
    assert not (tmp_path / "cache").exists()


# Machines that cannot


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "9p", "unknown"])
def test_an_unfit_file_system_keeps_no_pieces(tmp_path, monkeypatch, kind) -> None:
    stored = StoredPieces(9)
    mounts = tmp_path / "mounts"
    place = tmp_path / "a place" / "cache"
    lines = ["1 0 1:1 / / rw - ext4 /dev/x rw", f"2 1 0:5 / {tmp_path}/a\\040place rw shared:3 - {kind} host:/ rw"]
    mounts.write_text("\n".join(lines))
    monkeypatch.setattr(module, "_MOUNTS", str(mounts if kind != "unknown" else tmp_path / "none"))
    assert sparse_cache(place).open("a", stored.table) is None
    assert not place.exists()
    if kind != "unknown":
        assert sparse_cache(tmp_path / "a place near").open("a", stored.table) is not None


def test_a_file_system_without_holes_keeps_no_pieces(tmp_path, monkeypatch) -> None:
    def full(path: str, size: int) -> int:
        Path(path).write_bytes(bytes(size))
        return size

    monkeypatch.setattr(module, "make_hole", full)
    stored = StoredPieces(9, most_bytes=4 << 20)
    assert sparse_cache(tmp_path).open("a", stored.table) is None
    assert entries(tmp_path) == []


def test_a_cache_that_others_may_write_is_not_used(tmp_path) -> None:
    (tmp_path / PARTIAL).mkdir()
    (tmp_path / PARTIAL).chmod(0o777)
    assert sparse_cache(tmp_path).open("a", StoredPieces().table) is None
    assert entries(tmp_path) == []


def test_a_full_disk_keeps_what_it_has(tmp_path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    mounted = subprocess.run(mount, check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.decode().strip()}")
    try:
        stored = StoredPieces(10, num_members=1, most_bytes=4 << 20)
        entry = opened(place / "cache", stored)
        kept: list[int] = []

        def fill_all() -> None:
            for piece in range(stored.num_pieces):
                stored.fill(entry, [piece])
                kept.append(piece)

        with pytest.raises(NotKeptError, match="No space left"):
            fill_all()
        assert entry.missing(range(stored.num_pieces)) == [p for p in range(stored.num_pieces) if p not in kept]
        stored.check(entry, kept)
        (place / "rest").write_bytes(b"")
        with contextlib.suppress(OSError), open(place / "rest", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4_096))
        assert sparse_cache(place / "cache").open("b", stored.table) is None
        entry.close()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_a_disk_that_refuses_data_marks_nothing(tmp_path, monkeypatch, number) -> None:
    stored = StoredPieces(10)
    entry = opened(tmp_path, stored)

    def refuse(*given: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuse)
        with pytest.raises(NotKeptError):
            stored.fill(entry, [0])
        assert sparse_cache(tmp_path).open("b", stored.table) is None
    assert entry.missing([0]) == [0]
    stored.fill(entry, [0])


def test_too_few_descriptors_are_an_error_of_the_machine(tmp_path) -> None:
    stored = StoredPieces(11)
    entry = opened(tmp_path, stored)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(StorageError, match="open files"):
            stored.fill(entry, [0])
        with pytest.raises(StorageError, match="open files"):
            sparse_cache(tmp_path).open("b", stored.table)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    stored.fill(entry, [0])
    stored.check(entry, [0])


def test_an_open_entry_takes_one_descriptor_and_no_mapping(tmp_path) -> None:
    stored = StoredPieces(11)
    stored.fill(opened(tmp_path, stored, "first"), [0])

    def used() -> tuple[int, int]:
        with open("/proc/self/maps") as maps:
            return len(os.listdir("/proc/self/fd")), sum("idx" in line for line in maps)

    before = used()
    held = [opened(tmp_path, stored, str(number)) for number in range(20)]
    for entry in held:
        stored.fill(entry, range(stored.num_pieces))
        assert entry.is_complete
    assert used() == (before[0] + 20, before[1])
    for entry in held:
        entry.close()
    assert used() == before


def _within_limits(place: str, limit: str, faults) -> None:
    try:
        stored = StoredPieces(12, num_members=1, most_bytes=8 << 20)
        if limit == "size of a file":
            resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))
            if sparse_cache(place).open("a", stored.table) is not None:
                faults.put("an entry was made")
            return
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + (32 << 20), now + (32 << 20)))
        # Many indexes of full size: a map of each would not fit.
        held = [opened(place, stored, str(number)) for number in range(40)]
        for entry in held:
            for piece in range(stored.num_pieces):
                stored.fill(entry, [piece])
            if not entry.is_complete:
                faults.put("a piece is missing")
    except BaseException as error:
        faults.put(repr(error))


@pytest.mark.parametrize("limit", ["size of a file", "address space"])
def test_the_limits_of_a_process_are_respected(tmp_path, limit) -> None:
    faults = _SPAWN.Queue()
    worker = _SPAWN.Process(target=_within_limits, args=(str(tmp_path), limit, faults))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    assert faults.empty(), faults.get()


def test_a_thread_may_still_fill_an_entry_that_is_closed(tmp_path) -> None:
    """The descriptor of its map must not be another file's by then."""
    stored = StoredPieces(13)
    entry = opened(tmp_path, stored)
    other = tmp_path / "other"

    def filled():
        yield 0, stored.raw(0)
        entry.close()
        with open(other, "w+b") as file:
            yield 1, stored.raw(1)
            file.seek(0)

    handles = []

    def greedy():
        for item in filled():
            handles.append(os.open(other, os.O_RDWR | os.O_CREAT))
            yield item

    with contextlib.suppress(NotKeptError):
        entry.fill(greedy())
    for handle in handles:
        os.close(handle)
    assert other.read_bytes() == b""
