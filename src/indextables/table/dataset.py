"""Live splits of a table as a pyarrow dataset.

Splits are Parquet files that contain their partition columns. Arrow reads them through the table's own store, so it
needs no credentials, and reads only verified footers. It verifies the checksum of every page.

Arrow reads with its own threads, and continues for a while after a scan is abandoned. A thread that calls Python while
the interpreter exits never returns, and Arrow would wait for it without end; so reading ends before the interpreter.
"""

from __future__ import annotations

import atexit
import functools
import io
import itertools
import operator
import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs

from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.errors import ObjectNotFoundError, StorageError
from indextables.log.snapshot import Snapshot
from indextables.predicate.bound import BoundColumn
from indextables.prune.partitions import PartitionValues
from indextables.runtime.caching import lazy_property
from indextables.split.search.open_splits import OpenSplits
from indextables.split.split_file import SplitFile
from indextables.store import ObjectStore

_FILE_COLUMNS = ["path", "size", "footer_start_offset", "footer_end_offset", "num_records"]
_WAIT_SECONDS = 0.02
_QUIET_WAITS = 15
_MOST_WAITS = 500


def split_dataset(snapshot: Snapshot, store: ObjectStore, config: Config) -> ds.FileSystemDataset:
    """Return the rows of a snapshot; filters on partition columns skip whole splits."""
    files = snapshot.files
    verifying = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.FileSystemDataset.from_paths(
        files["path"].to_pylist(),
        schema=snapshot.schema,
        format=ds.ParquetFileFormat(default_fragment_scan_options=verifying),
        filesystem=pa_fs.PyFileSystem(SplitFiles(store, config, files.select(_FILE_COLUMNS).combine_chunks())),
        partitions=_partition_expressions(snapshot),
    )


class SplitFiles(pa_fs.FileSystemHandler):  # type: ignore[misc]
    """Read-only file system of the splits of a table. It pickles."""

    def __init__(self, store: ObjectStore, config: Config, files: pa.Table) -> None:
        self._store = store
        self._config = config
        self._files = files
        self._opened = OpenSplits(store, config)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._store, self._config, self._files)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SplitFiles):
            return NotImplemented
        return self._store.location == other._store.location and self._files.equals(other._files)

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "indextables"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pa_fs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: pa_fs.FileSelector) -> list[pa_fs.FileInfo]:
        below = f"{selector.base_dir.rstrip('/')}/" if selector.base_dir else ""
        return [self._info(path) for path in self._numbers if path.startswith(below)]

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a split, and verify its footer."""
        with _calls:
            file = self._files.slice(self._number(path), 1).to_pylist()[0]
            return pa.PythonFile(_SplitBytes(self._opened.get(**file).split), mode="r")

    open_input_stream = open_input_file

    def _refuse(self, *_: object, **__: object) -> Any:
        raise StorageError(
            f"cannot change the files of `{self._store.location.url}` through a dataset because it only reads them",
            hint="write with `Table.append` or `Table.overwrite`",
        )

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refuse
    move = copy_file = open_output_stream = open_append_stream = _refuse

    def _info(self, path: str) -> pa_fs.FileInfo:
        number = self._numbers.get(path)
        if number is None:
            return pa_fs.FileInfo(path, pa_fs.FileType.NotFound)
        return pa_fs.FileInfo(path, pa_fs.FileType.File, size=self._files["size"][number].as_py())

    def _number(self, path: str) -> int:
        number = self._numbers.get(path)
        if number is None:
            raise ObjectNotFoundError(f"cannot read `{path}` because it is not a split of this dataset")
        return number

    @lazy_property
    def _numbers(self) -> dict[str, int]:
        return {path: number for number, path in enumerate(self._files["path"].to_pylist())}


class _Calls:
    """Running calls of Arrow's threads, and the files that Arrow has open.

    It has no lock, because a fork may happen at any time.
    """

    def __init__(self) -> None:
        self._is_ending = False
        self.forget()

    def forget(self) -> None:
        """Reset in a forked child, which has none of the threads."""
        self._running: deque[None] = deque()
        self._numbers = itertools.count(1)
        self._num_started = 0
        self.held: weakref.WeakSet[_SplitBytes] = weakref.WeakSet()

    def __enter__(self) -> None:
        self._num_started = next(self._numbers)
        if self._is_ending:
            raise StorageError("cannot read a split because the process is ending")
        self._running.append(None)

    def __exit__(self, *_: object) -> None:
        self._running.pop()

    def end(self) -> None:
        """Refuse further calls, and wait until Arrow stops calling and closes its files."""
        self._is_ending = True
        before, num_quiet = (0, 0), 0
        for _ in range(_MOST_WAITS):
            now = self._num_started, len(self.held)
            num_quiet = num_quiet + 1 if now == before and not self._running else 0
            if num_quiet >= (_QUIET_WAITS if self.held else 1):
                return
            before = now
            SYSTEM_CLOCK.sleep(_WAIT_SECONDS)


_calls = _Calls()
atexit.register(_calls.end)
os.register_at_fork(after_in_child=_calls.forget)


class _SplitBytes(io.RawIOBase):
    """Bytes of a split as a seekable file."""

    def __init__(self, split: SplitFile) -> None:
        super().__init__()
        _calls.held.add(self)
        self._split = split
        self._at = 0
        self._lock = threading.Lock()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._split.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        with _calls, self._lock:
            end = self._split.size if size is None or size < 0 else min(self._at + size, self._split.size)
            data = self._split.read_bytes(self._at, end) if self._at < end else b""
            self._at += len(data)
            return data


def _partition_expressions(snapshot: Snapshot) -> list[Any] | None:
    """Return an expression per split that is true for all its rows; None without any.

    The expressions use partition values. Floats are omitted, since NaN equals no value and both zeros are equal; values
    that cannot be read are omitted too.
    """
    values = PartitionValues(snapshot.files)
    columns: dict[str, tuple[Any, Any]] = {}
    for name in snapshot.partition_columns:
        kind = snapshot.schema.field(name).type
        if not pa.types.is_floating(kind):
            parsed, unreadable = values.read(BoundColumn((name,), kind))
            columns[name] = parsed.cast(kind), unreadable
    if not columns:
        return None
    texts = [zip(parsed.to_pylist(), unreadable.to_pylist(), strict=True) for parsed, unreadable in columns.values()]
    known: dict[object, Any] = {}
    found = []
    for row, key in enumerate(zip(*texts, strict=True)):
        if key not in known:
            known[key] = _expression(columns, row)
        found.append(known[key])
    return found


def _expression(columns: dict[str, tuple[Any, Any]], row: int) -> Any:
    """Conjunction over the partition columns of one split."""
    terms = [
        pc.equal(pc.field(name), parsed[row]) if parsed[row].is_valid else pc.is_null(pc.field(name))
        for name, (parsed, unreadable) in columns.items()
        if not unreadable[row].as_py()
    ]
    return functools.reduce(operator.and_, terms) if terms else pc.scalar(value=True)
