"""Small tables of many splits, and what has to stay as it is when they are merged."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable

import pyarrow as pa
from tests.doubles.faulty_store import Call, Fault, FaultyStore

import indextables as it
from indextables.clock import SystemClock
from indextables.config import Config
from indextables.runtime.pools import InlinePools
from indextables.store import ObjectStore, open_store

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string())])
INDEXING = {"spark.indextables.indexing.typemap.message": "text"}
HOUR_MS = 3_600_000
_places = itertools.count()


class OwnClock(SystemClock):
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


def memory_store() -> ObjectStore:
    """A store of its own."""
    return open_store(f"memory://merge-{next(_places)}/table", Config.resolve())


def open_log(store: ObjectStore, clock: OwnClock | None = None, **options: str) -> it.TransactionLog:
    """A log that works on this very store and in this thread."""
    given = {"clock": clock} if clock else {}
    return it.TransactionLog(store.location.url, store=store, pools=InlinePools(), options=options, **given)


def new_log(store: ObjectStore, clock: OwnClock | None = None, **options: str) -> it.TransactionLog:
    """A new table, partitioned by day."""
    log = open_log(store, clock, **options)
    log.initialize(SCHEMA, partition_columns=("day",), configuration=INDEXING)
    return log


def table_of(log: it.TransactionLog) -> it.Table:
    return it.Table(log, log.snapshot())


def append(log: it.TransactionLog, ids: Iterable[int], day: str | None = "1") -> str:
    """Rows as one split; answers with its path."""
    before = set(log.snapshot().files["path"].to_pylist())
    rows = [{"id": number, "message": f"disk {number} is full", "day": day} for number in ids]
    table_of(log).append(pa.Table.from_pylist(rows, schema=SCHEMA))
    (path,) = set(log.snapshot().files["path"].to_pylist()) - before
    return path


def paths(log: it.TransactionLog) -> list[str]:
    return sorted(log.snapshot().files["path"].to_pylist())


def split_keys(store: ObjectStore) -> list[str]:
    """The splits that are in the store, live or not."""
    return sorted(meta.key for meta in store.list("") if meta.key.endswith(".split"))


def seen(log: it.TransactionLog, **how) -> tuple:
    """What people see of a table: its rows, and what queries find."""
    table = table_of(log)
    rows = Counter(tuple(row.values()) for row in table.search(**how).to_pylist())
    queries = ("disk", "message:3", "message:[2 TO 5] AND NOT message:4", 'message:"7 is full"', "id:>4")
    return rows, [table.count(query, **how) for query in queries]


def ids(log: it.TransactionLog) -> list[int]:
    return sorted(table_of(log).search()["id"].to_pylist())


def failing(store: ObjectStore, fault: Fault, fails: Callable[[Call], bool]) -> FaultyStore:
    """A store where every call that `fails` says goes wrong in one way."""
    return FaultyStore(store, lambda call: fault if fails(call) else Fault.NONE)


def flip(store: ObjectStore, path: str, offset: int) -> None:
    """Damage one byte of an object."""
    data = bytearray(store.get(path))
    data[offset] ^= 0xFF
    store.put(path, bytes(data))


def shuffled(values: list, seed: int) -> list:
    return random.Random(seed).sample(values, len(values))
