"""Files into rows: what was written comes back, and what cannot be read is named by its line."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import datetime as dt
import decimal
import gzip
import json
import os
import threading

import hypothesis.strategies as st
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from indextables.cli.output import rows as plain_rows
from indextables.errors import ConfigError, IndexTablesError, SchemaError
from indextables.ingest import input_source
from indextables.ingest.bad_lines import OnBadLine
from indextables.ingest.input_files import InputFiles, InputFormat, InputOptions

DECIMAL = pa.decimal128(12, 3)
NESTED = pa.struct([("n", pa.int32()), ("when", pa.list_(pa.timestamp("us", tz="UTC")))])
EVERY_TYPE = pa.schema(
    [
        ("text", pa.string()),
        ("long", pa.int64()),
        ("double", pa.float64()),
        ("bool", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("amount", DECIMAL),
        ("raw", pa.binary()),
        ("list", pa.list_(pa.string())),
        ("nested", NESTED),
        ("map", pa.map_(pa.string(), pa.float64())),
    ]
)
MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))  # noqa: DTZ001 - zones come after
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = {
    "text": TEXTS,
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "day": st.dates(),
    "at": MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    "local": MOMENTS,
    "amount": st.decimals(-(10**8), 10**8, places=3),
    "raw": st.binary(max_size=5),
    "list": st.lists(st.none() | TEXTS, max_size=3),
    "nested": st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-(2**31), 2**31 - 1),
            "when": st.none() | st.lists(MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC)), max_size=2),
        }
    ),
    "map": st.dictionaries(TEXTS, st.none() | st.floats(allow_nan=False), max_size=2).map(
        lambda map_: list(map_.items())
    ),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), max_size=6)
S = pa.schema([("n", pa.int64()), ("s", pa.string())])


def write(place, name: str, data: bytes | str) -> str:
    path = place / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def read(path: str, schema: pa.Schema, **options) -> list[dict]:
    return pa.Table.from_batches(InputFiles([path], InputOptions(**options)).batches(schema), schema).to_pylist()


def guess(path: str, **options) -> dict[str, str]:
    with contextlib.closing(InputFiles([path], InputOptions(**options))) as files:
        schema = files.guess_schema()
    return {field.name: str(field.type) for field in schema}


@settings(max_examples=60)
@given(ROWS)
def test_json_lines_of_our_own_come_back_for_every_type(tmp_path_factory, rows) -> None:
    table = pa.Table.from_pylist(rows, schema=EVERY_TYPE)
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in plain_rows(table))
    path = write(tmp_path_factory.mktemp("j"), "a.jsonl", lines)
    assert read(path, EVERY_TYPE) == table.to_pylist()


@settings(max_examples=60)
@given(ROWS)
def test_csv_of_every_type_comes_back_and_null_is_not_empty(tmp_path_factory, rows) -> None:
    table = pa.Table.from_pylist(rows, schema=EVERY_TYPE)

    def cell(value) -> str:
        if value is None:
            return ""
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return '"' + text.replace('"', '""') + '"'

    lines = [EVERY_TYPE.names, *([cell(value) for value in row.values()] for row in plain_rows(table))]
    path = write(tmp_path_factory.mktemp("c"), "a.csv", "".join(",".join(line) + "\n" for line in lines))
    assert read(path, EVERY_TYPE) == table.to_pylist()


def test_numbers_keep_their_digits_and_objects_may_be_text(tmp_path) -> None:
    path = write(
        tmp_path, "a.jsonl", '{"d":12345678.125,"s":{"q":1.10,"r":[1e5,true]}}\n{"d":"7","s":1.10}\n{"s":false}\n'
    )
    found = read(path, pa.schema([("d", DECIMAL), ("s", pa.string())]))
    assert [row["d"] for row in found] == [decimal.Decimal("12345678.125"), decimal.Decimal(7), None]
    assert [row["s"] for row in found] == ['{"q":1.10,"r":[1e5,true]}', "1.10", "false"]


LINES = st.lists(st.sampled_from(["good", "value", "shape", "blank", "break"]), min_size=1, max_size=12)


@settings(max_examples=80)
@given(LINES, st.sampled_from(["csv", "jsonl"]))
def test_bad_lines_are_counted_and_the_first_is_named(tmp_path_factory, kinds, ending) -> None:
    """Against a model: what each kind of line is, and on which line of the file it begins."""
    if ending == "csv":
        texts = {"good": "1,a", "value": "x,a", "shape": "1,a,b", "blank": "", "break": '1,"a\nb"'}
        lines = ["n,s"]
    else:
        good = '{"n":1,"s":"a"}'
        texts = {"good": good, "value": '{"n":"x","s":"a"}', "shape": '{"n":1', "blank": " ", "break": good}
        lines = []
    bad_at: dict[str, list[int]] = {"value": [], "shape": []}
    at = len(lines)
    for kind in kinds:
        bad_at.get(kind, []).append(at + 1)
        lines.append(texts[kind])
        at += texts[kind].count("\n") + 1
    path = write(tmp_path_factory.mktemp("b"), f"a.{ending}", "\n".join(lines) + "\n")
    num_good = sum(kind in {"good", "break"} for kind in kinds)

    skipping = InputFiles([path], InputOptions(on_bad_line=OnBadLine.SKIP))
    assert sum(batch.num_rows for batch in skipping.batches(S)) == num_good == skipping.num_rows
    assert (skipping.bad.skipped, skipping.bad.nulled) == (len(bad_at["value"] + bad_at["shape"]), 0)

    nulling = InputFiles([path], InputOptions(on_bad_line=OnBadLine.NULL))
    found = [row["n"] for batch in nulling.batches(S) for row in batch.to_pylist()]
    assert (len(found), found.count(None)) == (num_good + len(bad_at["value"]), len(bad_at["value"]))
    assert (nulling.bad.skipped, nulling.bad.nulled) == (len(bad_at["shape"]), len(bad_at["value"]))

    all_bad = bad_at["value"] + bad_at["shape"]
    if not all_bad:
        assert len(read(path, S)) == num_good
        return
    first = min(bad_at["shape"] or all_bad) if ending == "csv" else min(all_bad)
    with pytest.raises(SchemaError, match=f"line {first} of `") as error:
        read(path, S)
    assert error.value.hint is not None
    assert "--on-bad-line skip" in error.value.hint


def test_a_bad_value_is_shown_with_its_column_and_type(tmp_path) -> None:
    with pytest.raises(SchemaError, match="because `nine` in the column `n` is not a `long`"):
        read(write(tmp_path, "a.csv", "n,s\n1,a\nnine,b\n"), S)
    with pytest.raises(SchemaError, match=r"line 2 of .* because `\\xff` in the column `s` is not a `string`"):
        read(write(tmp_path, "b.csv", b"n,s\n1,\xff\n"), S)
    nested = pa.schema([("z", pa.list_(pa.int64()))])
    with pytest.raises(SchemaError, match=r"because `\[1,\"x\"\]` in the column `z` is not a `array<long>`"):
        read(write(tmp_path, "a.jsonl", '{"z":[1]}\n{"z":[1,"x"]}\n'), nested)
    found = read(str(tmp_path / "a.jsonl"), nested, on_bad_line=OnBadLine.NULL)
    assert found == [{"z": [1]}, {"z": [1, None]}]


def test_bad_lines_of_a_compressed_file_and_of_a_pipe(tmp_path) -> None:
    data = b'n,s\n1,"a\nb"\n\nx,c\n'
    with pytest.raises(SchemaError, match="line 5 of"):
        read(write(tmp_path, "a.csv.gz", gzip.compress(data)), S)
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(data))
    writer.start()
    with pytest.raises(SchemaError, match="line 5 of"):
        read(pipe, S, format=InputFormat.CSV)
    writer.join()


COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda part: pa.compress(part, "zstd", asbytes=True),
}


@pytest.mark.parametrize("ending", COMPRESS)
def test_compression_is_seen_through(tmp_path, ending) -> None:
    lines = b"".join(b'{"n":%d,"s":"%d"}\n' % (number, number % 7) for number in range(70_000))
    halves = lines[:1000], lines[1000:]
    compress = COMPRESS[ending]
    path = write(tmp_path, f"a.jsonl{ending}", b"".join(map(compress, halves)))
    files = InputFiles([path, path], InputOptions())
    batches = list(files.batches(S))
    assert [n for batch in batches for n in batch["n"].to_pylist()] == [*range(70_000), *range(70_000)]
    assert max(batch.num_rows for batch in batches) < 70_000
    assert (files.num_rows, files.num_files, files.bytes_read) == (140_000, 2, files.num_bytes)
    if ending:
        with pytest.raises(SchemaError, match=r"cannot read `.*` because it is damaged"):
            read(write(tmp_path, f"b.jsonl{ending}", compress(lines)[:-9]), S)


@pytest.mark.parametrize(
    ("name", "data", "options", "expected"),
    [
        ("a.tsv", "n\ts\n1\ta\n", {}, [{"n": 1, "s": "a"}]),
        ("a.csv", "s;n\na,b;1\n", {"delimiter": ";"}, [{"n": 1, "s": "a,b"}]),
        ("a.csv", "s\na\n", {}, [{"n": None, "s": "a"}]),
        ("a.csv", "n,s\r\n 1 ,a\r\n", {}, [{"n": 1, "s": "a"}]),
        ("a.csv", codecs.BOM_UTF8 + b"n,s\n1,a\n", {}, [{"n": 1, "s": "a"}]),
        ("a.csv", "n,s,t\n1,a,x\n", {"ignore_unknown": True}, [{"n": 1, "s": "a"}]),
        ("a.csv", "n,s\n", {}, []),
        ("a.csv", "", {}, []),
        ("a", '{"n":1}', {}, [{"n": 1, "s": None}]),
        ("a.JSONL", '{"n":1,"x":2}\r\n', {"ignore_unknown": True}, [{"n": 1, "s": None}]),
        ("a.jsonl", "", {}, []),
        ("a.jsonl.2", '{"n":1}', {}, [{"n": 1, "s": None}]),
        ("a.csv-20260131.gz", gzip.compress(b"n\n1\n", mtime=0), {}, [{"n": 1, "s": None}]),
        ("a.txt", '{"n":1}\n', {"format": InputFormat.JSONL}, [{"n": 1, "s": None}]),
    ],
)
def test_forms_of_files(tmp_path, name, data, options, expected) -> None:
    assert read(write(tmp_path, name, data), S, **options) == expected


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.dat", "x,y\n", "cannot infer the format"),
        ("a.csv", "n,N2,s,t\n", "has no columns `N2`, `t`"),
        ("a.csv", "n,n\n1,2\n", "the column `n` is in it twice"),
        ("a.csv", "n,,s\n1,2,3\n", "a column in it has no name"),
        ("a.csv", 'n,s\n1,"a\n2,b\n3,c\n', "line 2 of .* a quote is opened there and not closed"),
        ("a.csv", codecs.BOM_UTF16_LE + "n,s\n".encode("utf-16-le"), "UTF-16"),
        ("a.jsonl", '{"N":1}', "line 1 of .* has no column `N`"),
        ("a.jsonl", "[1]\n", "line 1 of .* because it is not a JSON object"),
        ("a.jsonl", b'{"s":"\xff"}\n', "line 1 of .* because it is not JSON"),
        ("a.jsonl", '{"s":"\\ud800"}\n', "line 1 of .* because it is not JSON"),
        ("a.jsonl", "[" * 10_000, "line 1 of .* because it is not JSON"),
        ("a.log", "x\n", "no column `message`"),
        ("a.csv", b"n,s\n1,a\n2,\xff,x\n", "line 3 of .* because it has 3 values"),
        ("a.csv", b"n,s\n1,a\n2,\xff\n", "line 3 of .* because .* in the column `s`"),
        ("a.parquet", "nothing", "as Parquet because(.|\n)*--format"),
        ("a.parquet.gz", gzip.compress(b"PAR1", mtime=0), "read from both ends"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, data, message) -> None:
    with pytest.raises(IndexTablesError, match=message):
        read(write(tmp_path, name, data), S)


def test_bytes_that_are_no_utf_8_cost_only_their_own_lines(tmp_path) -> None:
    path = write(tmp_path, "a.csv", "n,s\n1,ü é\n2,".encode() + b"\xe9\n3,\xe9,x\n" + b'4,"a\n""b"\n5,\n')
    files = InputFiles([path], InputOptions(on_bad_line=OnBadLine.SKIP))
    table = pa.Table.from_batches(files.batches(S), S)
    assert [tuple(row.values()) for row in table.to_pylist()] == [(1, "ü é"), (4, 'a\n"b'), (5, None)]
    assert files.bad.skipped == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is denied to root")
def test_a_file_that_may_not_be_read_is_named(tmp_path) -> None:
    path = write(tmp_path, "a.csv", "n\n1\n")
    os.chmod(path, 0)
    with pytest.raises(ConfigError, match=r"cannot read `.*a\.csv`: Permission denied"):
        read(path, S)


def test_a_likely_column_is_suggested(tmp_path) -> None:
    with pytest.raises(SchemaError) as error:
        read(write(tmp_path, "a.csv", "n,mesage\n"), pa.schema([("n", pa.int64()), ("Message", pa.string())]))
    assert error.value.hint is not None
    assert error.value.hint.startswith("`mesage` may be `Message`; ")


def test_only_local_files_are_read(tmp_path) -> None:
    for path, message in (
        (str(tmp_path), "is a directory"),
        (str(tmp_path / "no.csv"), "No such file"),
        ("s3://bucket/a.csv", "only local files"),
        ("a\0b", "null"),
    ):
        with pytest.raises(ConfigError, match=message):
            InputFiles([path])


def test_a_line_is_not_read_without_bound(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(input_source, "MOST_LINE_BYTES", 1 << 20)
    with pytest.raises(SchemaError, match="a line in it is longer than"):
        read(write(tmp_path, "a.jsonl", '{"s":"' + "x" * (3 << 20)), S)


def test_parquet(tmp_path) -> None:
    table = pa.table({"s": ["a", None], "n": pa.array([1, 2], pa.int32())})
    pq.write_table(table, tmp_path / "a.parquet")
    files = InputFiles([str(tmp_path / "a.parquet")])
    assert [row for batch in files.batches(S) for row in batch.to_pylist()] == [{"n": 1, "s": "a"}, {"n": 2, "s": None}]
    assert files.bytes_read == files.num_bytes
    assert guess(str(tmp_path / "a.parquet")) == {"s": "string", "n": "int32"}
    pq.write_table(pa.table({"n": ["x"], "more": [1]}), tmp_path / "b.parquet")
    with pytest.raises(SchemaError, match="has no column `more`"):
        read(str(tmp_path / "b.parquet"), S)
    with pytest.raises(SchemaError, match=r"b.parquet`: cannot write the column `n` because it is `string`"):
        read(str(tmp_path / "b.parquet"), S, ignore_unknown=True)
    os.rename(tmp_path / "a.parquet", tmp_path / "data")
    assert len(read(str(tmp_path / "data"), S)) == 2


def test_types_are_guessed_from_the_beginning(tmp_path) -> None:
    path = write(
        tmp_path,
        "a.csv",
        "i,f,b,d,t,z,code,s,nothing\n"
        "1,1.5,true,2026-01-01,2026-01-01 10:00:00,2026-01-01T10:00:00+01:00,007,x,\n"
        "-2,1,FALSE,2026-01-02,2026-01-01T10:00:00.123456789,2026-01-01 10:00:00 Z,8,1,\n",
    )
    expected = ["int64", "double", "bool", "date32[day]", "timestamp[us]", "timestamp[us, tz=UTC]", *["string"] * 3]
    assert list(guess(path).values()) == expected
    lines = [
        {"a": 1, "b": {"x": 1.5, "y": [1, None]}, "t": "2026-01-01T00:00:00Z", "mixed": 1, "n": None, "big": 2**70},
        {"a": 2.5, "b": {"z": True}, "mixed": "x", "e": {}, "l": [], "t": None},
    ]
    path = write(tmp_path, "a.jsonl", "oops\n" + "".join(json.dumps(line) + "\n" for line in lines))
    assert guess(path) == {
        "a": "double",
        "b": "struct<x: double, y: list<element: int64>, z: bool>",
        "t": "timestamp[us, tz=UTC]",
        "mixed": "string",
        "n": "string",
        "big": "double",
        "e": "string",
        "l": "list<element: string>",
    }


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", "", "because it is empty"),
        ("a.jsonl", " \n", "because it is empty"),
        ("a.json", "[\n1\n]\n", "does not begin with JSON objects"),
        ("a.parquet", "", "as Parquet"),
    ],
)
def test_types_cannot_be_guessed_of_nothing(tmp_path, name, data, message) -> None:
    with pytest.raises(SchemaError, match=message):
        guess(write(tmp_path, name, data))
