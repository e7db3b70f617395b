"""Local disk: what survives a power cut, what a listing shows, and which errors people get."""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_disk import ModelDisk, PowerCut, ProcessKilled, Tree

from indextables.clock import SystemClock
from indextables.errors import ObjectExistsError, ObjectNotFoundError, StorageDeniedError, StorageError
from indextables.location import parse_location
from indextables.store.local import listings
from indextables.store.local.disk import Disk
from indextables.store.local.store import LocalStore

OLD, NEW, OTHER = b"the old content", b"the new content", b"of another process"


def local(path: object, disk: Disk | None = None) -> LocalStore:
    return LocalStore(parse_location(str(path)), disk=disk)


def keys(store: LocalStore, prefix: str = "", after: str = "") -> list[str]:
    return [meta.key for meta in store.list(prefix, after=after)]


# Durability


class Scenario:
    """One put under a power cut: what is promised before it, and what it may change."""

    def __init__(self, verb: str, key: str, *, old: bytes | None, outcome: type[StorageError] | None = None) -> None:
        self.verb, self.key, self.old, self.outcome = verb, key, old, outcome

    def prepare(self, store: LocalStore) -> dict[str, bytes]:
        promised = {"neighbour": OLD}
        if self.old is not None:
            promised[self.key] = self.old
        for key, content in promised.items():
            store.put(key, content)
        return promised

    def run(self, store: LocalStore, source: str) -> bool:
        """Whether the put was applied; anything but the expected outcome is an error of the test."""
        with pytest.raises(self.outcome) if self.outcome else contextlib.nullcontext():
            if self.verb == "put_file":
                store.put_file(self.key, source)
            else:
                getattr(store, self.verb)(self.key, NEW)
        return self.outcome is None

    def __repr__(self) -> str:
        return f"{self.verb}-{self.key.replace('/', '.')}-{'over' if self.old else 'new'}"


SCENARIOS = [
    Scenario("put_if_absent", "k", old=None),
    Scenario("put_if_absent", "new/deep/k", old=None),
    Scenario("put_if_absent", "log/k", old=OLD, outcome=ObjectExistsError),
    Scenario("put", "k", old=None),
    Scenario("put", "new/deep/k", old=None),
    Scenario("put", "log/k", old=OLD),
    Scenario("put_file", "new/k", old=None),
    Scenario("put_file", "log/k", old=OLD),
]


def broken_promises(scenario: Scenario, directory: Path, **flaws: bool) -> set[str]:
    """Cut the power after every step of the scenario, and say which states no reader should ever see."""
    source = directory / "source"
    source.write_bytes(NEW)
    complaints: set[str] = set()
    for cut_after in itertools.count(1):
        disk = ModelDisk(str(directory / f"cut{cut_after}"), **flaws)
        store = local(directory / f"cut{cut_after}", disk)
        promised = scenario.prepare(store)
        flying = {scenario.key: {scenario.old, NEW if scenario.outcome is None else scenario.old}}
        disk.cut_after = disk.steps + cut_after
        try:
            if scenario.run(store, str(source)):
                promised[scenario.key] = NEW
            flying = {}
        except PowerCut:
            promised.pop(scenario.key, None)
            complaints |= judge(disk, promised, flying)
            continue
        return complaints | judge(disk, promised, flying)
    raise AssertionError("unreachable")


def judge(disk: ModelDisk, promised: dict[str, bytes], flying: dict[str, set[bytes | None]]) -> set[str]:
    """Read every state that may survive with a fresh store."""
    complaints: set[str] = set()
    for tree in disk.survivors():
        found = what_a_store_reads(tree)
        allowed = {**{key: {content} for key, content in promised.items()}, **flying}
        complaints |= {f"unknown object {key}" for key in found.keys() - allowed.keys()}
        complaints |= {f"{key} is {found.get(key)!r}" for key, fine in allowed.items() if found.get(key) not in fine}
    return complaints


@functools.cache
def what_a_store_reads(tree: Tree) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        for path, content in tree:
            (Path(place) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(place) / path).write_bytes(content)
        store = local(place)
        return {key: store.get(key) for key in keys(store)}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=repr)
def test_local_put_survives_a_power_cut_at_every_step(scenario, tmp_path):
    assert broken_promises(scenario, tmp_path) == set()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=repr)
