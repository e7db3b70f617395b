"""Splits: damaged ones, and forged ones, whose seals and checksums fit what somebody has put there."""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import shutil
import tempfile
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from tests.fuzz.engine import Target, need
from tests.fuzz.mutate import change_json, damage_bytes, json_text
from tests.split.split_examples import FILES, KEY, open_split, read_rows, small_table, store_at, write_split

from indextables.config import Config
from indextables.errors import CorruptSplitError, IndexTablesError, QueryError
from indextables.protocol.thrift import read_list_spans, read_struct
from indextables.runtime.scratch import directory_until_exit
from indextables.split.format import layout
from indextables.split.format.page_table import PageTable
from indextables.split.index.builder import IndexBuilder
from indextables.split.index.fields import FieldMap, map_fields
from indextables.split.index.index_cache import IndexCache
from indextables.split.index.term_filter import ROUGH, TermFilter, TermFilterBuilder
from indextables.split.query import parse_query
from indextables.split.reindexing import HEAP_BYTES, engine
from indextables.split.search.searcher import SplitSearcher
from indextables.split.split_file import FinishedSplit, SplitFile, SplitFileWriter

ROWS = pa.table(
    {
        "id": pa.array(range(60), pa.int64()),
        "text": pa.array([f"the word{number % 7} of row {number}" for number in range(60)]),
        "tags": pa.array([[f"t{number % 3}"] * (number % 4) for number in range(60)], pa.list_(pa.string())),
    }
)


class Example(NamedTuple):
    """A split that can be forged: its bytes, and a directory with room to become another."""

    finished: FinishedSplit
    data: bytes
    directory: dict[str, Any]
    place: slice


@functools.cache
def root() -> str:
    return directory_until_exit()


@functools.cache
def small_split() -> tuple[FinishedSplit, bytes]:
    place = tempfile.mkdtemp(dir=root())
    finished = write_split(place, small_table())
    with open(os.path.join(place, KEY), "rb") as file:
        return finished, file.read()


@functools.cache
def example() -> Example:
    """A split with a real index, and blanks in its directory."""
    place = tempfile.mkdtemp(dir=root())
    finished = write_real(place, index_example().files, {"room": "x" * 3000})
    with open(os.path.join(place, KEY), "rb") as file:
        data = file.read()
    text = layout.encode_directory(open_split(place, finished).directory).encode()
    start = data.index(text)
    directory = json.loads(text)
    directory["tokenizers"] = {}
    return Example(finished, data, directory, slice(start, start + len(text)))


@functools.cache
def fields() -> FieldMap:
    return map_fields(ROWS.schema, Config.resolve(options={"indexing.typemap.text": "text"}))


class IndexExample(NamedTuple):
    files: tuple[tuple[str, bytes], ...]
    segments: tuple[layout.Segment, ...]


@functools.cache
def index_example() -> IndexExample:
    """The files of a real index of the rows."""
    place = tempfile.mkdtemp(dir=root())
    builder = IndexBuilder(place, fields(), heap_bytes=HEAP_BYTES)
    for batch in ROWS.to_batches():
        builder.add(batch)
    built = builder.finish()
    found = []
    for name in built.files:
        with open(os.path.join(place, name), "rb") as file:
            found.append((name, file.read()))
    return IndexExample(tuple(found), built.segments)


def write_real(place: str, files: Sequence[tuple[str, bytes]], tokenizers: dict[str, Any]) -> FinishedSplit:
    index = os.path.join(place, "index")
    path = os.path.join(place, KEY)
    shutil.rmtree(index, ignore_errors=True)
    os.makedirs(index)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    for name, data in files:
        with open(os.path.join(index, name), "wb") as file:
            file.write(data)
    terms = TermFilterBuilder()
    with SplitFileWriter(path, ROWS.schema) as writer:
        for batch in ROWS.to_batches(max_chunksize=25):
            writer.write(batch)
        return writer.finish(
            index,
            [name for name, _ in files],
            engine=engine().split()[0],
            engine_version=engine().split()[1],
            doc_mapping=fields().to_json(),
            tokenizers=tokenizers,
            segments=index_example().segments,
            term_filter=terms.to_bytes(ROUGH),
            fine_filter=terms.to_bytes(),
        )


