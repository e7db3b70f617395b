"""Rows indexed by lines make the same index, byte for byte, as rows indexed by documents."""

from __future__ import annotations

import math
import os
import struct
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.split.split_columns import SCALARS

from indextables.config import Config
from indextables.errors import SchemaError
from indextables.split.index import builder
from indextables.split.index.builder import IndexBuilder
from indextables.split.index.fields import map_fields
from indextables.split.index.json_lines import has_lines, json_lines

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [
        "",
        " ",
        '"',
        "\\",
        "\\u0000",
        '\\"',
        "\0",
        "a\x01b\x1f\x7f\x85",
        "\r\n\t\b\f",
        "2024-01-31T12:00:00Z",
        "null",
        "[]",
        "{}",
        "1.0",
        "true",
        "\ufeff\ufffe\u2028",
        "x" * 300,
        "é" * 200,
    ]
)
FLOATS = (
    st.floats()
    | st.floats(width=32)
    | st.decimals(-(10**9), 10**9, places=3, allow_nan=False).map(float)
    | st.integers(-(1 << 63), 1 << 64).map(float)
    | st.integers(0, (1 << 64) - 1).map(lambda bits: struct.unpack("d", struct.pack("Q", bits))[0])
    | st.sampled_from([0.1 + 0.2, 1e22, 1e23, 5e-324, 1.7976931348623157e308, -0.0, math.inf, -math.inf, 2.0**53 + 1])
)
TYPES = {
    **{type_: values for type_, values in SCALARS.items() if not pa.types.is_binary(type_)},
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.string_view(): TEXTS,
    pa.dictionary(pa.int32(), pa.string()): TEXTS,
    pa.float64(): FLOATS,
    pa.timestamp("ns"): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.null(): st.none(),
}


def is_wide(type_) -> bool:
    return pa.types.is_decimal(type_) and type_.precision > 18


PLAIN_TYPES = [type_ for type_ in TYPES if not is_wide(type_)]


@st.composite
def batches(draw):
    """Rows of some columns, cut out of a longer batch, with and without nulls."""
    chosen = draw(st.lists(st.sampled_from(PLAIN_TYPES), min_size=1, max_size=4))
    num_rows = draw(st.integers(1, 12))
    columns = {}
    for number, type_ in enumerate(chosen):
        values = TYPES[type_] if draw(st.booleans()) else st.none() | TYPES[type_]
        columns[f"c{number}"] = pa.array(draw(st.lists(values, min_size=num_rows, max_size=num_rows)), type_)
    start = draw(st.integers(0, num_rows - 1))
    return pa.record_batch(columns).slice(start, draw(st.integers(1, num_rows)))


def index_files(batch: pa.RecordBatch, fields, *, by_lines: bool, before: int) -> dict[str, bytes]:
    """The files of an index by their endings, after some rows of the same values."""
    with tempfile.TemporaryDirectory() as path, pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "_FEWEST_LINES", 1 if by_lines else 1 << 60)
        made = IndexBuilder(path, fields, heap_bytes=15_000_000)
        for _ in range(before + 1):
            made.add(batch)
        files = made.finish().files
        return {os.path.splitext(name)[1]: Path(path, name).read_bytes() for name in files if name != builder.META}


@given(batches(), st.sampled_from(["text", "string"]), st.booleans(), st.integers(0, 2))
def test_lines_and_documents_make_the_same_index(batch, kind, fast, before):
    options = {
        f"indexing.typemap.{name}": kind
        for name in batch.schema.names
        if not pa.types.is_null(batch.schema.field(name).type)
        and str(batch.schema.field(name).type) in {"string", "large_string", "string_view"}
    }
    if fast:
        options["indexing.fastfields"] = ",".join(batch.schema.names)
    fields = map_fields(batch.schema, Config.resolve(options=options))
    assert has_lines(batch.schema, fields)
    by_documents = index_files(batch, fields, by_lines=False, before=before)
    assert index_files(batch, fields, by_lines=True, before=before) == by_documents
    assert set(by_documents) >= {".term", ".idx", ".pos", ".fast", ".fieldnorm", ".store"}


def test_only_proven_floats_have_lines():
    numbers = [1.5, 12.345, 0.9452706955539223, 0.13436424411240122, 1e300, math.inf, math.nan, None, -7.0, 0.25]
    batch = pa.record_batch({"n": pa.array(numbers, pa.float64())})
    lines = json_lines(batch, map_fields(batch.schema, Config.resolve()), 10)
    assert [None if line is None else line.partition(',"f0":')[2] for line in lines] == [
        "1.5}",
        "12.345}",
        None,  # parsed, it would be 0.9452706955539224
        "0.13436424411240122}",
        None,
        None,
        "[]}",
        "[]}",
        "-7}",
        "0.25}",
    ]
    assert lines[0].startswith('{"_row":10,')


def test_columns_without_lines():
    for type_ in (pa.binary(), pa.list_(pa.int32()), pa.decimal128(30, 2)):
        schema = pa.schema([("a", pa.int64()), ("b", type_)])
        assert not has_lines(schema, map_fields(schema, Config.resolve()))
    schema = pa.schema([("a", pa.string())])
    for kind in ("json", "ip"):
        assert not has_lines(schema, map_fields(schema, Config.resolve(options={"indexing.typemap.a": kind})))


def test_values_that_cannot_be_indexed_are_named_as_by_documents(tmp_path):
    broken = pa.Array.from_buffers(pa.string(), 40, pa.array([b"\xff"] * 40, pa.binary()).buffers())
    late = pa.array([1 << 62] * 40, pa.timestamp("s"))
    for column in (broken, late):
        batch = pa.record_batch({"bad": column})
        made = IndexBuilder(str(tmp_path), map_fields(batch.schema, Config.resolve()), heap_bytes=15_000_000)
        with pytest.raises(SchemaError, match="cannot index column `bad`"):
            made.add(batch)
        made.close()
        (tmp_path / "part1").rename(tmp_path / str(column.type))


def test_long_strings_are_cut_and_many_rows_keep_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(builder, "_ROWS_PER_FEED", 700)
    rows = 3_000
    batch = pa.record_batch(
        {
            "s": ["x" * 70_000 if row % 1_000 == 5 else f"s{row}" for row in range(rows)],
            "n": [row / 7 for row in range(rows)],
        }
    )
    fields = map_fields(batch.schema, Config.resolve())
    assert index_files(batch, fields, by_lines=True, before=1) == index_files(batch, fields, by_lines=False, before=1)


@pytest.mark.parametrize("last", ['"', "\\", "\0", "\x1f", "\n", "é\t"])
@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()], ids=str)
def test_one_letter_in_a_slice_is_escaped(last, type_):
    batch = pa.record_batch({"s": pa.array(["first", None, "", f"a {last} b"], type_)}).slice(2)
    fields = map_fields(batch.schema, Config.resolve(options={"indexing.typemap.s": "text"}))
    assert index_files(batch, fields, by_lines=True, before=0) == index_files(batch, fields, by_lines=False, before=0)