def test_power_cut_test_notices_a_disk_that_syncs_no_content(scenario, tmp_path):
    complaints = broken_promises(scenario, tmp_path, syncs_content=False)
    assert f"{scenario.key if scenario.outcome is None else 'neighbour'} is b''" in complaints


@pytest.mark.parametrize("scenario", SCENARIOS, ids=repr)
def test_power_cut_test_notices_a_disk_that_syncs_no_directory(scenario, tmp_path):
    complaints = broken_promises(scenario, tmp_path, syncs_directories=False)
    assert f"{scenario.key} is None" in complaints or f"{scenario.key} is {OLD!r}" in complaints


def promises_broken_after_a_kill(directory: Path) -> set[str]:
    """A process dies at every step of a put in a new directory; another puts there; then the power goes."""
    complaints: set[str] = set()
    for kill_after in itertools.count(1):
        root = directory / f"kill{kill_after}"
        disk = ModelDisk(str(root))
        disk.kill_after = kill_after
        killed = False
        try:
            local(root, disk).put_if_absent("new/deep/first", NEW)
        except ProcessKilled:
            killed = True
        disk.restart_process()
        local(root, disk).put_if_absent("new/deep/second", OTHER)
        first = {None, NEW} if killed else {NEW}
        complaints |= judge(disk, {"new/deep/second": OTHER}, {"new/deep/first": first})
        if not killed:
            return complaints
    raise AssertionError("unreachable")


def test_local_put_survives_although_the_maker_of_its_directory_was_killed(tmp_path):
    assert promises_broken_after_a_kill(tmp_path) == set()


def test_power_cut_test_notices_a_store_that_trusts_every_directory_it_finds(tmp_path, monkeypatch):
    def hold(self: LocalStore, directory: str) -> None:
        if not os.path.isdir(directory):
            hold(self, os.path.dirname(directory))
            self._disk.make_directory(directory)
            self._disk.sync_directory(os.path.dirname(directory))

    monkeypatch.setattr(LocalStore, "_hold", hold)
    assert promises_broken_after_a_kill(tmp_path) == {"new/deep/second is None"}


def test_local_put_makes_a_directory_anew_that_others_removed(tmp_path):
    disk = ModelDisk(str(tmp_path / "t"))
    store = local(tmp_path / "t", disk)
    store.put("a/b/k", OLD)
    disk.unlink(str(tmp_path / "t/a/b/k"))
    for path in ("t/a/b", "t/a"):
        disk.remove_directory(str(tmp_path / path))
    store.put("a/b/k", NEW)
    assert judge(disk, {"a/b/k": NEW}, {}) == set()