def forge(data: bytearray, directory: dict[str, Any]) -> bytes:
    """A split of these bytes with another directory, under checksums and a seal that fit."""
    whole = example()
    for name in ("page_table", "term_filter", "fine_filter"):
        member = directory.get(name)
        if (
            isinstance(member, dict)
            and isinstance(member.get("offset"), int)
            and isinstance(member.get("pieces"), list)
        ):
            place = slice(member["offset"], member["offset"] + 1)
            if member["pieces"] and isinstance(member["pieces"][0], dict):
                length = member["pieces"][0].get("length")
                if isinstance(length, int) and 0 <= place.start < len(data) and 0 <= length < len(data):
                    crc = zlib.crc32(data[place.start : place.start + length])
                    member["raw_crc32"] = member["pieces"][0]["crc32"] = crc
    text = json_text(directory)
    room = whole.place.stop - whole.place.start
    if len(text) <= room:
        data[whole.place] = text + b" " * (room - len(text))
    return sealed(data)


def sealed(data: bytearray) -> bytes:
    start = example().finished.footer_start_offset
    behind = bytes(data[start + layout.SEAL_BYTES :])
    seal = layout.make_seal(example().finished.split_id, len(data), behind)
    return bytes(data[:start]) + seal + behind


def damage_part(rng: random.Random, data: bytearray, start: int, end: int) -> None:
    """Damage within a part, whose length stays."""
    part = bytes(data[start:end])
    data[start:end] = damage_bytes(rng, part)[: end - start].ljust(end - start, b"\0")


# Inputs


def damaged_bytes(rng: random.Random) -> bytes:
    return damage_bytes(rng, small_split()[1])


def directory_bytes(rng: random.Random) -> bytes:
    return forge(bytearray(example().data), change_json(rng, example().directory))


def footer_bytes(rng: random.Random) -> bytes:
    data = bytearray(example().data)
    start = example().place.start if rng.random() < 0.3 else example().finished.footer_start_offset + layout.SEAL_BYTES
    damage_part(rng, data, start, len(data) - 8 * (rng.random() < 0.9))
    if rng.random() < 0.5:
        data[example().place] = example().data[example().place]
        return forge(data, json.loads(json.dumps(example().directory)))
    return sealed(data)


def pages_bytes(rng: random.Random) -> bytes:
    """Pages that are damaged, and a page table that vouches for them."""
    data = bytearray(example().data)
    directory = json.loads(json.dumps(example().directory))
    table_start = directory["page_table"]["offset"]
    table_length = directory["page_table"]["pieces"][0]["length"]
    damage_part(rng, data, 4, directory["pieces"]["offset"])
    words = _page_checksums(data, table_start, table_length)
    data[table_start : table_start + table_length] = words
    return forge(data, directory)


def _page_checksums(data: bytearray, start: int, length: int) -> bytes:
    """The page table with the checksums of the pages as they are."""
    whole = example()
    table = PageTable(bytes(data[start : start + length]))
    found = bytearray(data[start : start + length])
    place = tempfile.mkdtemp(dir=root())
    os.makedirs(os.path.join(place, "part=1"))
    with open(os.path.join(place, KEY), "wb") as file:
        file.write(whole.data)
    metadata = open_split(place, whole.finished)._rows._metadata
    shutil.rmtree(place, ignore_errors=True)
    at = 0
    num_pages = sum(len(table.pages(chunk).offsets) for chunk in range(table.num_chunks))
    head = 2 * (table.num_chunks + 1) * 4
    for chunk in range(table.num_chunks):
        column = metadata.row_group(chunk // metadata.num_columns).column(chunk % metadata.num_columns)
        first = column.data_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset is not None:
            first = min(first, column.dictionary_page_offset)
        end = first + column.total_compressed_size
        checksum = zlib.crc32(data[first:end])
        word = (table.num_chunks + 2 + chunk) * 4
        found[word : word + 4] = checksum.to_bytes(4, "little")
        offsets = [*table.pages(chunk).offsets, end - first]
        for low, high in itertools.pairwise(offsets):
            word = head + (2 * num_pages + at) * 4
            found[word : word + 4] = zlib.crc32(data[first + low : first + high]).to_bytes(4, "little")
            at += 1
    return bytes(found)


def index_bytes(rng: random.Random) -> bytes:
    """Files of the index that are damaged, as JSON of texts: they are put into a split when they are used."""
    files = dict(index_example().files)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(files))
        files[name] = damage_bytes(rng, files[name], list(files.values()))
        if name == "meta.json" and rng.random() < 0.7:
            files[name] = json_text(change_json(rng, json.loads(dict(index_example().files)[name])))
    return json.dumps({name: data.hex() for name, data in files.items()}).encode()


# Uses


