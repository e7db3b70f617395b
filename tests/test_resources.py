"""Too few descriptors, a full disk, no memory: never damage, always a `StorageError`, and no lost rows."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import subprocess
import sys
import textwrap

import pyarrow as pa
import pytest
from tests.conftest import SCHEMA

import indextables as it
from indextables.errors import StorageError
from indextables.maintain.workers import InlineWorkers, working_with
from indextables.runtime.resources import (
    local_errors,
    on_shortage,
    open_file,
    refuse_shortage,
    shortage,
    system_error,
    with_descriptors,
)

NUM_SPLITS = 6


def _rows(number: int, num_rows: int = 50) -> pa.Table:
    messages = [f"common word{number} row{row}" for row in range(num_rows)]
    return pa.table({"id": range(num_rows), "message": messages, "day": [str(number)] * num_rows}, schema=SCHEMA)


@pytest.fixture
def url(tmp_path) -> str:
    url = str(tmp_path / "t")
    table = it.Table.create(url, SCHEMA, indexing={"message": "text"})
    for number in range(NUM_SPLITS):
        table.append(_rows(number))
    return url


@contextlib.contextmanager
def few_descriptors(spare: int):
    """Let this process open so many more files, and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    fillers = []
    try:
        with contextlib.suppress(OSError):  # fill the gaps below the limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
            while True:
                fillers.append(os.open(os.devnull, os.O_RDONLY))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + spare, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)


def _attempt(spare: int, work) -> tuple[object, str]:
    """The answer of some work with few descriptors, or what its `StorageError` says. Other errors are raised."""
    try:
        with few_descriptors(spare):
            return work(), ""
    except StorageError as error:
        return None, str(error)


@pytest.mark.parametrize("is_cached", [True, False])
def test_without_descriptors_a_search_is_right_or_a_storage_error(url, tmp_path, is_cached):
    """At every number of descriptors that are left, also with `bad_splits="skip"`."""
    outcomes = []
    for spare in range(12):
        place = str(tmp_path / f"cache{'' if is_cached else spare}")
        table = it.Table.open(url, options={"cache.disk.path": place})
        found, error = _attempt(
            spare, lambda table=table: table.search("common", columns=["id"], bad_splits="skip").num_rows
        )
        outcomes.append(found)
        assert found == NUM_SPLITS * 50 or "Too many open files" in error
        assert table.count("common") == NUM_SPLITS * 50
    assert set(outcomes) == {None, NUM_SPLITS * 50}


def test_without_descriptors_opening_and_writing_are_right_or_a_storage_error(url):
    expected, outcomes = NUM_SPLITS * 50, []
    for spare in range(0, 16, 2):
        opened, error = _attempt(spare, lambda: it.Table.open(url).num_records)
        assert opened == expected or "Too many open files" in error
        table = it.Table.open(url)
        version, error = _attempt(spare, lambda table=table, spare=spare: table.append(_rows(spare)))
        outcomes.append(version)
        assert version is not None or "Too many open files" in error
        expected += 0 if version is None else 50
        assert it.Table.open(url).count() == expected == len(it.Table.open(url).search())
    assert None in outcomes
    assert outcomes[-1] is not None
    assert it.Table.open(url).fsck().num_rows == 0


def test_without_descriptors_a_merge_blames_no_split(url):
    """Else merges would leave healthy splits alone for a day."""
    outcomes = []
    for spare in range(0, 14, 2):
        table = it.Table.open(url)
        with working_with(InlineWorkers()):
            answer, error = _attempt(spare, lambda table=table: table.merge_splits(target_size="1G").to_pylist()[0])
        outcomes.append(answer)
        assert answer is not None or "Too many open files" in error
        assert it.Table.open(url).skipped_files().num_rows == 0
        assert it.Table.open(url).count("common") == NUM_SPLITS * 50
    assert None in outcomes
    assert outcomes[-1] is not None


def test_descriptors_of_open_indexes_are_given_back(url):
    """A process that keeps indexes of several tables open can still use its last descriptors."""
    tables = [it.Table.open(url) for _ in range(3)]
    for table in tables:
        assert table.count("common") == NUM_SPLITS * 50
    with few_descriptors(0):
        handles = [open_file(os.devnull, os.O_RDONLY) for _ in range(3 * NUM_SPLITS)]
    for handle in handles:
        os.close(handle)
    assert tables[0].count("common") == NUM_SPLITS * 50


