"""Writing of the filter sheet of a compacted state.

The hashes of all splits are fetched from their files and kept on local disk, then become columns, then rows. Memory
holds a few hundred splits at a time. A split without hashes, or one that cannot be read, is not covered. The sheet is
put last and whole. A sheet that exists and covers the same manifests stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import numbers_below
from indextables.config import Config, settings, store_settings
from indextables.errors import CorruptSplitError, IndexTablesError, ObjectNotFoundError, SchemaError
from indextables.filters.carried import Carried, carried_rows, find_carried
from indextables.filters.check_sheet import sheet_problem
from indextables.filters.columns import Geometry, choose_geometry, column_bits, cut_hashes, window_rows
from indextables.filters.sheet import (
    COLUMNS_PER_BLOCK,
    MOST_KINDS,
    ROW_ALIGNMENT,
    Block,
    Covered,
    Header,
    Kind,
    SheetError,
    encode_header,
    encode_window,
    pack_kinds,
    with_offsets,
)
from indextables.filters.sheet_source import read_sheet
from indextables.protocol.avro.file_entry import is_our_name
from indextables.protocol.avro.state_manifest import ManifestInfo, StateManifest, resolve_manifest_path
from indextables.protocol.names import LOG_DIRECTORY, parse_sheet_key, sheet_key
from indextables.runtime.pools import Pools
from indextables.runtime.resources import local_errors, open_file
from indextables.runtime.scratch import scratch_directory
from indextables.split.index.term_hashes import LOW_BITS, TermHashes
from indextables.split.split_file import SplitFile
from indextables.state.manifests import ManifestReader, StateFiles
from indextables.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

_PURPOSE = "filter-reading"
_MOST_WAITING = 32
_AT_ONCE = 256
_BYTES_AT_ONCE = 32 << 20
_FEW_FRESH = 10
_MOST_GROWTH = 1.5
_MOST_TERMS_AT_ONCE = 1 << 19
_MOST_BITS_AT_ONCE = 1 << 30
_COLUMNS = ["path", "size", "num_records", "footer_start_offset", "footer_end_offset"]


class SplitTerms(NamedTuple):
    """How a split is indexed, and the hashes of its terms."""

    kind: Kind
    hashes: TermHashes


ReadTerms = Callable[[ObjectStore, dict[str, Any]], SplitTerms | None]
"""Reads the terms of a split from the facts in the log; None if it has no hashes."""


def is_wanted(store: ObjectStore, config: Config) -> bool:
    """Return whether the settings ask for filter sheets in a store."""
    wanted = config[settings.STATE_FILTERS]
    return wanted == "on" or (wanted == "auto" and store.is_remote)


def large_runs(state: StateManifest, config: Config) -> dict[int, tuple[ManifestInfo, ...]]:
    """Return the manifests of each version that laid out enough entries for a sheet."""
    runs: dict[int, tuple[ManifestInfo, ...]] = {}
    for info in state.manifests:
        if info.run is not None and is_our_name(info.path):
            runs[info.run] = (*runs.get(info.run, ()), info)
    least = config[settings.STATE_FILTERS_MIN_SPLITS]
    return {run: infos for run, infos in runs.items() if sum(info.num_entries for info in infos) >= least}


def covered(infos: Sequence[ManifestInfo], state_version: int) -> tuple[Covered, ...]:
    """Return the manifests as a sheet names them."""
    return tuple(Covered(resolve_manifest_path(info.path, state_version), info.num_entries) for info in infos)


def write_sheets(
    store: ObjectStore, config: Config, pools: Pools, manifests: ManifestReader, state: StateManifest
) -> list[str]:
    """Write the missing sheets of a state, and return their keys.

    A sheet only saves requests: an error is logged, and nothing depends on it.
    """
    if not is_wanted(store, config):
        return []
    written = []
    for run, infos in large_runs(state, config).items():
        try:
            if SheetWriter(store, config, pools, StateFiles(state, manifests), run, infos).write():
                written.append(sheet_key(run))
        except (IndexTablesError, SheetError, pa.ArrowException) as error:
            logger.warning("no filter sheet of `%s`, the next compaction tries again: %s", store.location.url, error)
    return written


def read_terms(store: ObjectStore, file: dict[str, Any]) -> SplitTerms | None:
    """Read the hashes of a split; None if it has none, or cannot be read."""
    try:
        split = SplitFile.open(
            store,
            file["path"],
            size=file["size"],
            footer_start_offset=file["footer_start_offset"],
            footer_end_offset=file["footer_end_offset"],
            num_records=file["num_records"],
        )
        hashes = split.fine_filter()
    except (CorruptSplitError, ObjectNotFoundError, SchemaError) as error:
        logger.warning("the filter sheet leaves out a split: %s", error.message)
        return None
    if not isinstance(hashes, TermHashes):
        return None
    directory = split.directory
    kind = Kind(directory.engine, directory.engine_version, directory.doc_mapping, tuple(sorted(hashes.fields)))
    return SplitTerms(kind, hashes)


class SheetWriter:
    """Writer of the sheet of one run of manifests."""

    def __init__(
        self,
        store: ObjectStore,
        config: Config,
        pools: Pools,
        files: StateFiles,
        run: int,
        infos: Sequence[ManifestInfo],
        read: ReadTerms = read_terms,
    ) -> None:
        self._store = store
        self._config = config
        self._pools = pools
        self._files = files
        self._run = run
        self._infos = infos
        self._read = read
        self._workers = min(config[store_settings.STORE_PARALLELISM], _MOST_WAITING) if store.is_remote else 1

    def write(self) -> bool:
        """Write the sheet; return False if it exists, or would be of no use."""
        if self._covers_all(sheet_key(self._run)):
            return False
        parent = self._config[settings.INDEX_WRITER_TEMP_DIRECTORY_PATH]
        with scratch_directory(parent) as place, local_errors("write a filter sheet"):
            path = os.path.join(place, "sheet")
            if self._copy_of_same(path):
                self._store.put_file(sheet_key(self._run), path)
                return True
            if not self._build_any(path, place):
                return False
            self._store.put_file(sheet_key(self._run), path)
        return True

    def _build_any(self, path: str, place: str) -> bool:
        """Build the file with columns of an earlier sheet, or else from all splits."""
        spool = self._filled(os.path.join(place, "hashes"), self._find_carried())
        if spool.carried is not None and self._fits(spool):
            try:
                return self._build(spool, path, place)
            except (SheetError, ObjectNotFoundError) as error:
                logger.info("no column of `%s` is taken over: %s", spool.carried.sheet.key, error)
        if spool.carried is not None:
            spool = self._filled(spool.path, None)
        return self._build(spool, path, place)

    def _filled(self, path: str, carried: Carried | None) -> _Spool:
        """Read the hashes of the splits that no earlier sheet has."""
        with contextlib.closing(_Spool(path, carried)) as spool:
            for some in self._entries():
                first = spool.num_entries
                kinds = [None] * len(some) if carried is None else carried.kinds_of(first, len(some))
                fresh = [file for file, kind in zip(some, kinds, strict=True) if kind is None]
                found = iter(self._pools.map(_PURPOSE, self._terms, fresh, workers=self._workers))
                for kind in kinds:
                    spool.add(next(found) if kind is None else kind)
        return spool

    def _fits(self, spool: _Spool) -> bool:
        """Return whether the form of an earlier sheet fits the fresh splits."""
        if spool.carried is None:
            return True
        fresh = [at for at in spool.fresh_of(0) if spool.kinds_of_entries[at]]
        if len(fresh) * _FEW_FRESH <= spool.num_entries:
            return True
        wanted = choose_geometry([spool.exponents[at] for at in fresh], [spool.num_terms[at] for at in fresh], 1 << 62)
        return wanted is None or wanted.num_windows <= _MOST_GROWTH * spool.carried.geometry.num_windows

    def _find_carried(self) -> Carried | None:
        """Return columns of an earlier sheet, if all new ones fit into one block."""
        if sum(info.num_entries for info in self._infos) > COLUMNS_PER_BLOCK:
            return None
        entries = pa.concat_tables(self._files.paths_and_sizes(self._infos))
        return find_carried(self._store, self._files, entries, [meta.key for meta in self._sheets()])

    def _sheets(self) -> list[ObjectMeta]:
        """Return the sheets of the table, the newest first."""
        listed = self._store.list(f"{LOG_DIRECTORY}/filters")
        return [meta for meta in listed if parse_sheet_key(meta.key) is not None][::-1]

    def _covers_all(self, key: str) -> bool:
        """Return whether a sheet covers the manifests."""
        try:
            return read_sheet(self._store, key).header.manifests == self._covered
        except (SheetError, ObjectNotFoundError):
            return False

    def _copy_of_same(self, path: str) -> bool:
        """Copy a sheet of an earlier layout with the same manifests, if there is one."""
        same = next((meta for meta in self._sheets() if self._covers_all(meta.key)), None)
        if same is None or sheet_problem(self._store, same.key, deep=True) is not None:
            return False
        with open(path, "wb", opener=open_file) as file:
            for start in range(0, same.size, _BYTES_AT_ONCE):
                file.write(self._store.get_range(same.key, start, min(start + _BYTES_AT_ONCE, same.size)))
        return True

    @property
    def _covered(self) -> tuple[Covered, ...]:
        return covered(self._infos, self._files.state.state_version)

    def _entries(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the facts of some entries at a time, in order."""
        for table in self._files.entries(self._infos, _COLUMNS):
            for start in range(0, table.num_rows, _AT_ONCE):
                yield table.slice(start, _AT_ONCE).to_pylist()

    def _terms(self, file: dict[str, Any]) -> SplitTerms | None:
        return self._read(self._store, file)

    def _build(self, spool: _Spool, path: str, place: str) -> bool:
        """Build the file of the sheet; return False if it covers nothing."""
        geometries = self._geometries(spool)
        if not any(spool.kinds_of_entries) or None in geometries:
            return False
        blocks = [
            Block(0, min(COLUMNS_PER_BLOCK, spool.num_entries - start), geometry.num_windows, geometry.hash_bits)
            for start, geometry in zip(range(0, spool.num_entries, COLUMNS_PER_BLOCK), geometries, strict=True)
            if geometry is not None
        ]
        header = with_offsets(
            Header(
                manifests=self._covered,
                kinds=tuple(spool.kinds),
                kinds_of_entries=pack_kinds(bytes(spool.kinds_of_entries)),
                blocks=tuple(blocks),
            )
        )
        identity = hashlib.sha256(msgspec.msgpack.encode(header)).digest()[:16]
        with open(path, "wb", opener=open_file) as file:
            file.write(encode_header(header, identity))
            for number, block in enumerate(header.blocks):
                columns = os.path.join(place, "columns")
                num_fresh = _write_columns(spool, number, block, columns)
                with pa.memory_map(columns) as source:
                    geometry = Geometry(block.num_windows, block.hash_bits)
                    rows = window_rows(source.read_buffer(), num_fresh, geometry)
                    if spool.carried is not None:
                        rows = carried_rows(self._store, spool.carried, rows, num_fresh, 8 * block.row_bytes)
                    _write_windows(file, identity, number, block, rows)
                os.unlink(columns)
        return True

    def _geometries(self, spool: _Spool) -> list[Geometry | None]:
        room = self._config[settings.STATE_FILTERS_MAX_SIZE] // max(1, spool.num_entries)
        found: list[Geometry | None] = []
        for start in range(0, spool.num_entries, COLUMNS_PER_BLOCK):
            if spool.carried is not None:
                found.append(spool.carried.geometry)
                continue
            known = [at for at in spool.entries_of(start) if spool.kinds_of_entries[at]]
            exponents, num_terms = [spool.exponents[at] for at in known], [spool.num_terms[at] for at in known]
            # A block without any hashes is as small as possible.
            chosen = choose_geometry(exponents or [0], num_terms or [1], room)
            if chosen is None:
                logger.warning("no filter sheet of `%s`: its filters are larger than allowed", self._store.location.url)
            found.append(chosen)
        return found