def use_damaged(data: bytes) -> None:
    finished, _ = small_split()
    place = tempfile.mkdtemp(dir=root())
    try:
        os.makedirs(os.path.join(place, "part=1"))
        with open(os.path.join(place, KEY), "wb") as file:
            file.write(data)
        for split in (open_split(place, finished), SplitFile.open(store_at(place), KEY)):
            need(read_rows(split).equals(small_table()), "its rows are others")
            split.term_filter(), split.fine_filter()
            into = tempfile.mkdtemp(dir=place)
            split.extract_index(into)
            for name, content in FILES.items():
                with open(os.path.join(into, name), "rb") as file:
                    need(file.read() == content, "its index is another")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def use_forged(data: bytes) -> None:
    """What it says may be anything: it is only to be read without harm."""
    place = tempfile.mkdtemp(dir=root())
    try:
        os.makedirs(os.path.join(place, "part=1"))
        with open(os.path.join(place, KEY), "wb") as file:
            file.write(data)
        split = SplitFile.open(store_at(place), KEY)
        search(split, place)
        for rows in (None, [1, 30], [59, 2, 2]):
            found = read_rows(split, rows)
            found.validate()
            need(found.num_rows == (split.num_rows if rows is None else len(rows)), "another number of rows came")
        need(sorted(os.listdir(place)) == ["cache", "part=1"], "something was written beside the split")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def use_index(data: bytes) -> None:
    place = tempfile.mkdtemp(dir=root())
    try:
        files = [(name, bytes.fromhex(text)) for name, text in json.loads(data).items()]
        search(open_split(place, write_real(place, files, {})), place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def search(split: SplitFile, place: str) -> None:
    """Ask for words, ranges, patterns and scores."""
    config = Config.resolve(options={"cache.disk.path": os.path.join(place, "cache")})
    searcher = SplitSearcher(split, "x", IndexCache(config))
    for query in ("text:word3", "text:/wo.*3/", "id:[3 TO 9]", "text:wrod3~2", '"of row"', "_exists_:text"):
        tree = parse_query(query)
        need(len(searcher.row_numbers(tree, query)) <= split.num_rows, "more rows than there are")
        searcher.best(tree, query, limit=3)
        searcher.count(tree, query)
    searcher.aggregate(None, "", {"x": {"stats": {"field": "f0"}}})


def filter_bytes(rng: random.Random) -> bytes:
    terms = TermFilterBuilder()
    terms.add_terms("f0", ["one", "two"])
    return damage_bytes(rng, terms.to_bytes(ROUGH))


def use_filter(data: bytes) -> None:
    found = TermFilter.from_bytes(data)
    if found is not None:
        found.may_contain("f0", "one")


def table_bytes(rng: random.Random) -> bytes:
    member = example().directory["page_table"]
    return damage_bytes(rng, example().data[member["offset"] :][: member["pieces"][0]["length"]])


def use_table(data: bytes) -> None:
    table = PageTable(data)
    need(sum(len(table.pages(chunk).offsets) for chunk in range(table.num_chunks)) * 12 <= len(data), "too many pages")


def header_bytes(rng: random.Random) -> bytes:
    data = example().data
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    return damage_bytes(rng, rng.choice((footer, data[4:200])))


def use_header(data: bytes) -> None:
    for read in (lambda: read_struct(data), lambda: read_list_spans(data, 2)):
        read()


def mapping_bytes(rng: random.Random) -> bytes:
    text = fields().to_json()
    return damage_bytes(rng, text.encode()) if rng.random() < 0.3 else json_text(change_json(rng, json.loads(text)))


def use_mapping(data: bytes) -> None:
    FieldMap.from_json(data.decode("utf-8", "surrogateescape"))


_SPLIT = (CorruptSplitError,)
_ARROW_ABORTS = ("parquet::ParquetException",)
_TANTIVY_ABORTS = ("memory allocation of",)
TARGETS: Sequence[Target] = (
    Target("split-damaged", damaged_bytes, use_damaged, _SPLIT, 0.3),
    Target("split-directory", directory_bytes, use_forged, (IndexTablesError,), 0.2, _ARROW_ABORTS),
    Target("split-footer", footer_bytes, use_forged, (IndexTablesError,), 0.2, _ARROW_ABORTS),
    Target("split-pages", pages_bytes, use_forged, (IndexTablesError,), 0.2, _ARROW_ABORTS),
    Target("split-index", index_bytes, use_index, (CorruptSplitError, QueryError), 0.05, _TANTIVY_ABORTS),
    Target("term-filter", filter_bytes, use_filter, (ValueError,)),
    Target("page-table", table_bytes, use_table, (ValueError,)),
    Target("thrift", header_bytes, use_header, (ValueError,)),
    Target("doc-mapping", mapping_bytes, use_mapping, (IndexTablesError,)),
)