class SyncRecorder:
    """Which files and directories were synced, and how large they were then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[tuple[int, int]] = []
        real = os.fsync

        def record(handle: int) -> None:
            facts = os.fstat(handle)
            self.synced.append((facts.st_ino, facts.st_size))
            real(handle)

        monkeypatch.setattr(os, "fsync", record)


@pytest.mark.skipif(sys.platform == "darwin", reason="syncs another way there")
def test_disk_syncs_what_it_says(tmp_path, monkeypatch):
    recorder = SyncRecorder(monkeypatch)
    Disk().write_new(str(tmp_path / "f"), [b"some", b" content"])
    assert recorder.synced == [((tmp_path / "f").stat().st_ino, 12)]
    Disk().sync_directory(str(tmp_path))
    assert [inode for inode, _ in recorder.synced[1:]] == [tmp_path.stat().st_ino]


@pytest.mark.skipif(sys.platform == "darwin", reason="syncs another way there")
def test_local_put_syncs_the_file_and_then_its_directory(tmp_path, monkeypatch):
    store = local(tmp_path)
    store.put_if_absent("d/first", b"")
    recorder = SyncRecorder(monkeypatch)
    store.put_if_absent("d/k", b"12345")
    file, directory = tmp_path / "d/k", tmp_path / "d"
    assert [inode for inode, _ in recorder.synced] == [file.stat().st_ino, directory.stat().st_ino]
    assert recorder.synced[0][1] == 5


def test_disk_writes_only_new_files(tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(FileExistsError):
        Disk().write_new(str(tmp_path / "f"), [b"y"])
    assert (tmp_path / "f").read_bytes() == b"x"


def test_disk_makes_a_directory_beside_others_but_not_over_a_file(tmp_path):
    Disk().make_directory(str(tmp_path / "d"))
    Disk().make_directory(str(tmp_path / "d"))
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(FileExistsError):
        Disk().make_directory(str(tmp_path / "f"))


# Temporary files


class FailingDisk(Disk):
    """Fails one operation with an error of the operating system."""

    def __init__(self, verb: str, number: int) -> None:
        self.verb, self.number = verb, number

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_") and name not in ("verb", "number") and name == self.verb:
            raise OSError(self.number, os.strerror(self.number))
        return super().__getattribute__(name)


class FullDisk(Disk):
    """Has room for a part of a file only."""

    def write_new(self, path: str, chunks) -> None:
        super().write_new(path, [b"a part"])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_local_leftovers_of_a_crash_are_never_listed(tmp_path):
    for number in range(1, 8):
        disk = ModelDisk(str(tmp_path / f"t{number}"))
        disk.kill_after = number
        store = local(tmp_path / f"t{number}", disk)
        with contextlib.suppress(ProcessKilled):
            store.put_if_absent("d/k", b"content")
        assert keys(local(tmp_path / f"t{number}")) in ([], ["d/k"])
    left = [name for _, _, names in os.walk(tmp_path) for name in names if name != "k"]
    assert left, "no crash left anything behind, so this test shows nothing"
    assert all(name.startswith(".indextables-") and name.endswith(".tmp") for name in left)


def test_local_leftovers_go_with_a_put_beside_them_a_day_later(tmp_path):
    for name, hours in {"young": 23, "old": 25, "older": 500}.items():
        left = tmp_path / "d" / f".indextables-{name}.tmp"
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"x")
        os.utime(left, (time.time() - hours * 3600,) * 2)
    (tmp_path / "d" / ".indextables-directory.tmp").mkdir()
    store = local(tmp_path)
    store.put("elsewhere", b"x")
    assert len(os.listdir(tmp_path / "d")) == 4
    store.put_if_absent("d/k", b"x")
    assert sorted(os.listdir(tmp_path / "d")) == [".indextables-directory.tmp", ".indextables-young.tmp", "k"]


def test_local_leftovers_that_cannot_be_deleted_are_no_failure(tmp_path, monkeypatch):
    left = tmp_path / ".indextables-old.tmp"
    left.write_bytes(b"x")
    os.utime(left, (0, 0))
    store = local(tmp_path)

    def refuse(path: str) -> None:
        if path == str(left):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        os.unlink(path)

    monkeypatch.setattr(store._disk, "unlink", refuse)
    store.put_if_absent("k", b"x")
    assert store.get("k") == b"x"
    assert left.exists()


def test_local_names_of_temporary_files_are_no_keys(tmp_path):
    store = local(tmp_path)
    with pytest.raises(StorageError, match="temporary files"):
        store.put("d/.indextables-x.tmp", b"x")
    for key in (".indextables-x", "x.tmp", ".indextables-x.tmp/k"):
        store.put(f"d/{key}", b"x")


@pytest.mark.parametrize("verb", ["put_if_absent", "put"])
def test_local_full_disk_is_a_storage_error_and_leaves_nothing(verb, tmp_path):
    store = local(tmp_path / "t", FullDisk())
    with pytest.raises(StorageError, match=r"cannot .* `k`: No space left on device"):
        getattr(store, verb)("k", b"content")
    assert list((tmp_path / "t").iterdir()) == []


FAILURES = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENOENT]
OPERATIONS = ["write_new", "link", "unlink", "make_directory", "sync_directory"]
# A temporary file that is gone already is no failure.
FAILING = [pair for pair in itertools.product(OPERATIONS, FAILURES) if pair != ("unlink", errno.ENOENT)]


@pytest.mark.parametrize(("verb", "number"), FAILING)
def test_local_failures_of_the_disk_are_storage_errors(verb, number, tmp_path):
    with pytest.raises(StorageError) as caught:
        local(tmp_path / "t", FailingDisk(verb, number)).put_if_absent("d/k", b"x")
    assert isinstance(caught.value, StorageDeniedError) is (number == errno.EACCES)
    assert not isinstance(caught.value, ObjectExistsError | ObjectNotFoundError)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS])
def test_local_file_system_without_hard_links_is_refused(number, tmp_path):
    store = local(tmp_path / "t", FailingDisk("link", number))
    with pytest.raises(StorageError, match="has no hard links\nhint: ") as caught:
        store.put_if_absent("k", b"x")
    assert type(caught.value) is StorageError
    assert list((tmp_path / "t").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_local_permissions_are_storage_errors(tmp_path):
    store = local(tmp_path)
    store.put("d/k", b"x")
    os.chmod(tmp_path / "d", 0)
    try:
        for verb in (lambda: store.get("d/k"), lambda: store.put("d/k", b"y"), lambda: keys(store)):
            with pytest.raises(StorageDeniedError):
                verb()
    finally:
        os.chmod(tmp_path / "d", 0o700)


def test_local_refusals_of_the_system_are_storage_errors(tmp_path, monkeypatch):
    store = local(tmp_path)
    store.put("d/k", b"x")

    def refuse(path: object, *_args: object, **_named: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        for verb in (lambda: store.get("d/k"), lambda: store.get_range("d/k", 0, 1), lambda: keys(store)):
            with pytest.raises(StorageDeniedError, match="Permission denied"):
                verb()
    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(StorageDeniedError, match="cannot look at `d/k`"):
        store.head("d/k")


def test_local_parent_that_may_not_be_written_needs_no_sync(tmp_path, monkeypatch):
    (tmp_path / "t").mkdir()
    asked: list[str] = []

    class Watched(Disk):
        def sync_directory(self, path: str) -> None:
            asked.append(path)

    monkeypatch.setattr(os, "access", lambda *_: False)
    local(tmp_path / "t", Watched()).put("k", b"x")
    assert asked == [str(tmp_path / "t")]


def test_local_file_and_directory_of_one_name(tmp_path):
    store = local(tmp_path)
    store.put("a", b"x")
    store.put("d/k", b"x")
    for verb, key in itertools.product((store.put, store.put_if_absent), ("a/b", "d")):
        with pytest.raises(StorageError, match="its place is taken") as caught:
            verb(key, b"y")
        assert type(caught.value) is StorageError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "d"]


# Listings


def test_local_listing_passes_over_what_is_no_object(tmp_path):
    store = local(tmp_path)
    store.put("d/k", b"x")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    os.symlink("nowhere", tmp_path / "dangling")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(tmp_path)
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        assert keys(store) == ["d/k"]


def test_local_listing_passes_over_names_that_are_no_text(tmp_path):
    store = local(tmp_path)
    store.put("k", b"x")
    (tmp_path / "d").mkdir()
    for directory in (tmp_path, tmp_path / "d"):
        with open(os.fsencode(directory) + b"/caf\xe9", "wb"):
            pass
        os.mkdir(os.fsencode(directory) + b"/dir\xff")
        with open(os.fsencode(directory) + b"/dir\xff/inside", "wb"):
            pass
    assert keys(store) == ["k"]


def test_local_listing_follows_links_but_no_loop(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    store, other = local(tmp_path / "t"), local(elsewhere)
    store.put("d/k", b"x")
    other.put("far", b"y")
    os.symlink(elsewhere, tmp_path / "t/link")
    os.symlink("self", tmp_path / "t/self")
    os.symlink(".", tmp_path / "t/here")
    os.symlink("..", tmp_path / "t/d/up")
    os.symlink("a", tmp_path / "t/b")
    os.symlink("b", tmp_path / "t/a")
    os.symlink(tmp_path / "t", elsewhere / "back")
    os.symlink("../d/k", tmp_path / "t/d/file")
    assert keys(store) == ["d/file", "d/k", "link/far"]
    assert store.get("link/far") == b"y"


def test_local_root_that_is_a_file_holds_nothing(tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    store = local(tmp_path / "f")
    assert keys(store) == []
    with pytest.raises(ObjectNotFoundError):
        store.get("k")
    with pytest.raises(StorageError):
        store.put("k", b"x")


def test_local_objects_that_go_while_they_are_listed(tmp_path):
    store = local(tmp_path)
    for number in range(3):
        store.put(f"{number}/k", b"")
    listing = store.list()
    assert next(listing).key == "0/k"
    store.delete("1/k")
    (tmp_path / "1").rmdir()
    (tmp_path / "1").write_bytes(b"a file now")
    assert [meta.key for meta in listing] == ["2/k"]


def test_local_listings_from_many_threads(tmp_path):
    store = local(tmp_path)
    for number in range(150):
        store.put(f"{number:03d}/k", b"")
    failures: list[object] = []

    def work() -> None:
        for _ in range(5):
            found = len(keys(store))
            if found != 150:
                failures.append(found)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


# The memory of listings


class VirtualDirectory:
    """One directory of a file system with a coarse clock of its own. It stands in for `os` in `listings`."""

    O_RDONLY = O_DIRECTORY = 0

    def __init__(self, tick_seconds: float, skew_seconds: float) -> None:
        self.now = 1000.0
        self.tick, self.skew = tick_seconds, skew_seconds
        self.names: set[str] = set()
        self.mtime = self.ctime = self._time()
        self.num_reads = 0
        self.meanwhile: Callable[[], None] | None = None

    def monotonic(self) -> float:
        return self.now

    def toggle(self, name: str) -> None:
        self.names ^= {name}
        self.mtime = self.ctime = self._time()

    def set_mtime_back(self) -> None:
        self.mtime, self.ctime = 0, self._time()

    def open(self, *_args: object) -> int:
        return 0

    def close(self, _handle: int) -> None:
        pass

    def fstat(self, _handle: int) -> os.stat_result:
        times = {"st_mtime_ns": self.mtime, "st_ctime_ns": self.ctime}
        return os.stat_result((0o40755, 7, 1, 1, 0, 0, 0, 0, 0, 0), {**times, "st_atime_ns": 0})

    def listdir(self, _handle: int) -> list[str]:
        self.num_reads += 1
        found = list(self.names)
        if self.meanwhile is not None:
            self.meanwhile()
        return found

    def _time(self) -> int:
        return int((self.now + self.skew) / self.tick) * int(self.tick * 1e9)


class VirtualClock(SystemClock):
    def __init__(self, directory: VirtualDirectory) -> None:
        self._directory = directory

    def monotonic(self) -> float:
        return self._directory.monotonic()


def first_stale_listing(tick: float, skew: float, steps: list[tuple[str, object]]) -> object:
    """Play the steps, and tell the first listing that is not what is there, if there is one."""
    directory = VirtualDirectory(tick, skew)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listings, "os", directory)
        remembered = listings.Listings(VirtualClock(directory), lambda _: False)
        for verb, what in steps:
            if verb == "wait":
                directory.now += float(str(what))
            elif verb == "toggle":
                directory.toggle(str(what))
            elif verb == "set back":
                directory.toggle(str(what))
                directory.set_mtime_back()
            elif verb == "change while listing":
                directory.meanwhile = lambda name=str(what): directory.toggle(name)
                remembered.names("d")
                directory.meanwhile = None
            if verb != "change while listing" and (found := remembered.names("d")) != sorted(directory.names):
                return found
    return None


histories = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from([0.001, 0.6, 1.9, 2.6, 60])),
        st.tuples(st.sampled_from(["toggle", "set back", "change while listing"]), st.sampled_from(["a", "b"])),
    ),
    max_size=12,
)
file_systems = st.tuples(st.sampled_from([0.004, 1.0, 2.0]), st.sampled_from([0.0, -3600.0, -3.0, 0.7, 3600.0]))


@given(file_systems, histories)
@settings(max_examples=600)
def test_local_listing_is_never_stale(file_system, history):
    assert first_stale_listing(*file_system, history) is None


def test_listing_test_notices_a_memory_that_does_not_wait(monkeypatch):
    monkeypatch.setattr(listings, "_SETTLED_SECONDS", -1.0)
    assert hypothesis.find(histories, lambda history: first_stale_listing(0.004, 0.0, history) is not None)


def test_listing_test_notices_a_memory_that_waits_less_than_a_tick(monkeypatch):
    monkeypatch.setattr(listings, "_SETTLED_SECONDS", 0.5)
    assert hypothesis.find(histories, lambda history: first_stale_listing(2.0, 0.0, history) is not None)


def test_local_settled_listing_is_read_once(monkeypatch):
    directory = VirtualDirectory(0.004, 0.0)
    directory.toggle("a")
    monkeypatch.setattr(listings, "os", directory)
    remembered = listings.Listings(VirtualClock(directory), lambda name: name == ".hidden")
    directory.toggle(".hidden")
    for _ in range(2):
        assert remembered.names("d") == ["a"]
    directory.now += 3
    for _ in range(10):
        assert remembered.names("d") == ["a"]
    assert directory.num_reads == 3
    directory.toggle("b")
    assert remembered.names("d") == ["a", "b"]
    assert directory.num_reads == 4


def test_local_memory_of_listings_is_bounded(monkeypatch):
    directory = VirtualDirectory(0.004, 0.0)
    monkeypatch.setattr(listings, "os", directory)
    monkeypatch.setattr(listings, "_MOST_NAMES", 10)
    directory.names = {str(number) for number in range(6)}
    remembered = listings.Listings(VirtualClock(directory), lambda _: False)
    for number in range(200):
        remembered.names(str(number))
    directory.now += 3
    for number in range(200):
        remembered.names(str(number))
        assert len(remembered._known) <= 64
        assert sum(len(known.names or ()) for known in remembered._known.values()) <= 16


OTHER_PROCESS = """
import os, sys
from indextables.config import Config
from indextables.store import open_store
store = open_store(sys.argv[1], Config.resolve())
for line in sys.stdin:
    verb, key = line.split()
    if verb == "put":
        store.put(key, b"x")
    else:
        store.delete(key)
    if verb == "delete_and_set_back":
        os.utime(sys.argv[1], (1, 1))
    print("done", flush=True)
