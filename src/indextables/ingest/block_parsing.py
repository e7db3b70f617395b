"""Parse blocks of files in order, the later ones in other processes.

A process takes a while to start, so small files are parsed here. Batches, counts and errors are those of one process:
results are taken in the order of the blocks, so the first bad line is the one that is reported. A few blocks wait at a
time. If a process dies, its block and all others are parsed here.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import signal
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import pyarrow as pa

from indextables.ingest.bad_lines import BadLines, LogCounts, OnBadLine
from indextables.ingest.input_source import Block
from indextables.runtime.processes import end_with

logger = logging.getLogger(__name__)

_BYTES_PARSED_HERE = 16 << 20
_MOST_WORKERS = 4
_WAITING_PER_WORKER = 2


class Parser(Protocol):
    """Parser of blocks; it pickles."""

    @property
    def is_slow(self) -> bool:
        """Whether parsing takes longer than passing rows between processes."""

    def batches(self, block: Block, bad: BadLines, counts: LogCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block; count bad lines and losses."""


class _Parsed(NamedTuple):
    """The rows of a block in Arrow's stream format, and what was counted."""

    stream: bytes
    num_skipped: int
    num_nulled: int
    counts: dict[str, int]


class BlockParsing:
    """Parses the blocks of several files; use it in a `with` block.

    `workers` is the number of processes, 0 for none. By default slow parsers have one less than there are cores, but at
    least one; others have none.
    """

    def __init__(self, bad: BadLines, counts: LogCounts, workers: int | None = None) -> None:
        self._bad = bad
        self._counts = counts
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._num_workers = min(_MOST_WORKERS, max(1, cores - 1)) if workers is None else workers
        self._is_for_all = workers is not None
        self._executor: Any = None
        self._num_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_workers()

    def batches(self, parser: Parser, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the blocks in order."""
        waiting: collections.deque[tuple[Block, Any]] = collections.deque()
        for block in blocks:
            if not self._begins_workers(parser, len(block.data)):
                yield from self._taken(parser, waiting)
                yield from parser.batches(block, self._bad, self._counts)
                continue
            waiting.append((block, self._submit(parser, block)))
            if len(waiting) > self._num_workers * _WAITING_PER_WORKER:
                yield from self._next(parser, waiting)
        yield from self._taken(parser, waiting)

    def _taken(self, parser: Parser, waiting: collections.deque[tuple[Block, Any]]) -> Iterator[pa.RecordBatch]:
        while waiting:
            yield from self._next(parser, waiting)

    def _begins_workers(self, parser: Parser, num_bytes: int) -> bool:
        """Return whether there are processes; start them for the rest of large files."""
        if not (self._is_for_all or parser.is_slow):
            return False
        self._num_bytes += num_bytes
        if self._executor is None and self._num_workers and self._num_bytes > _BYTES_PARSED_HERE:
            self._start_workers()
        return self._executor is not None

    def _start_workers(self) -> None:
        import loky

        try:
            self._executor = loky.ProcessPoolExecutor(
                self._num_workers, initializer=_begin_worker, initargs=(os.getpid(),)
            )
        except (OSError, ImportError, NotImplementedError) as error:  # a host without semaphores
            logger.info("files are parsed in this process, because no other can be started: %s", error)
            self._num_workers = 0

    def _submit(self, parser: Parser, block: Block) -> Any:
        """Return the future of a block; None if the processes are gone."""
        import loky

        try:
            return self._executor.submit(_parse, parser, block, self._bad.policy)
        except (loky.BrokenProcessPool, OSError, RuntimeError) as error:
            logger.info("a process that parsed a file has ended: %s", error)
            return None

    def _next(self, parser: Parser, waiting: collections.deque[tuple[Block, Any]]) -> Iterator[pa.RecordBatch]:
        import loky

        block, future = waiting.popleft()
        try:
            parsed: _Parsed | None = None if future is None else future.result()
        except loky.BrokenProcessPool as error:
            logger.info("a process that parsed a file has ended: %s", error)
            parsed = None
        if parsed is None:
            self._num_workers = 0
            self._end_workers()
            yield from parser.batches(block, self._bad, self._counts)
            return
        self._bad.skipped += parsed.num_skipped
        self._bad.nulled += parsed.num_nulled
        for name, count in parsed.counts.items():
            setattr(self._counts, name, getattr(self._counts, name) + count)
        if parsed.stream:
            with pa.ipc.open_stream(parsed.stream) as batches:
                yield from batches

    def _end_workers(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, kill_workers=True)


def _begin_worker(parent: int) -> None:
    """Leave interrupts to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


def _parse(parser: Parser, block: Block, policy: OnBadLine) -> _Parsed:
    bad, counts = BadLines(policy), LogCounts()
    sink = pa.BufferOutputStream()
    with contextlib.ExitStack() as cleanup:
        stream: pa.RecordBatchStreamWriter | None = None
        for batch in parser.batches(block, bad, counts):
            if stream is None:
                stream = cleanup.enter_context(pa.ipc.new_stream(sink, batch.schema))
            stream.write_batch(batch)
    return _Parsed(sink.getvalue().to_pybytes(), bad.skipped, bad.nulled, vars(counts))
