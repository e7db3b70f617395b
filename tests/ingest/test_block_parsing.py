"""Files parsed in many blocks, and by other processes, give the rows, counts and errors of one block."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from indextables.errors import IndexTablesError
from indextables.ingest import block_parsing, csv_rows, input_source
from indextables.ingest.bad_lines import OnBadLine
from indextables.ingest.input_files import InputFiles, InputOptions

ONE_BLOCK = 1 << 30


def read(path: Path, monkeypatch, *, block: int, workers: int = 0, **options: object) -> tuple[object, ...]:
    """The rows of a file, or its error, and what was counted."""
    monkeypatch.setattr(input_source, "_BLOCK_BYTES", block)
    monkeypatch.setattr(csv_rows, "_BLOCK_BYTES", block)
    monkeypatch.setattr(block_parsing, "_BYTES_PARSED_HERE", 0)
    files = InputFiles([str(path)], InputOptions(workers=workers, **options))
    schema = SCHEMA if path.suffix != ".log" else files.guess_schema()
    try:
        found: object = pa.Table.from_batches(files.batches(schema), schema).to_pylist()
    except IndexTablesError as error:
        found = str(error)
    return found, files.bad.skipped, files.bad.nulled, vars(files.log_counts)


SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us"))])
JSON_LINES = (
    '{"id": %d, "name": "n%d", "at": "2026-01-01T00:00:%02d"}',
    '{"name": "only %d"}',
    "",
    "   ",
    '{"id": "x%d", "name": null}',
    '{"id": 99999999999999999999%d}',
    "{broken %d",
    "[%d]",
)
MISSHAPEN = "%d"
CSV_LINES = ("%d,n%d,2026-01-01 00:00:%02d", '%d,"a\nb, %d",', "", "x%d,y,", MISSHAPEN, '%d,"q ""%d""",2026-01-01')
LOG_LINES = (
    "2026-01-31T12:00:%02d INFO started",
    "  at frame %d",
    "Caused by: %d",
    "",
    "Jan 31 12:00:%02d host app[7]: ERROR failed",
    "2026-01-31 12:00:%02d BST unknown zone",
    "\u00a0joined %d",
    "\ttab",
    "plain %d\r",
)


def make_file(path: Path, rng: random.Random, kinds: tuple[str, ...], *, good: float) -> None:
    lines = []
    for number in range(rng.randrange(1, 60)):
        kind = kinds[0] if rng.random() < good else rng.choice(kinds)
        lines.append(kind % ((number % 60,) * kind.count("%")))
    text = "\n".join(lines) + rng.choice(["", "\n", "\n\n"])
    path.write_bytes(("id,name,at\n" + text if path.suffix == ".csv" else text).encode())


@pytest.mark.parametrize("policy", OnBadLine)
@pytest.mark.parametrize(("suffix", "kinds"), [(".jsonl", JSON_LINES), (".csv", CSV_LINES), (".log", LOG_LINES)])
def test_blocks_change_nothing(tmp_path, monkeypatch, policy, suffix, kinds):
    rng = random.Random(f"{policy}{suffix}")
    if policy is OnBadLine.FAIL:
        kinds = tuple(kind for kind in kinds if kind != MISSHAPEN)  # of a block, such rows are reported first
    path = tmp_path / f"a{suffix}"
    for _ in range(40):
        make_file(path, rng, kinds, good=rng.choice([0.5, 0.9, 1.0]))
        options = {"on_bad_line": policy, "join_lines": rng.random() < 0.5}
        whole = read(path, monkeypatch, block=ONE_BLOCK, **options)
        for block in (1, rng.randrange(2, 200), 400):
            assert read(path, monkeypatch, block=block, **options) == whole


