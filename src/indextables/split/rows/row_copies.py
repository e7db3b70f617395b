"""Decoded copies of hot splits: Arrow on local disk, mapped into memory.

Decoding takes most of the time of a search with few hits. A copy takes about three times the space of the rows in a
split, so it is made once the decoding that was spent on a split exceeds a full decode. It has the split's own columns,
in types that Arrow takes into new memory: for example, a column of a dictionary is stored by its values. A nested
column of other types is left out, and is read by pages.

Rows are copied out: no answer refers to a mapped file, and a copy can be removed at any time.
"""

from __future__ import annotations

import bisect
import itertools
import logging
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array, to_scalar
from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config, settings
from indextables.runtime.caching import BoundedCache, in_turn
from indextables.split.rows.column_reader import cast_values
from indextables.split.rows.copy_files import FULL, CopyFiles, Facts, arrow_bytes, copy_name, facts_of

_IDENTITY = b"indextables.split"
_MOST_SHARE = 0.25
_MOST_MAPPED = 2_000
_MOST_JOINED = 1_000
_JOINED_BYTES = 32 << 10
_FEW_ROWS = 64
_SMALL_CHUNK_ROWS = 1_024

logger = logging.getLogger(__name__)


class Piece(NamedTuple):
    """Rows of one batch of a copy, by number in the batch."""

    copy: RowCopy
    batch: pa.RecordBatch
    rows: pa.Array[Any]


class RowCopy:
    """The decoded rows of a split, mapped into memory."""

    def __init__(self, key: str, batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> None:
        """Hold the batches of a copy; `schema` is the schema of the split `key`."""
        self.key = key
        self.schema = schema
        self.columns = frozenset(_stored_schema(schema).names)
        self._batches = [batch for batch in batches if batch.num_rows]
        self._ends = list(itertools.accumulate(batch.num_rows for batch in self._batches))
        self._joins: dict[str, bool] = {}

    def pieces(self, numbers: pa.Array[Any]) -> list[Piece] | None:
        """Return where the rows are; None unless the numbers ascend and exist."""
        values = memoryview(numbers.buffers()[1]).cast("Q")[numbers.offset : numbers.offset + len(numbers)]
        if not self._ends or values[-1] >= self._ends[-1]:
            return None
        if len(self._batches) == 1:
            return [Piece(self, self._batches[0], numbers)]
        if not pc.all(pc.less(numbers[:-1], numbers[1:]), min_count=0).as_py():
            return None
        found, low = [], 0
        while low < len(values):
            at = bisect.bisect_right(self._ends, values[low])
            high = bisect.bisect_left(values, self._ends[at], low)
            first = self._ends[at] - self._batches[at].num_rows
            found.append(Piece(self, self._batches[at], _shifted(numbers[low:high], -first)))
            low = high
        return found

    def joins(self, name: str) -> bool:
        """Return whether a column is taken faster together with other copies.

        Arrow first joins the arrays, so they must be small.
        """
        known = self._joins.get(name)
        if known is None:
            column = self._batches[0].column(name)
            known = bool(_is_simple(column.type) and column.nbytes <= _JOINED_BYTES)
            self._joins[name] = known
        return known


def take_pieces(pieces: Sequence[Piece], names: Sequence[str]) -> pa.Table:
    """Return columns of rows in copies with the same columns, by one take a column.

    The types are the split's own.
    """
    schema = pieces[0].copy.schema
    if len(pieces) == 1:
        taken = pieces[0].batch.select(names).take(pieces[0].rows)
        columns = [pa.chunked_array([column]) for column in taken.columns]
    else:
        columns = _take_many(pieces, names)
    fields = [schema.field(name) for name in names]
    columns = [cast_values(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=schema.metadata))


def _take_many(pieces: Sequence[Piece], names: Sequence[str]) -> list[pa.ChunkedArray[Any]]:
    joined = [name for name in names if len(pieces) <= _MOST_JOINED and all(p.copy.joins(name) for p in pieces)]
    apart = [name for name in names if name not in joined]
    found: dict[str, pa.ChunkedArray[Any]] = {}
    if joined:
        rows = _rows_of_all(pieces)
        for name in joined:
            found[name] = pa.chunked_array([piece.batch.column(name) for piece in pieces]).take(rows)
    if apart:
        table = pa.Table.from_batches([piece.batch.select(apart).take(piece.rows) for piece in pieces])
        if table.num_rows < _SMALL_CHUNK_ROWS * len(pieces):
            table = table.combine_chunks()
        found.update(zip(apart, table.columns, strict=True))
    return [found[name] for name in names]


def _rows_of_all(pieces: Sequence[Piece]) -> pa.Array[Any]:
    """Return the numbers of the rows in all batches, one after the other."""
    parts, few, before = [], [], 0
    for piece in pieces:
        if len(piece.rows) <= _FEW_ROWS:
            few += [row + before for row in piece.rows.to_pylist()]
        else:
            parts += [to_array(few, pa.uint64()), _shifted(piece.rows, before)]
            few = []
        before += piece.batch.num_rows
    return pa.concat_arrays([*parts, to_array(few, pa.uint64())])


def _shifted(numbers: pa.Array[Any], by: int) -> pa.Array[Any]:
    shift = to_scalar(abs(by), pa.uint64())
    return pc.add(numbers, shift) if by >= 0 else pc.subtract(numbers, shift)


class RowCopies:
    """Copies of the splits of this user, made where they pay."""

    def __init__(self, config: Config, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.files = CopyFiles(config, clock=clock)
        self._places: BoundedCache[str, tuple[str, str]] = BoundedCache(_MOST_MAPPED)
        self.is_on = config[settings.SEARCH_ROWS] == "decoded" and self.files.root is not None

    def find(self, identity: str, schema: pa.Schema, num_rows: int) -> RowCopy | None:
        """Return the copy of a split if there is one that is whole."""
        if not self.is_on:
            return None
        name, path = self._place(identity)
        facts = facts_of(path)
        known = _mapped.get(path)
        if known is not None and known.facts == facts:
            known.touch(self.files, name)
            return known.copy
        if facts is None:
            _mapped.drop(path)
            return None
        with in_turn(("row copy", path)):
            return self._open(name, facts, identity, schema, num_rows)

    def _place(self, identity: str) -> tuple[str, str]:
        """Return name and path of a copy, kept for the next search."""
        known = self._places.get(identity)
        if known is None:
            name = copy_name(identity)
            known = name, self.files.path(name)
            self._places.put(identity, known)
        return known

    def spend(self, identity: str, share: float) -> bool:
        """Count decoding as a share of a full decode; return whether a copy pays now.

        A split is read several times before it gets a copy, even if it is small.
        """
        count = max(1, int(min(share, _MOST_SHARE) * FULL))
        return self.is_on and self.files.spend(copy_name(identity), count)

    def make(self, identity: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], num_rows: int) -> int:
        """Make the copy of a split, and return its size; 0 if there is none.

        The end of `batches` before the last row means that the work is cancelled.
        """
        stored = _stored_schema(schema).with_metadata({_IDENTITY: identity.encode("utf-8", "surrogatepass")})
        if not stored.names:
            return 0

        def write(path: str) -> bool:
            written = 0
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, stored) as stream:
                for batch in batches:
                    stream.write_table(_as_stored(batch, stored))
                    written += batch.num_rows
                    if sink.tell() > self.files.max_bytes:
                        logger.info("the rows of %s are too large for a copy", identity)
                        return False
            return written == num_rows

        return self.files.make(copy_name(identity), write)

    def _open(self, name: str, facts: Facts, identity: str, schema: pa.Schema, num_rows: int) -> RowCopy | None:
        path = self.files.path(name)
        if not self.files.is_whole(name, facts):
            return None
        try:
            with pa.memory_map(path) as file:
                data = file.read_buffer(arrow_bytes(facts.size))
            stream = pa.ipc.open_stream(data)
            batches = list(stream)
        except (pa.ArrowException, OSError, MemoryError) as error:
            # There may be no room for the mapping: then the pages are read.
            logger.info("cannot map the row copy %s: %s", name, error)
            return None
        expected = _stored_schema(schema)
        is_ours = (stream.schema.metadata or {}).get(_IDENTITY) == identity.encode("utf-8", "surrogatepass")
        if (
            not is_ours
            or not stream.schema.equals(expected)
            or sum(batch.num_rows for batch in batches) != num_rows
            or self.files.facts(name) != facts
        ):
            logger.info("dropping the row copy %s, which is not of its split", name)
            self.files.remove(name)
            return None
        copy = RowCopy(identity, batches, _interned.setdefault(schema.serialize().to_pybytes(), schema))
        _mapped.put(path, _Mapped(facts, copy))
        return copy


