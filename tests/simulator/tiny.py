"""Splits of a few bytes, for histories over rows by the thousand.

What stands in: the codec of splits alone. A tiny split is the ids of its rows and a checksum, put by one put, where a
real one is Parquet with an index. It takes the place of the real one where the operations ask for splits: the writer of
rows, the combining of a merge, the opening by a search, and the checks of fsck. Threads that would read parts of splits
side by side are one.

What is real: the log and its commits, states and checkpoints of every format, the planning and committing of writes,
merges, purges, restores, drops and truncations, searches down to the split, fsck, and what a stream follows.
"""

from __future__ import annotations

import contextlib
import struct
import types
import zlib
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from indextables.config import Config
from indextables.errors import ConfigError, CorruptSplitError, StorageError
from indextables.maintain import restore
from indextables.maintain.fsck import check_splits
from indextables.maintain.merge import merge_splits
from indextables.protocol.actions import Add
from indextables.protocol.paths import split_path
from indextables.runtime.caching import BoundedCache
from indextables.runtime.pools import InlinePools
from indextables.scan import split_scan
from indextables.split.combine import BadSourcesError
from indextables.split.search import open_splits
from indextables.split.search.split_rows import SplitRows
from indextables.store import ObjectStore
from indextables.writer import split_rows

SHELVES = (1, 2, None)
SCHEMA = pa.schema([("id", pa.int64()), ("shelf", pa.int32()), ("message", pa.string())])
_HEAD = struct.Struct("<4sIQ")
_MAGIC = b"tiny"


def shelf_of(row: int) -> int | None:
    """The partition of a row: its id says it."""
    return SHELVES[row % 3]


def rows(ids: Sequence[int]) -> pa.Table:
    """Rows of the table, by their ids."""
    columns = {"id": list(ids), "shelf": [shelf_of(row) for row in ids], "message": [f"row {row}" for row in ids]}
    return pa.table(columns, SCHEMA)


def encode(ids: Sequence[int], split_id: int) -> bytes:
    """A tiny split."""
    body = struct.pack(f"<{len(ids)}q", *ids)
    return _HEAD.pack(_MAGIC, zlib.crc32(body), split_id & (1 << 64) - 1) + body


def decode(data: bytes, key: str = "?") -> list[int]:
    """The ids in a tiny split."""
    magic, checksum, _ = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if magic != _MAGIC or zlib.crc32(body) != checksum:
        raise CorruptSplitError(f"cannot read the split `{key}` because it is damaged")
    return [row for (row,) in struct.iter_unpack("<q", body)]


def is_tiny(data: bytes) -> bool:
    """Whether a split is a tiny one."""
    return data.startswith(_MAGIC)


class TinySplit:
    """A tiny split that was opened: what operations ask of a split file."""

    schema = SCHEMA

    def __init__(self, key: str, data: bytes) -> None:
        self.key = key
        self.size = len(data)
        self._ids = decode(data, key)
        self.num_rows = len(self._ids)

    @classmethod
    def open(cls, store: ObjectStore, path: str, *, size: int, **footer: object) -> TinySplit:
        data = store.get(path)
        if len(data) != size:
            raise CorruptSplitError(f"cannot read the split `{path}` because it has {len(data)} bytes of {size}")
        return cls(path, data)

    @property
    def ids(self) -> list[int]:
        return self._ids

    def check_start(self) -> None:
        """All bytes were decoded when it was opened."""

    def rows(self, numbers: pa.Array | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        table = rows(self._ids if numbers is None else [self._ids[at] for at in numbers.to_pylist()])
        yield from table.select(list(columns or SCHEMA.names)).to_batches()


class TinyWriter:
    """Stands in for the writer of splits: one split for the rows of one partition."""

    clock: object  # the clock of the world that runs

    def __init__(
        self,
        store: ObjectStore,
        schema: pa.Schema,
        config: Config,
        *,
        partition_columns: Sequence[str],
        partition_values: Mapping[str, str | None],
        adds: list[Add],
    ) -> None:
        self._store = store
        self._columns = tuple(partition_columns)
        self._values = dict(partition_values)
        self._ids: list[int] = []
        self.adds = adds

    def __enter__(self) -> TinyWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._ids = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._ids += batch.column("id").to_pylist()

    def finish(self) -> list[Add]:
        if self._ids:
            self.adds.append(_put(self._store, self._ids, self._columns, self._values, TinyWriter.clock))
        return self.adds


class TinySplits:
    """Stands in for the splits that a table keeps open; none stays open here."""

    at_once = 1

    def __init__(self, store: ObjectStore, config: Config) -> None:
        self.store = store
        self.is_remote = store.is_remote
        self.groups, self.left_files, self.sheets = BoundedCache(64), BoundedCache(1), BoundedCache(1 << 20)

    def get(self, path: str, *, size: int, **footer: object) -> types.SimpleNamespace:
        split = TinySplit.open(self.store, path, size=size)
        return types.SimpleNamespace(split=split, rows=SplitRows(split, path, None, lambda num_bytes: None))


def combine(store, sources, schema, config, *, partition_columns, partition_values, clock) -> Add:
    """Stands in for the combining of a merge: sources that cannot be read are told, as the real one does."""
    if not sources:
        raise ConfigError("cannot combine splits because the list is empty")
    splits, causes = [], {}
    for source in sources:
        try:
            splits.append(TinySplit.open(store, source.path, size=source.size))
        except (CorruptSplitError, StorageError) as error:
            causes[source.path] = error
    if causes:
        raise BadSourcesError.of(causes)
    ids = [row for split in splits for row in split.ids]
    num_merge_ops = (len(sources) > 1) + max(source.num_merge_ops or 0 for source in sources)
    return _put(store, ids, tuple(partition_columns), dict(partition_values), clock, num_merge_ops)


def _put(store, ids, columns, values, clock, num_merge_ops=0) -> Add:
    split_id = clock.uuid()
    data = encode(ids, int(split_id[:8], 16))
    path = split_path(columns, values, split_id)
    store.put(path, data)
    return Add(
        path=path,
        partition_values={name: value for name, value in values.items() if value is not None},
        size=len(data),
        modification_time=clock.now_ms(),
        data_change=True,
        num_records=len(ids),
        num_merge_ops=num_merge_ops,
    )


_SEAM = (
    (split_rows, "SplitWriter", TinyWriter),
    (merge_splits, "combine_splits", combine),
    (open_splits, "OpenSplits", TinySplits),
    (check_splits, "SplitFile", TinySplit),
    (check_splits, "check_index", lambda split, config: None),
    (check_splits, "statistics_problems", lambda add, schema, statistics: []),
    (check_splits, "is_of_another_format", lambda store, add: False),
    (split_scan, "SHARED_POOLS", InlinePools()),
    (restore, "SHARED_POOLS", InlinePools()),
)


@contextlib.contextmanager
def tiny_splits(clock: object) -> Iterator[None]:
    """Splits are tiny for a while, and dated by a clock."""
    before = [getattr(module, name) for module, name, _ in _SEAM]
    TinyWriter.clock = clock
    for module, name, stand_in in _SEAM:
        setattr(module, name, stand_in)
    try:
        yield
    finally:
        for (module, name, _), original in zip(_SEAM, before, strict=True):
            setattr(module, name, original)
