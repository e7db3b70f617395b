"""Distribute work to the workers of a Spark session, classic or Connect.

Functions and items travel inside the function that Spark runs, and results return as bytes: items may hold handles with
credentials, and rows would appear in plans and shuffle files. Spark may run a task several times; it returns the rows
of one run of each.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from indextables.clock import SYSTEM_CLOCK
from indextables.errors import IndexTablesError
from indextables.location import redact
from indextables.maintain.workers import Workers
from indextables.runtime.cancellation import current_cancellation
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import find_own_error

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Task = Callable[[Iterable[int]], Iterator[tuple[int, bytes]]]

_SCHEMA = "place long, outcome binary"
_ARROW_SCHEMA = pa.schema([("place", pa.int64()), ("outcome", pa.binary())])
_DESCRIPTION = "spark.job.description"
_RAISED_IN_PYTHON = re.compile(r"^(?!org\.|java\.|scala\.)[\w.]+(?:Error|Exception): .+$", re.MULTILINE)


class SparkWorkers:
    """The workers of a session. A single item runs there too: the driver may be small."""

    def __init__(self, spark: Any) -> None:
        self._jobs = _ClassicJobs(spark) if gateway.is_classic(spark) else _ConnectJobs(spark)

    @property
    def spark(self) -> Any:
        """The session."""
        return self._jobs.spark

    def run(
        self, work: Callable[[_Item], _Result], items: Sequence[_Item], *, at_once: int | None = None
    ) -> Iterator[tuple[int, _Result]]:
        """Yield the index and result of each item, after all have finished.

        If items fail, raise the error of the lowest index instead.
        """
        if not items:
            return
        num_tasks = min(len(items), at_once or len(items))
        do = functools.partial(_outcomes, pickle.dumps((work, list(items))))
        outcomes: dict[int, _Outcome] = {}
        for place, pickled in self._collect(do, len(items), num_tasks, _describe(work, len(items))):
            outcomes.setdefault(place, pickle.loads(pickled))  # noqa: S301 - written by our own tasks
        for place in range(len(items)):
            if place not in outcomes:
                raise IndexTablesError(f"cannot finish because Spark returned no result for part {place} of the work")
            if (error := outcomes[place].error) is not None:
                raise error
        for place in range(len(items)):
            yield place, outcomes[place].result

    def _collect(self, do: _Task, num_items: int, num_tasks: int, description: str) -> list[tuple[int, bytes]]:
        cancellation = current_cancellation()
        tag = f"indextables-{SYSTEM_CLOCK.uuid()}"
        interrupt = functools.partial(_interrupt, self._jobs, tag)
        with contextlib.nullcontext() if cancellation is None else cancellation.notifying(interrupt):
            try:
                with self._jobs.named(tag, description):
                    return self._jobs.collect(do, num_items, num_tasks)
            except (PySparkException, Py4JError) as error:
                if cancellation is not None:
                    cancellation.check()
                raise _own_error(error) from None


class _ClassicJobs:
    """Jobs of a classic session, without `mapInArrow`, because it needs pandas."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def collect(self, do: _Task, num_items: int, num_tasks: int) -> list[tuple[int, bytes]]:
        """Run `do` on the indexes of all items in `num_tasks` tasks, and collect."""
        return self.spark.sparkContext.parallelize(range(num_items), num_tasks).mapPartitions(do).collect()

    @contextlib.contextmanager
    def named(self, tag: str, description: str) -> Iterator[None]:
        """Tag the jobs of this thread for interruption, and describe them in Spark's UI."""
        context = self.spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(description)
        context.addJobTag(tag)
        try:
            yield
        finally:
            context.removeJobTag(tag)
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]

    def interrupt(self, tag: str) -> None:
        self.spark.sparkContext.cancelJobsWithTag(tag)


