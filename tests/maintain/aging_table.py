"""A table in memory whose files are as old as a test wants, and a clock that stands still in between."""

from __future__ import annotations

import itertools
import uuid

from tests.aging import AgingStore
from tests.conftest import SCHEMA, make_add

import indextables as it
from indextables.config import Config
from indextables.maintain.purge.purge import purge
from indextables.protocol.horizon import horizon_of
from indextables.runtime.pools import InlinePools
from indextables.store import open_store

HOUR_MS = 3_600_000
UNCHECKED = {"purge.retentionCheckEnabled": "false"}
_tables = itertools.count()


class StillClock:
    """Time passes when the test says so; nobody sleeps."""

    def __init__(self) -> None:
        self.ms = 10**12

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def sleep(self, seconds: float) -> None:
        return

    def uniform(self) -> float:
        return 0.5

    def uuid(self) -> str:
        return str(uuid.uuid4())


class AgingTable:
    """The table, and what a test does with it. Splits are a few bytes: nobody reads them here."""

    def __init__(self, **options) -> None:
        self.url = f"memory://aging-{next(_tables)}/table"
        self.clock = StillClock()
        self.options = {"checkpoint.interval": 10**6, "cache.disk.enabled": "false", **options}
        self.inner = open_store(self.url, Config.resolve())
        self.modified_ms: dict[str, int] = {}
        self.store = AgingStore(self.inner, self.clock.now_ms, self.modified_ms)
        self.log().initialize(SCHEMA)

    def log(self, store=None, **options) -> it.TransactionLog:
        return it.TransactionLog(
            self.url,
            options={**self.options, **options},
            store=store or self.store,
            clock=self.clock,
            pools=InlinePools(),
        )

    def wait(self, hours: float) -> None:
        self.clock.ms += int(hours * HOUR_MS)

    def put(self, *keys: str) -> None:
        for key in keys:
            self.store.put(key, f"content of {key}".encode())

    def append(self, *keys: str, log: it.TransactionLog | None = None) -> int:
        self.put(*keys)
        return (log or self.log()).add_files([make_add(key) for key in keys])

    def overwrite(self, *keys: str) -> int:
        self.put(*keys)
        return self.log().overwrite_files([make_add(key) for key in keys])

    def merge(self, sources: list[str], target: str) -> int:
        self.put(target)
        return self.log().replace_files(sources, [make_add(target)])

    def purge(self, hours: int | None = 24, *, store=None, options=None, **arguments) -> dict:
        """The row of a purge, by a handle of its own."""
        older_than = None if hours is None else f"{hours} hours"
        (row,) = purge(self.log(store, **(options or {})), older_than=older_than, **arguments).to_pylist()
        return row

    @property
    def horizon(self) -> int:
        return horizon_of(self.log().metadata().configuration)

    @property
    def newest(self) -> int:
        return self.log().snapshot().version

    @property
    def splits(self) -> set[str]:
        return {meta.key for meta in self.inner.list() if meta.key.endswith(".split")}

    @property
    def content(self) -> dict[str, bytes]:
        return {meta.key: self.inner.get(meta.key) for meta in self.inner.list()}
