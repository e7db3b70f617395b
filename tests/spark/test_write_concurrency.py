"""Jobs at once, tasks that fail or are tried again, a driver that is killed: nothing lost, nothing doubled."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.jobs import start_job
from tests.spark.spark_rows import numbers, orphans, save
from tests.spark.write_job import NUM_BATCHES, ROWS_PER_BATCH

import indextables as it

pytestmark = [
    pytest.mark.slow,
    # `mapInArrow` warns of a pandas that it does not use.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

_PATIENCE_SECONDS = 120


@pytest.fixture
def url(tmp_path) -> str:
    return str(tmp_path / "table")


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def held_back(frame, gate: Path):
    """The same rows, whose tasks end once there is a file, and say that they have begun by another."""
    place, patience = str(gate), _PATIENCE_SECONDS

    def wait(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from rows
        Path(f"{place}.begun").touch()
        deadline = time.monotonic() + patience
        while not os.path.exists(place):
            if time.monotonic() > deadline:
                raise TimeoutError(place)
            time.sleep(0.05)

    return frame.mapInArrow(wait, frame.schema)


def save_in_thread(spark, frame, url: str, mode: str = "append", **options: str) -> None:
    """Save from a thread of its own, where Spark finds Python's sources only once a session is the active one."""
    spark.createDataFrame([(0,)], "id long")  # makes it so
    save(frame, url, mode, **options)


def splits(url: str) -> list[Path]:
    return list(Path(url).rglob("*.split"))


def test_jobs_that_create_and_append_at_once_all_have_their_rows(spark, url) -> None:
    def append(number: int) -> None:
        save_in_thread(spark, spark.range(number * 10, number * 10 + 10), url)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(8)))
    assert numbers(url) == list(range(80))
    assert it.Table.open(url).version == 8
    assert orphans(url) == set()


def test_what_was_appended_before_an_overwrite_was_committed_is_replaced(spark, url, tmp_path) -> None:
    save(spark.range(3), url)
    with ThreadPoolExecutor(1) as thread:
        slow = held_back(spark.range(10, 13, 1, 1), tmp_path / "go")
        overwrite = thread.submit(save_in_thread, spark, slow, url, "overwrite")
        until(lambda: overwrite.done() or (tmp_path / "go.begun").exists())
        save(spark.range(20, 23, 1, 1), url)
        (tmp_path / "go").touch()
        overwrite.result()
    assert numbers(url, version=2) == [0, 1, 2, 20, 21, 22]
    assert numbers(url) == [10, 11, 12]


def test_what_is_appended_after_an_overwrite_stays(spark, url, tmp_path) -> None:
    save(spark.range(3), url)
    with ThreadPoolExecutor(1) as thread:
        slow = held_back(spark.range(10, 13, 1, 1), tmp_path / "go")
        append = thread.submit(save_in_thread, spark, slow, url)
        until(lambda: append.done() or (tmp_path / "go.begun").exists())
        save(spark.range(20, 23, 1, 1), url, "overwrite")
        (tmp_path / "go").touch()
        append.result()
    assert numbers(url, version=2) == [20, 21, 22]
    assert numbers(url) == [10, 11, 12, 20, 21, 22]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_failed_job_leaves_no_version_and_no_split_of_its_finished_tasks(spark, url, is_there) -> None:
    if is_there:
        save(spark.range(3), url)
    before = len(splits(url))
    directory = url

    def fail_late(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from rows
        if TaskContext.get().partitionId() == 1:
            while len(list(Path(directory).rglob("*.split"))) == before:
                time.sleep(0.05)
            time.sleep(2)
            raise ValueError("too late")

    frame = spark.range(10, 20, 1, 2)
    with pytest.raises(Exception, match="too late"):
        save(frame.mapInArrow(fail_late, frame.schema), url, write__targetSplitSize="1")
    assert len(splits(url)) == before
    if is_there:
        assert numbers(url) == [0, 1, 2]
        assert it.Table.open(url).version == 1
    else:
        assert not Path(url, "_transaction_log").exists()


def test_a_table_that_goes_away_during_a_job_gets_none_of_its_rows(spark, url, tmp_path) -> None:
    save(spark.range(3), url)
    with ThreadPoolExecutor(1) as thread:
        slow = held_back(spark.range(10, 13, 1, 1), tmp_path / "go")
        append = thread.submit(save_in_thread, spark, slow, url)
        until(lambda: append.done() or (tmp_path / "go.begun").exists())
        os.rename(url, tmp_path / "away")
        it.Table.create(url, pa.schema([("id", pa.int64())]))
        (tmp_path / "go").touch()
        with pytest.raises(Exception, match="the table was recreated"):
            append.result()
    assert numbers(url) == []


def run_job(master: str, tmp_path: Path, job: str, url: str) -> subprocess.Popen[bytes]:
    return start_job("write_job", tmp_path / "spark", master, job, url)


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Whatever happens, the job and its Java are gone afterwards."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def finish(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    with ended(process):
        assert process.wait(_PATIENCE_SECONDS) == 0, (tmp_path / "spark" / "output").read_text()[-3000:]


def test_tasks_that_are_tried_again_lose_and_double_no_row(url, tmp_path) -> None:
    finish(run_job("local[2,4]", tmp_path, "retried", url), tmp_path)
    assert "the first attempt" in (tmp_path / "spark" / "output").read_text()
    assert numbers(url) == list(range(200))
    assert it.Table.open(url).version == 1


def test_a_driver_that_is_killed_in_the_middle_can_be_run_again(url, tmp_path) -> None:
    process = run_job("local[2]", tmp_path, "stuck", url)
    with ended(process):
        until(lambda: process.poll() is not None or (_versions(url) == 2 and bool(orphans(url))))
        assert process.poll() is None, (tmp_path / "spark" / "output").read_text()[-3000:]
    assert numbers(url) == list(range(ROWS_PER_BATCH))
    finish(run_job("local[2]", tmp_path, "batches", url), tmp_path)
    assert numbers(url) == list(range(NUM_BATCHES * ROWS_PER_BATCH))
    assert it.Table.open(url).version == NUM_BATCHES


def _versions(url: str) -> int:
    return len(list(Path(url, "_transaction_log").glob("0*.json")))