class _Mapped:
    """A mapped copy, and the facts of its file."""

    def __init__(self, facts: Facts, copy: RowCopy) -> None:
        self.facts = facts
        self.copy = copy
        self._uses = 0

    def touch(self, files: CopyFiles, name: str) -> None:
        """Note the use of a copy on disk, not every time."""
        self._uses += 1
        if self._uses % _FEW_ROWS == 1:
            files.touch(name)


class _MappedCopies(BoundedCache[str, _Mapped]):
    def drop(self, path: str) -> None:
        self._entries.pop(path, None)


_mapped = _MappedCopies(_MOST_MAPPED)
# The schemas of copies, so that equal ones are the same object.
_interned: weakref.WeakValueDictionary[bytes, pa.Schema] = weakref.WeakValueDictionary()


def _stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a copy."""
    kinds = [(field.name, _stored_type(field.type)) for field in schema]
    return pa.schema([pa.field(name, kind) for name, kind in kinds if kind is not None])


def _stored_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type by which a copy stores a column; None if it does not."""
    if isinstance(kind, pa.BaseExtensionType):
        return _stored_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _stored_type(kind.value_type)
    for is_view, plain in _PLAIN:
        if is_view(kind):
            return plain
    return kind if _is_plain(kind) else None


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether Arrow takes values of a type into memory of their own."""
    if isinstance(kind, pa.BaseExtensionType) or any(is_other(kind) for is_other in _OTHERS):
        return False
    return all(_is_plain(kind.field(index).type) for index in range(kind.num_fields))


def _is_simple(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def _as_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    columns = [_as_plain(pa.chunked_array([batch.column(field.name)]), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _as_plain(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any]:
    if isinstance(column.type, pa.BaseExtensionType):
        storage = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        return _as_plain(storage, kind)
    return cast_values(column, kind)


_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary_view, pa.binary()),
)
_OTHERS: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_dictionary,
    pa.types.is_run_end_encoded,
    pa.types.is_string_view,
    pa.types.is_binary_view,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
    pa.types.is_union,
)
