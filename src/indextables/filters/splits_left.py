"""Splits that a query may find, by the filter sheets of a table's state.

A sheet is asked before the splits, for tables with many of them. It rules a split out by the same rules as the split's
own filters. A split that is indexed otherwise than the query means, that is not in a sheet, or whose size differs from
the sheet's manifest is never ruled out. A missing or damaged sheet rules nothing out.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_scalar
from indextables.config import Config, settings
from indextables.errors import CheckpointError, SchemaError, StorageError
from indextables.filters.sheet import COLUMNS_PER_BLOCK, NUM_PARTS, Header, Kind, Sheet, SheetError
from indextables.filters.sheet_source import Place, read_sheet, read_windows
from indextables.filters.sheet_writer import is_wanted, large_runs
from indextables.log.snapshot import Snapshot
from indextables.protocol.avro.state_manifest import ManifestInfo, resolve_manifest_path
from indextables.protocol.names import sheet_key
from indextables.runtime import tally
from indextables.runtime.caching import lazy_property
from indextables.split.index.fields import FieldMap
from indextables.split.index.term_hashes import hash_of
from indextables.split.query.needed import asked_terms, splits_left
from indextables.split.query.tree import Node
from indextables.split.reindexing import can_read
from indextables.split.search.open_splits import OpenSplits
from indextables.split.search.query_plan import QueryPlan, fields_of_mapping, plan_query
from indextables.state.manifests import StateFiles

logger = logging.getLogger(__name__)

# A term costs four requests, and a split at least one.
_TERMS_PER_SPLIT = 0.25
_Asked = tuple[str, str]


class Query(NamedTuple):
    """A query, its text for errors, and the fields that define its meaning."""

    tree: Node
    text: str
    fields: FieldMap


def left_by_sheets(
    files: pa.Table, snapshot: Snapshot, config: Config, opened: OpenSplits, query: Query, *, is_lasting: bool = False
) -> pa.Table:
    """Return the files that the sheets do not rule out.

    With `is_lasting`, the table of files is likely asked again, and its places in the sheets are kept.
    """
    origin = snapshot.live_files.origin
    room = config[settings.SEARCH_FILTERS_MAX_FETCH]
    is_large = files.num_rows >= config[settings.STATE_FILTERS_MIN_SPLITS]
    if not isinstance(origin, StateFiles) or not is_large or not room or not is_wanted(opened.store, config):
        return files
    with tally.stage(tally.SHEETS):
        left = files
        for run, infos in large_runs(origin.state, config).items():
            known = _known_sheet(opened, origin, run, infos)
            if known is not None:
                asked = _AskedSheet(known, opened, query, room)
                left = asked.filter(left, is_lasting=is_lasting and left is files)
                room -= asked.num_bytes
        tally.note(splits=files.num_rows, left_out=files.num_rows - left.num_rows)
    return left


class _KnownSheet:
    """A sheet whose manifests are of a state, and the paths of its columns."""

    def __init__(self, sheet: Sheet, kinds: bytes, paths: pa.Table) -> None:
        self.sheet = sheet
        self.paths = paths
        self._kinds = kinds
        self.nbytes = paths.nbytes + 2 * len(kinds)

    @property
    def header(self) -> Header:
        return self.sheet.header

    @lazy_property
    def masks(self) -> list[dict[int, int]]:
        """Columns of each kind as bits of a number, block by block."""
        found = []
        kinds = pa.Array.from_buffers(pa.uint8(), len(self._kinds), [None, pa.py_buffer(self._kinds)])
        for at in range(len(self.header.blocks)):
            own = kinds.slice(at * COLUMNS_PER_BLOCK, COLUMNS_PER_BLOCK)
            present = pc.unique(own).to_pylist()
            found.append({kind: _number_of(pc.equal(own, to_scalar(kind, pa.uint8()))) for kind in present})
        return found


class _Missing:
    """A sheet that cannot be used, remembered for a state."""

    nbytes = 64


class _Places(NamedTuple):
    """Columns of files in a sheet, null for others; it keeps the files alive."""

    files: pa.Table
    columns: pa.Array[Any]
    nbytes: int


class _Rows(NamedTuple):
    """The bits of a window."""

    data: memoryview
    nbytes: int


def _known_sheet(opened: OpenSplits, origin: StateFiles, run: int, infos: Sequence[ManifestInfo]) -> _KnownSheet | None:
    """Return the sheet of a run, perhaps from the cache; None if it cannot be used."""
    key = ("sheet", run, origin.state.state_version)
    known = opened.sheets.get(key)
    if known is None:
        try:
            known = _read_known_sheet(opened, origin, run, infos)
        except (StorageError, SheetError, CheckpointError) as error:
            logger.info("no filter sheet of version %d of `%s`: %s", run, opened.store.location.url, error)
            known = _Missing()
        opened.sheets.put(key, known)
    return known if isinstance(known, _KnownSheet) else None


def _read_known_sheet(opened: OpenSplits, origin: StateFiles, run: int, infos: Sequence[ManifestInfo]) -> _KnownSheet:
    """Read a sheet and the paths of its entries.

    Entries of manifests that are no longer in the state have no path, and stand for no file.
    """
    sheet = read_sheet(opened.store, sheet_key(run))
    kinds = sheet.header.entry_kinds()
    live = {resolve_manifest_path(info.path, origin.state.state_version): info for info in infos}
    wanted = [live.get(each.path) for each in sheet.header.manifests]
    if not any(wanted):
        raise SheetError("it covers other manifests")
    tables = origin.paths_and_sizes([info for info in wanted if info is not None])
    parts = []
    for each, info in zip(sheet.header.manifests, wanted, strict=True):
        table = _no_entries(each.num_entries) if info is None else _plain(next(tables))
        if table.num_rows != each.num_entries:
            raise SheetError("it covers another number of entries")
        parts.append(table)
    return _KnownSheet(sheet, kinds, pa.concat_tables(parts).combine_chunks())


class _AskedSheet:
    """One query to one sheet."""

    def __init__(self, known: _KnownSheet, opened: OpenSplits, query: Query, room: int) -> None:
        self._known = known
        self._opened = opened
        self._query = query
        self._room = room
        self._windows: dict[Place, memoryview] = {}
        self.num_bytes = 0

    def filter(self, files: pa.Table, *, is_lasting: bool) -> pa.Table:
        """Return the files that the sheet does not rule out."""
        if not any(self._terms.values()):
            return files
        places = self._places(files, is_lasting=is_lasting)
        blocks = self._chosen(places)
        try:
            self._fetch(blocks)
        except (StorageError, SheetError) as error:
            logger.warning("a filter sheet of `%s` is not used: %s", self._opened.store.location.url, error)
            return files
        passing = self._passing(blocks)
        found = pc.fill_null(passing.take(places), to_scalar(value=True))
        return files if pc.all(found, min_count=0).as_py() else files.filter(found)

    def _places(self, files: pa.Table, *, is_lasting: bool) -> pa.Array[Any]:
        """Return the column of each file with the same path and size, else null."""
        key = ("places", id(files), id(self._known))
        kept: _Places | None = self._opened.sheets.get(key) if is_lasting else None
        if kept is not None and kept.files is files:
            return kept.columns
        own = self._known.paths
        asked = _plain(files)
        columns = pc.index_in(asked["path"].combine_chunks(), value_set=own["path"].combine_chunks())
        is_same = pc.equal(asked["size"].combine_chunks(), own["size"].combine_chunks().take(columns))
        columns = pc.if_else(is_same, columns, to_scalar(None, columns.type))
        if is_lasting:
            self._opened.sheets.put(key, _Places(files, columns, columns.nbytes))
        return columns

    @lazy_property
    def _plans(self) -> dict[int, QueryPlan]:
        """Plans of the query on the kinds whose own index answers it, by number."""
        tree, text, fields = self._query
        plans = {}
        for number, kind in enumerate(self._known.header.kinds, 1):
            plan = plan_query(tree, text, fields, _own_fields(kind))
            if plan.is_own and not plan.nan_columns:
                plans[number] = plan
        return plans

    @lazy_property
    def _terms(self) -> dict[int, frozenset[_Asked]]:
        """Terms that decide on splits of a kind, by its number."""
        found = {}
        for number, plan in self._plans.items():
            fields = self._known.header.kinds[number - 1].fields
            asked = asked_terms(self._query.tree, plan.catalog)
            found[number] = frozenset((field, term) for field, term in asked if field in fields)
        return found

    def _chosen(self, places: pa.Array[Any]) -> dict[int, frozenset[_Asked]]:
        """Return the terms to ask of each block, as far as there is room and use.

        Terms that are left out may be anywhere. A block is asked for more splits than it costs requests.
        """
        counts = pc.value_counts(pc.divide(places.drop_null(), to_scalar(COLUMNS_PER_BLOCK, places.type)))
        chosen: dict[int, frozenset[_Asked]] = {}
        room = self._room
        for number, count in sorted((item["values"], item["counts"]) for item in counts.to_pylist()):
            block, masks = self._known.header.blocks[number], self._known.masks[number]
            of_kinds = [kind for kind in masks if kind in self._plans]
            terms = sorted({term for kind in of_kinds for term in self._terms[kind]})
            cost = NUM_PARTS * block.window_bytes
            terms = terms[: min(room // cost, int(count * _TERMS_PER_SPLIT))]
            asked = frozenset(terms)
            if any(self._decides(kind, asked) for kind in of_kinds):
                chosen[number] = asked
                room -= cost * len(terms)
        return chosen

    def _decides(self, kind: int, asked: frozenset[_Asked]) -> bool:
        """Return whether a split of a kind would be ruled out without any asked term."""
        return not splits_left(
            self._query.tree, self._plans[kind].catalog, lambda field, term: int((field, term) not in asked), 1
        )

    def _fetch(self, chosen: Mapping[int, Iterable[_Asked]]) -> None:
        """Fetch the windows of terms that are not in the cache, in parallel."""
        sheet, cache = self._known.sheet, self._opened.sheets
        wanted = {
            Place(number, part, window)
            for number, terms in chosen.items()
            for field, term in terms
            for part, window, _ in self._bits_of(number, field, term)
        }
        missing = []
        for place in wanted:
            kept: _Rows | None = cache.get((sheet.identity, place))
            if kept is None:
                missing.append(place)
            else:
                self._windows[place] = kept.data
        for place, rows in zip(missing, read_windows(self._opened.store, sheet, missing), strict=True):
            self._windows[place] = rows
            self.num_bytes += len(rows)
            cache.put((sheet.identity, place), _Rows(rows, len(rows)))

    def _bits_of(self, number: int, field: str, term: str) -> list[tuple[int, int, tuple[int, ...]]]:
        block = self._known.header.blocks[number]
        return list(block.places(hash_of(field, term, block.hash_bits)))

    def _passing(self, chosen: Mapping[int, frozenset[_Asked]]) -> pa.Array[Any]:
        """Return for each column whether its split may have a hit."""
        rows = []
        for number, block in enumerate(self._known.header.blocks):
            everything = (1 << 8 * block.row_bytes) - 1
            passing = self._passing_block(number, chosen[number], everything) if number in chosen else everything
            rows.append(passing.to_bytes(block.row_bytes, "little"))
        num_entries = self._known.header.num_entries
        return pa.Array.from_buffers(pa.bool_(), num_entries, [None, pa.py_buffer(b"".join(rows))])

    def _passing_block(self, number: int, asked: frozenset[_Asked], everything: int) -> int:
        @functools.cache
        def holders(field: str, term: str) -> int:
            return self._holders(number, field, term, everything) if (field, term) in asked else everything

        passing = 0
        for kind, columns in self._known.masks[number].items():
            if kind not in self._plans:
                passing |= columns
                continue
            fields = self._known.header.kinds[kind - 1].fields

            def of_kind(field: str, term: str, fields: Sequence[str] = fields) -> int:
                return holders(field, term) if field in fields else everything

            passing |= columns & splits_left(self._query.tree, self._plans[kind].catalog, of_kind, everything)
        return passing

    def _holders(self, number: int, field: str, term: str, everything: int) -> int:
        """Return the columns of a block that may hold a term."""
        row_bytes = self._known.header.blocks[number].row_bytes
        found = everything
        for part, window, bits in self._bits_of(number, field, term):
            rows = self._windows[Place(number, part, window)]
            for bit in bits:
                found &= int.from_bytes(rows[bit * row_bytes : (bit + 1) * row_bytes], "little")
        return found


def _own_fields(kind: Kind) -> FieldMap | None:
    """Return the fields of a kind's indexes; None if this engine cannot read them."""
    if not can_read(kind.engine, kind.engine_version):
        return None
    try:
        return fields_of_mapping(kind.doc_mapping)
    except SchemaError:
        return None


def _number_of(flags: pa.Array[Any]) -> int:
    """Return flags as the bits of a number."""
    data = bytes(flags.buffers()[1])[: -(-len(flags) // 8)]
    return int.from_bytes(data, "little") & ((1 << len(flags)) - 1)


def _plain(files: pa.Table) -> pa.Table:
    return files.select(["path", "size"]).cast(_PATHS)


def _no_entries(count: int) -> pa.Table:
    return pa.Table.from_arrays([pa.nulls(count, field.type) for field in _PATHS], schema=_PATHS)


_PATHS = pa.schema([("path", pa.large_string()), ("size", pa.int64())])