def test_open_indexes_are_bounded_for_the_whole_process(url):
    program = """
        import os, resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
        import indextables as it
        tables = [it.Table.open(sys.argv[1]) for _ in range(12)]
        before = len(os.listdir("/proc/self/fd"))
        assert [table.count("common") for table in tables] == [300] * 12
        print(len(os.listdir("/proc/self/fd")) - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), url]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert 0 < int(ran.stdout) <= 80 // 8 + 4  # threads may just let go of some


@pytest.mark.one_case
@pytest.mark.parametrize("what", ["temporary", "cache", "table", "no-cache"])
def test_a_full_disk_is_a_storage_error(url, tmp_path, what):
    """On a disk of two MiB of its own, where this machine lets a test mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a disk cannot be mounted here")
    try:
        outcome = _on_full_disk(url, str(disk), what)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert outcome["error"] in (["StorageError", "StorageRefusedError"] if what != "cache" else [None])
    assert it.Table.open(url).count("common") == NUM_SPLITS * 50


def _on_full_disk(url: str, disk: str, what: str) -> dict:
    program = """
        import json, os, sys, random
        url, disk, what = sys.argv[1:]
        if what in ("temporary", "no-cache"):
            os.environ["TMPDIR"] = disk
        import pyarrow as pa
        import indextables as it
        options = {"cache.disk.path": disk} if what == "cache" else {"cache.disk.enabled": "false"}
        error = None
        texts = random.Random(1)
        rows = pa.table({"id": range(60_000), "message": [texts.randbytes(60).hex() for _ in range(60_000)],
                         "day": ["d"] * 60_000})
        try:
            if what in ("cache", "no-cache"):
                with open(f"{disk}/filler", "wb") as filler:
                    filler.write(bytes((2 << 20) - 8192))
                table = it.Table.open(url, options=options)
                assert table.count("common") == 300
            elif what == "temporary":
                it.Table.open(url).append(rows)
            else:
                table = it.Table.create(f"{disk}/t", rows.schema, indexing={"message": "text"})
                table.append(rows)
        except BaseException as caught:
            error = type(caught).__name__
            assert "No space left" in str(caught), caught
        print(json.dumps({"error": error}))
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), url, disk, what],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_error_numbers_are_found_in_the_texts_of_other_languages():
    assert system_error(ValueError("cannot open: Too many open files (os error 24)")) == errno.EMFILE
    assert system_error(ValueError("IoError { io_error: Os { code: 28, kind: StorageFull")) == errno.ENOSPC
    assert system_error(ValueError("[Errno 12] Cannot allocate memory")) == errno.ENOMEM
    assert system_error(ValueError("a word of 24 letters")) is None
    assert shortage(FileNotFoundError(errno.ENOENT, "gone")) is None
    assert shortage(BlockingIOError(errno.EAGAIN, "locked")) is None
    outer = StorageError("cannot read")
    outer.__cause__ = OSError(errno.EMFILE, "Too many open files")
    assert shortage(outer) == errno.EMFILE


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT])
def test_a_shortage_is_reported_as_what_it_is(number):
    with pytest.raises(StorageError, match=r"cannot read `x` because of this machine") as caught:
        refuse_shortage("read `x`", OSError(number, "no"))
    assert caught.value.hint
    with pytest.raises(StorageError), local_errors("read `x`"):
        raise OSError(number, "no")
    refuse_shortage("read `x`", ValueError("bad bytes"))
    with pytest.raises(MemoryError):
        refuse_shortage("read `x`", pa.ArrowMemoryError("malloc"))


def test_work_that_lacks_descriptors_is_done_again_once():
    given, tries = [], []

    def work():
        tries.append(1)
        if len(tries) < 2:
            raise OSError(errno.EMFILE, "Too many open files")
        return "done"

    on_shortage(lambda: given.append(1) or 1)
    assert with_descriptors(work) == "done"
    assert (len(tries), len(given)) == (2, 1)