class _Spool:
    """Hashes of all entries on local disk, and their facts in memory."""

    def __init__(self, path: str, carried: Carried | None) -> None:
        self.path = path
        self.carried = carried
        self.kinds: list[Kind] = []
        self.kinds_of_entries = bytearray()
        self.exponents = array("B")
        self.num_terms = array("Q")
        self._numbers: dict[Kind, int] = {}
        self._offsets = array("Q", [1])
        self._file = open(path, "wb", opener=open_file)  # noqa: SIM115 - closed by `close`
        self._file.write(b"\0")  # an empty file cannot be mapped

    @property
    def num_entries(self) -> int:
        return len(self.kinds_of_entries)

    def add(self, found: SplitTerms | Kind | None) -> None:
        """Append the hashes of an entry; an entry that is taken over has a kind alone."""
        kind = found.kind if isinstance(found, SplitTerms) else found
        number = 0 if kind is None else self._number_of(kind)
        exponent, num_terms, data = 0, 0, b""
        if isinstance(found, SplitTerms) and number:
            exponent, num_terms = found.hashes.exponent, found.hashes.num_terms
            data = b"".join(found.hashes.parts)
        self.kinds_of_entries.append(number)
        self.exponents.append(exponent)
        self.num_terms.append(num_terms)
        self._offsets.append(self._offsets[-1] + len(data))
        self._file.write(data)

    def close(self) -> None:
        self._file.close()

    def entries_of(self, start: int) -> range:
        """Return the entries of the block that starts at an entry."""
        return range(start, min(start + COLUMNS_PER_BLOCK, self.num_entries))

    def fresh_of(self, start: int) -> Sequence[int]:
        """Return the entries of a block without those that are taken over."""
        entries = self.entries_of(start)
        if self.carried is None:
            return entries
        found: list[int] = pc.indices_nonzero(pc.is_null(self.carried.columns)).to_pylist()
        return found

    def values(self, data: pa.Buffer, entry: int) -> pa.Array[Any]:
        """Return the hashes of an entry from the mapped file."""
        if self._offsets[entry] == self._offsets[entry + 1]:
            return numbers_below(0)
        stored = memoryview(data)[self._offsets[entry] : self._offsets[entry + 1]]
        return TermHashes.of_parts(self.exponents[entry], self.num_terms[entry], stored).values()

    def _number_of(self, kind: Kind) -> int:
        """Return the number of a kind, from 1; 0 if there are too many."""
        number = self._numbers.get(kind, 0)
        if not number and len(self.kinds) < MOST_KINDS:
            self.kinds.append(kind)
            number = self._numbers[kind] = len(self.kinds)
        return number