class _ConnectJobs:
    """Jobs of a Connect session."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    def collect(self, do: _Task, num_items: int, num_tasks: int) -> list[tuple[int, bytes]]:
        """Run `do` on the indexes of all items in `num_tasks` tasks, and collect."""

        def in_arrow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for place, outcome in do(batch.column(0).to_pylist()):
                    yield pa.RecordBatch.from_arrays([[place], [outcome]], schema=_ARROW_SCHEMA)

        rows = self.spark.range(0, num_items, 1, num_tasks).mapInArrow(in_arrow, _SCHEMA).collect()
        return [(row.place, bytes(row.outcome)) for row in rows]

    @contextlib.contextmanager
    def named(self, tag: str, description: str) -> Iterator[None]:
        """Tag operations of this thread for interruption; Connect has no descriptions."""
        self.spark.addTag(tag)
        try:
            yield
        finally:
            self.spark.removeTag(tag)

    def interrupt(self, tag: str) -> None:
        self.spark.interruptTag(tag)


class _Outcome(NamedTuple):
    """Result or error of one item in a task."""

    result: Any = None
    error: BaseException | None = None


def _outcomes(pickled: bytes, places: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Work on the items of one task, given by their indexes."""
    work, items = pickle.loads(pickled)  # noqa: S301 - pickled by the driver
    for place in places:
        yield place, _pickled_outcome(work, items[place])


def _pickled_outcome(work: Callable[[Any], Any], item: Any) -> bytes:
    """Run the work on one item and return its outcome, pickled.

    Errors are outcomes, too: Spark would retry a task that raises, and turn the error into text.
    """
    try:
        return pickle.dumps(_Outcome(result=work(item)))
    except IndexTablesError as error:
        return pickle.dumps(_Outcome(error=error.with_traceback(None)))
    except Exception as error:  # noqa: BLE001 - raised again by the driver
        text = redact(f"cannot finish because a part of the work failed with {type(error).__name__}: {error}")
        return pickle.dumps(_Outcome(error=IndexTablesError(text)))


def _describe(work: Callable[[Any], Any], num_items: int) -> str:
    """Describe the work by its module and number of items, never by the items."""
    function = work.func if isinstance(work, functools.partial) else work
    room = getattr(function, "__module__", None) or "work"
    return f"indextables: {room.rpartition('.')[2]}, {num_items} {'part' if num_items == 1 else 'parts'}"


def _own_error(error: Exception) -> IndexTablesError:
    own = find_own_error(str(error))
    if own is not None:
        return own
    text = str(error).strip()
    said = next(iter(reversed(_RAISED_IN_PYTHON.findall(text))), text.partition("\n")[0])
    return IndexTablesError(
        f"cannot finish because Spark could not do a part of the work: {redact(said)}",
        hint="Spark's own log says more; where a worker ran out of memory, give it less to do at once",
    )


def _interrupt(jobs: _ClassicJobs | _ConnectJobs, tag: str) -> None:
    with contextlib.suppress(PySparkException, Py4JError, OSError):  # the session has stopped with its jobs
        jobs.interrupt(tag)


class _Offer:
    """The workers of the session that was enabled last and still runs.

    A forked child gets none, because it shares the connection to Java with its parent.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._sessions: list[weakref.ref[SparkSession]] = []

    def add(self, spark: SparkSession) -> None:
        with self._lock:
            self._process = os.getpid()
            known = [ref for ref in self._sessions if ref() not in (None, spark)]
            self._sessions = [*known, weakref.ref(spark)]

    def workers(self) -> Workers | None:
        """Return the workers for `offer_workers`; None if no session runs."""
        if os.getpid() != self._process:
            return None
        with self._lock:
            sessions = [ref() for ref in reversed(self._sessions)]
        running = SparkContext._active_spark_context
        alive = (spark for spark in sessions if spark is not None and running is spark._sc)
        spark = next(alive, None)
        return None if spark is None or running is None or running._jsc is None else SparkWorkers(spark)


enabled_workers = _Offer()