@pytest.mark.one_case
@pytest.mark.parametrize(("suffix", "kinds"), [(".jsonl", JSON_LINES), (".csv", CSV_LINES), (".log", LOG_LINES)])
def test_processes_change_nothing(tmp_path, monkeypatch, suffix, kinds):
    rng = random.Random(suffix)
    path = tmp_path / f"a{suffix}"
    for policy in (OnBadLine.FAIL, OnBadLine.NULL):
        make_file(path, rng, tuple(kind for kind in kinds if kind != MISSHAPEN), good=0.8)
        whole = read(path, monkeypatch, block=ONE_BLOCK, on_bad_line=policy)
        assert read(path, monkeypatch, block=150, workers=2, on_bad_line=policy) == whole


class DyingParser:
    """A parser that ends every other process."""

    def __init__(self) -> None:
        self.home = os.getpid()

    def batches(self, block, bad, counts):
        if os.getpid() != self.home:
            os._exit(9)
        yield pa.record_batch({"line": [block.first_line]})


def test_blocks_of_dead_processes_are_parsed_here(monkeypatch):
    monkeypatch.setattr(block_parsing, "_BYTES_PARSED_HERE", 0)
    blocks = [input_source.Block(b"x\n", number) for number in range(1, 9)]
    parsing = block_parsing.BlockParsing(block_parsing.BadLines(OnBadLine.FAIL), block_parsing.LogCounts(), 1)
    with parsing:
        rows = [row["line"] for batch in parsing.batches(DyingParser(), blocks) for row in batch.to_pylist()]
    assert rows == list(range(1, 9))


class SlowParser:
    """A parser that takes its time in other processes."""

    def batches(self, block, bad, counts):
        time.sleep(30)
        yield pa.record_batch({"line": [block.first_line]})


def test_an_interrupt_ends_the_processes(monkeypatch):
    monkeypatch.setattr(block_parsing, "_BYTES_PARSED_HERE", 0)
    parsing = block_parsing.BlockParsing(block_parsing.BadLines(OnBadLine.FAIL), block_parsing.LogCounts(), 1)
    timer = threading.Timer(3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), parsing:
        list(parsing.batches(SlowParser(), [input_source.Block(b"x\n", 1)]))
    timer.cancel()
    assert time.monotonic() - started < 25


def test_a_value_of_several_lines_at_the_end_of_a_block_stays_whole(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text('id,name,at\n1,"a\nb",\n2,"c\nd",\n')
    monkeypatch.setattr(csv_rows, "_VALUES_LOOKED_AT", 1)
    for block in range(1, 40):
        found, *_ = read(tmp_path / "a.csv", monkeypatch, block=block)
        assert [row["name"] for row in found] == ["a\nb", "c\nd"]


def test_small_files_start_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(block_parsing.BlockParsing, "_start_workers", lambda _: pytest.fail("a process starts"))
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n' * 100)
    files = InputFiles([str(tmp_path / "a.jsonl")], InputOptions())
    assert sum(batch.num_rows for batch in files.batches(SCHEMA)) == 100


def test_only_logs_start_processes_by_default(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(block_parsing, "_BYTES_PARSED_HERE", 0)
    monkeypatch.setattr(block_parsing.BlockParsing, "_start_workers", lambda _: started.append(True))
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "a.log").write_text("2026-01-01 10:00:00 INFO started\n")
    for name, is_started in (("a.jsonl", False), ("a.csv", False), ("a.log", True)):
        files = InputFiles([str(tmp_path / name)], InputOptions())
        assert sum(batch.num_rows for batch in files.batches(files.guess_schema())) == 1
        assert bool(started) == is_started


def test_few_blocks_wait_at_a_time(monkeypatch):
    monkeypatch.setattr(block_parsing, "_BYTES_PARSED_HERE", 0)
    taken = []

    def blocks():
        for number in range(1, 31):
            taken.append(number)
            yield input_source.Block(b"x\n", number)

    parsing = block_parsing.BlockParsing(block_parsing.BadLines(OnBadLine.FAIL), block_parsing.LogCounts(), 1)
    with parsing:
        for done, _ in enumerate(parsing.batches(LineParser(), blocks()), 1):
            assert len(taken) <= done + 3
    assert len(taken) == 30


class LineParser:
    is_slow = True

    def batches(self, block, bad, counts):
        yield pa.record_batch({"line": [block.first_line]})