def _write_columns(spool: _Spool, number: int, block: Block, path: str) -> int:
    """Write the fresh columns of a block, and return their padded number."""
    geometry = Geometry(block.num_windows, block.hash_bits)
    entries = spool.fresh_of(number * COLUMNS_PER_BLOCK)
    num_padded: int = -(-max(1, len(entries)) // ROW_ALIGNMENT) * ROW_ALIGNMENT
    with open(path, "wb", opener=open_file) as file, pa.memory_map(spool.path) as source:
        data = source.read_buffer()
        for share in _shares(spool, entries, geometry):
            hashes = [cut_hashes(spool.values(data, at), spool.exponents[at], geometry) for at in share]
            file.write(column_bits(hashes, geometry))
        file.write(bytes((num_padded - len(entries)) * geometry.column_bytes))
    return num_padded


def _shares(spool: _Spool, entries: Sequence[int], geometry: Geometry) -> Iterator[Sequence[int]]:
    """Cut entries into shares whose bits are set at once, in bounded memory."""
    most_columns = max(1, _MOST_BITS_AT_ONCE // geometry.column_bits)
    start, num_terms = 0, 0
    for place, at in enumerate(entries):
        missing = max(0, geometry.hash_bits - LOW_BITS - spool.exponents[at]) if spool.num_terms[at] else 0
        own = spool.num_terms[at] << missing
        if place > start and (num_terms + own > _MOST_TERMS_AT_ONCE or place - start >= most_columns):
            yield entries[start:place]
            start, num_terms = place, 0
        num_terms += own
    if start < len(entries):
        yield entries[start:]


def _write_windows(file: IO[bytes], identity: bytes, number: int, block: Block, rows: Iterator[list[bytes]]) -> None:
    """Append the windows of a block with their checksums."""
    for at, window_of_rows in enumerate(rows):
        part, window = divmod(at, block.num_windows)
        file.write(encode_window(identity, number, part, window, window_of_rows))