"""


@pytest.fixture
def other_process(tmp_path) -> Iterator[Callable[[str, str], None]]:
    """Another process that puts and deletes on demand."""
    command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path / "t")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def demand(verb: str, key: str) -> None:
            process.stdin.write(f"{verb} {key}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"

        yield demand
        process.stdin.close()
        assert process.wait(30) == 0


def test_local_listing_sees_what_other_processes_do(tmp_path, other_process, monkeypatch):
    # Long enough for the clock of the file system here, whose ticks are a few milliseconds.
    monkeypatch.setattr(listings, "_SETTLED_SECONDS", 0.03)
    reader, writer = local(tmp_path / "t"), local(tmp_path / "t")
    clock, there = SystemClock(), set()
    reads = []
    monkeypatch.setattr(listings.os, "listdir", lambda handle, real=os.listdir: reads.append(1) or real(handle))
    num_listings = 0
    for number in range(300):
        key = f"k{int(clock.uniform() * 5)}"
        if clock.uniform() < 0.5:
            act = other_process if clock.uniform() < 0.5 else lambda verb, name: _act(writer, verb, name)
            verb = ("put", "delete", "delete_and_set_back")[int(clock.uniform() * 3)] if there else "put"
            act(verb, key)
            there = there | {key} if verb == "put" else there - {key}
        elif number % 10 == 0:
            clock.sleep(0.035)
        assert keys(reader) == sorted(there)
        num_listings += 1
    assert len(reads) < num_listings, "nothing was ever remembered, so this test shows nothing"


def _act(store: LocalStore, verb: str, key: str) -> None:
    if verb == "put":
        store.put(key, b"x")
        return
    store.delete(key)
    if verb == "delete_and_set_back":
        os.utime(store.location.path, (1, 1))


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.put("log/_last_checkpoint", b"new"),
        lambda store: store.delete("log/_last_checkpoint"),
        lambda store: (store.delete("log/_last_checkpoint"), store.put_if_absent("log/_last_checkpoint", b"new")),
    ],
)
def test_a_checksum_of_hadoop_does_not_outlive_its_file(tmp_path, change):
    store = local(tmp_path)
    store.put("log/_last_checkpoint", b"old")
    for name in ("._last_checkpoint.crc", ".other.crc"):
        (tmp_path / "log" / name).write_bytes(b"crc\0of the old bytes")
    change(store)
    assert not (tmp_path / "log" / "._last_checkpoint.crc").exists()
    assert (tmp_path / "log" / ".other.crc").exists()


def test_a_create_that_is_refused_leaves_the_checksum(tmp_path):
    store = local(tmp_path)
    store.put("a", b"old")
    (tmp_path / ".a.crc").write_bytes(b"crc\0of the old bytes")
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("a", b"new")
    assert (tmp_path / ".a.crc").exists()
    (tmp_path / "a").unlink()
    store.put_if_absent("a", b"new")
    assert not (tmp_path / ".a.crc").exists()


def test_a_directory_goes_with_its_last_file_and_that_files_checksum(tmp_path):
    store = local(tmp_path)
    store.put("state/_manifest.avro", b"old")
    (tmp_path / "state" / "._manifest.avro.crc").write_bytes(b"crc")
    store.delete("state/_manifest.avro", with_directory=True)
    assert not (tmp_path / "state").exists()
