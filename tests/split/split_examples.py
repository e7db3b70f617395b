"""Splits to try things on: rows of many types, and an index that is any files."""

from __future__ import annotations

import datetime
import decimal
import os
import random

import pyarrow as pa
from tests.doubles.metered_store import MeteredStore

from indextables.config import Config
from indextables.split.format.layout import Segment
from indextables.split.index.term_filter import ROUGH, TermFilterBuilder
from indextables.split.split_file import FinishedSplit, SplitFile, SplitFileWriter
from indextables.store import ObjectStore, open_store

KEY = "part=1/a.split"
FILES = {"meta.json": b'{"segments": []}' * 20, "s.term": bytes(random.Random(1).randbytes(300)), "s.empty": b""}


def small_table(num_rows: int = 5) -> pa.Table:
    return pa.table(
        {
            "number": pa.array(range(num_rows), pa.int64()),
            "text": pa.array([None if row % 3 == 1 else f"text {row}" for row in range(num_rows)]),
        }
    )


def every_type() -> pa.Table:
    moment = datetime.datetime(2026, 1, 31, 12, 30, 15, tzinfo=datetime.UTC)
    columns = {
        "int8": pa.array([1, None, -128], pa.int8()),
        "uint64": pa.array([0, None, 2**64 - 1], pa.uint64()),
        "float16": pa.array([1.5, None, -0.0], pa.float32()).cast(pa.float16()),
        "float64": pa.array([float("nan"), None, float("-inf")]),
        "bool": pa.array([True, None, False]),
        "null": pa.nulls(3),
        "string": pa.array(["", None, "ünï\0"]),
        "large": pa.array(["", None, "x" * 5000], pa.large_string()),
        "view": pa.array(["", None, "long enough for no inline view"], pa.string_view()),
        "binary": pa.array([b"", None, b"\0\xff"]),
        "fixed": pa.array([b"abc", None, b"\0\0\0"], pa.binary(3)),
        "date32": pa.array([datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)], pa.date32()),
        "date64": pa.array([datetime.date(1970, 1, 2), None, datetime.date(2026, 1, 1)], pa.date64()),
        "seconds": pa.array([moment, None, moment], pa.timestamp("s")),
        "zoned": pa.array([moment, None, moment], pa.timestamp("ns", tz="Europe/Berlin")),
        "time32": pa.array([5, None, 86_399], pa.time32("s")),
        "time64": pa.array([5_000, None, 86_399_000], pa.time64("ns")),
        "duration": pa.array([5, None, -7], pa.duration("ms")),
        "decimal": pa.array([decimal.Decimal("1.20"), None, decimal.Decimal("-99999.99")], pa.decimal128(7, 2)),
        "huge": pa.array([decimal.Decimal(10) ** 60, None, decimal.Decimal(-1)], pa.decimal256(70, 0)),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
        "struct": pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}]),
        "struct.a": pa.array(["a name with a dot", None, "like a child"]),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
        "numbers": pa.array([7, None, 7]).dictionary_encode(),
        "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None, "[1]"])),
        "deep": pa.array(
            [[{"t": [1, None]}], None, [None]], pa.large_list(pa.struct([("t", pa.list_(pa.time32("s")))]))
        ),
        "views": pa.array([["a string that is long enough"], None, []], pa.list_(pa.string_view())),
        "pairs": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2)),
        "uuid": pa.array([b"0" * 16, None, b"1" * 16], pa.uuid()),
        "a b ü": pa.array([1, 2, 3]),
    }
    table = pa.table(columns)
    return table.cast(table.schema.set(0, table.schema.field(0).with_metadata({"kept": "yes"})))


def write_split(root: str, table: pa.Table, *, key: str = KEY, files: dict[str, bytes] | None = None) -> FinishedSplit:
    """A split below `root`, with files for an index."""
    files = FILES if files is None else files
    path = os.path.join(root, key)
    index = os.path.join(root, "index")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.makedirs(index, exist_ok=True)
    for name, data in files.items():
        with open(os.path.join(index, name), "wb") as file:
            file.write(data)
    terms = TermFilterBuilder()
    terms.add_terms("f0", ["one", "two"])
    with SplitFileWriter(path, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=10_000):
            writer.write(batch)
        return writer.finish(
            index,
            list(files),
            engine="tantivy",
            engine_version="0.27",
            doc_mapping="[]",
            tokenizers={},
            segments=[Segment(name="s", first_row=0, num_rows=table.num_rows)],
            term_filter=terms.to_bytes(ROUGH),
            fine_filter=terms.to_bytes(),
        )


def store_at(root: object) -> ObjectStore:
    return open_store(str(root), Config.resolve())


class FarStore(MeteredStore):
    """A directory that says it were far away, so that small splits are fetched whole."""

    is_remote = True


def open_split(root: object, finished: FinishedSplit, *, key: str = KEY, store: ObjectStore | None = None) -> SplitFile:
    return SplitFile.open(
        store or store_at(root),
        key,
        size=finished.num_bytes,
        footer_start_offset=finished.footer_start_offset,
        footer_end_offset=finished.footer_end_offset,
    )


def read_rows(split: SplitFile, numbers: list[int] | None = None, columns: list[str] | None = None) -> pa.Table:
    rows = None if numbers is None else pa.array(numbers, pa.uint64())
    schema = split.schema if columns is None else pa.schema([split.schema.field(name) for name in columns])
    return pa.Table.from_batches(split.rows(rows, columns), schema.with_metadata(split.schema.metadata))


class RecordingStore(MeteredStore):
    """Notes the ranges that are read."""

    def __init__(self, store) -> None:
        super().__init__(store)
        self.ranges: list[tuple[int, int]] = []

    def get_ranges(self, key, ranges):
        self.ranges.extend(ranges)
        return super().get_ranges(key, ranges)
