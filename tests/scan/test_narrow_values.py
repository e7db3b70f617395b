"""Numbers that a narrower column does not hold, and texts of limited length."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from indextables.errors import SchemaError
from indextables.ingest.batches import conform
from indextables.protocol.schema import schema_from_json, schema_to_json, text_length
from indextables.table import Table

FLOAT, DOUBLE = pa.float32(), pa.float64()


def written(values: object, given: pa.DataType, wanted: pa.DataType) -> list[object]:
    batch = pa.RecordBatch.from_arrays([pa.array(values, given)], names=["x"])
    return conform(batch, pa.schema([("x", wanted)]))["x"].to_pylist()


def test_doubles_that_a_float_holds_are_written() -> None:
    values = [0.5, None, math.inf, -math.inf, -0.0, 2.0**100]
    assert written(values, DOUBLE, FLOAT) == values
    assert math.isnan(written([math.nan], DOUBLE, FLOAT)[0])


@pytest.mark.parametrize("value", [0.1, 1e300, -1e39, 1e-300, 16777217.0])
@pytest.mark.parametrize(
    ("nest", "kind"),
    [
        (lambda value: value, lambda kind: kind),
        (lambda value: [0.5, value], pa.list_),
        (lambda value: {"a": {"b": value}}, lambda kind: pa.struct([("a", pa.struct([("b", kind)]))])),
        (lambda value: [("k", 0.5), ("m", value)], lambda kind: pa.map_(pa.string(), kind)),
        (lambda value: [[{"a": value}]], lambda kind: pa.list_(pa.list_(pa.struct([("a", kind)])))),
    ],
)
def test_doubles_that_a_float_does_not_hold_are_refused(value, nest, kind) -> None:
    with pytest.raises(SchemaError, match=r"column `x` because it is .* would become another number"):
        written([nest(0.25), None, nest(value)], kind(DOUBLE), kind(FLOAT))
    assert written([nest(0.25), None], kind(DOUBLE), kind(FLOAT)) == [nest(0.25), None]


def limited(kind: str) -> pa.Schema:
    return schema_from_json(f'{{"type":"struct","fields":[{{"name":"x","type":"{kind}","nullable":true}}]}}')


def test_lengths_stand_in_the_schema_of_a_table() -> None:
    for kind, expected in {"char(5)": ("char", 5), "varchar(3)": ("varchar", 3), "string": None}.items():
        schema = limited(kind)
        assert text_length(schema.field("x")) == expected
        assert schema.field("x").type == pa.string()
        again = schema_from_json(schema_to_json(schema))
        assert again.equals(schema, check_metadata=True)
        assert '"type":"string"' in schema_to_json(schema), "other readers take it for a string"


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("char(3)", ["a", None, "", "äöü", "abc  "], ["a  ", None, "   ", "äöü", "abc"]),
        ("varchar(3)", ["a", None, "", "äöü", "abc  ", "a  "], ["a", None, "", "äöü", "abc", "a  "]),
    ],
)
def test_texts_are_held_to_their_length(kind, given, expected, tmp_path) -> None:
    table = Table.create(tmp_path / "table", limited(kind))
    table.append(pa.table({"x": given}))
    assert table.search()["x"].to_pylist() == expected
    for value in ("abcd", "äöüß", "ab  c"):
        with pytest.raises(SchemaError, match=f"`{value}` has more than 3 characters, and the table's is"):
            table.append(pa.table({"x": ["a", value]}))
    assert text_length(Table.open(tmp_path / "table").schema.field("x")) == (kind.split("(")[0], 3)
    table.append(pa.table({"x": pa.array(["b"]).dictionary_encode()}))
    table.merge_splits()
    assert table.search()["x"].to_pylist()[-1].rstrip() == "b"
