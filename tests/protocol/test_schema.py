"""Schemas: Arrow to Spark's JSON and back, and clear refusals of what has no equal."""

from __future__ import annotations

import contextlib
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.errors import SchemaError
from indextables.protocol.schema import check_partition_columns, same_columns, schema_from_json, schema_to_json

EXACT = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "decimal(1,0)": pa.decimal128(1, 0),
    "decimal(38,38)": pa.decimal128(38, 38),
    "decimal(10,2)": pa.decimal128(10, 2),
}
BECOMES = [
    (pa.large_string(), "string"),
    (pa.string_view(), "string"),
    (pa.dictionary(pa.int8(), pa.string()), "string"),
    (pa.dictionary(pa.int32(), pa.int64()), "long"),
    (pa.run_end_encoded(pa.int32(), pa.date32()), "date"),
    (pa.large_binary(), "binary"),
    (pa.binary_view(), "binary"),
    (pa.binary(16), "binary"),
    (pa.uint8(), "short"),
    (pa.uint16(), "integer"),
    (pa.uint32(), "long"),
    (pa.uint64(), "decimal(20,0)"),
    (pa.float16(), "float"),
    (pa.date64(), "date"),
    *[(pa.timestamp(unit), "timestamp_ntz") for unit in ("s", "ms", "us", "ns")],
    *[
        (pa.timestamp(unit, tz=zone), "timestamp")
        for unit in ("s", "ns")
        for zone in ("UTC", "Europe/Berlin", "+02:00")
    ],
    (pa.decimal32(5, 2), "decimal(5,2)"),
    (pa.decimal64(12, 0), "decimal(12,0)"),
    (pa.decimal256(38, 1), "decimal(38,1)"),
]
LISTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda kind: pa.list_(kind, 3)]


def spark_type(kind: pa.DataType):
    return json.loads(schema_to_json(pa.schema([("x", kind)])))["fields"][0]["type"]


def arrow_type(kind) -> pa.DataType:
    fields = [{"name": "x", "type": kind, "nullable": True, "metadata": {}}]
    return schema_from_json(json.dumps({"type": "struct", "fields": fields})).field(0).type


def test_the_wire_form_is_sparks() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
            pa.field("names", pa.map_(pa.string(), pa.int32())),
            pa.field("at", pa.struct([pa.field("x", pa.float64(), nullable=False)])),
        ]
    )
    assert json.loads(schema_to_json(schema)) == {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": False, "metadata": {}},
            {
                "name": "tags",
                "type": {"type": "array", "elementType": "string", "containsNull": False},
                "nullable": True,
                "metadata": {},
            },
            {
                "name": "names",
                "type": {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True},
                "nullable": True,
                "metadata": {},
            },
            {
                "name": "at",
                "type": {
                    "type": "struct",
                    "fields": [{"name": "x", "type": "double", "nullable": False, "metadata": {}}],
                },
                "nullable": True,
                "metadata": {},
            },
        ],
    }
    assert schema_from_json(schema_to_json(schema)) == schema


@pytest.mark.parametrize("name", EXACT)
def test_types_that_are_equal_both_ways(name) -> None:
    assert spark_type(EXACT[name]) == name
    assert arrow_type(name) == EXACT[name]


@pytest.mark.parametrize(("kind", "name"), BECOMES, ids=str)
def test_variants_become_the_type_that_holds_them(kind, name) -> None:
    assert spark_type(kind) == name
    assert spark_type(arrow_type(name)) == name


@pytest.mark.parametrize("list_of", LISTS)
def test_every_list_is_an_array(list_of) -> None:
    assert spark_type(list_of(pa.int8())) == {"type": "array", "elementType": "byte", "containsNull": True}
    assert arrow_type(spark_type(list_of(pa.large_string()))) == pa.list_(pa.string())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("decimal", pa.decimal128(10, 0)),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("null", pa.null()),
        ("char(3)", pa.string()),
        ("varchar(255)", pa.string()),
        ("string collate UTF8_LCASE", pa.string()),
        ({"type": "array", "elementType": "long"}, pa.list_(pa.int64())),
        ({"type": "map", "keyType": "string", "valueType": "long"}, pa.map_(pa.string(), pa.int64())),
        ({"type": "struct", "fields": []}, pa.struct([])),
    ],
)
def test_other_spellings_of_spark_are_read(name, kind) -> None:
    assert arrow_type(name) == kind


def field(name: str, kind: pa.DataType, nullable: bool) -> pa.Field:
    return pa.field(name, kind, nullable=nullable or pa.types.is_null(kind))


def nested(inner: st.SearchStrategy) -> st.SearchStrategy:
    keys = inner.filter(lambda kind: not pa.types.is_null(kind))
    fields = st.lists(st.tuples(inner, st.booleans()), max_size=3)
    return st.one_of(
        st.builds(lambda kind, nullable: pa.list_(field("element", kind, nullable)), inner, st.booleans()),
        st.builds(lambda key, kind, nullable: pa.map_(key, field("value", kind, nullable)), keys, inner, st.booleans()),
        fields.map(lambda kinds: pa.struct([field(f"f{n}", *kind) for n, kind in enumerate(kinds)])),
    )


kinds = st.recursive(st.sampled_from(list(EXACT.values())), nested, max_leaves=8)
names = st.text(min_size=1, max_size=8)


@given(st.lists(st.tuples(names, kinds, st.booleans()), min_size=1, max_size=4, unique_by=lambda one: one[0].lower()))
def test_every_schema_comes_back_equal(columns) -> None:
    schema = pa.schema([field(*column) for column in columns])
    text = schema_to_json(schema)
    assert schema_from_json(text) == schema
    assert schema_to_json(schema_from_json(text)) == text
    assert schema_to_json(text) == text
    assert same_columns(schema_from_json(text), schema_from_json(schema_to_json(schema)))


loose_kinds = st.recursive(
    st.sampled_from([*EXACT, "decimal(99,1)", "interval", "", None, 1, [], {}]),
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["struct", "array", "map", "udt"])},
        optional={
            "elementType": inner,
            "containsNull": st.sampled_from([True, False, None, 1]),
            "keyType": inner,
            "valueType": inner,
            "valueContainsNull": st.booleans(),
            "fields": st.lists(
                st.fixed_dictionaries(
                    {}, optional={"name": st.sampled_from("abA"), "type": inner, "nullable": st.booleans()}
                ),
                max_size=3,
            ),
        },
    ),
    max_leaves=6,
)


@settings(max_examples=300)
@given(loose_kinds)
def test_whatever_stands_there_is_a_type_or_the_one_error(kind) -> None:
    with contextlib.suppress(SchemaError):
        assert isinstance(arrow_type(kind), pa.DataType)


def test_a_column_of_nulls_may_always_be_null() -> None:
    text = '{"type":"struct","fields":[{"name":"x","type":"void","nullable":false}]}'
    assert schema_from_json(text).field(0).nullable
    assert arrow_type({"type": "array", "elementType": "void", "containsNull": False}) == pa.list_(pa.null())


REFUSED = [
    pa.time32("s"),
    pa.time64("ns"),
    pa.duration("us"),
    pa.month_day_nano_interval(),
    pa.decimal128(10, -2),
    pa.decimal128(5, 9),
    pa.decimal256(39, 0),
    pa.dense_union([pa.field("a", pa.int8())]),
    pa.sparse_union([pa.field("a", pa.int8())]),
    pa.uuid(),
    pa.json_(),
    pa.bool8(),
    pa.list_(pa.time32("s")),
    pa.struct([("deep", pa.map_(pa.string(), pa.duration("s")))]),
    pa.dictionary(pa.int8(), pa.time64("us")),
]


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_types_without_an_equal_are_refused_by_name(kind) -> None:
    with pytest.raises(SchemaError, match=r"cannot store column `\w+` because its type `.+` has no equal in Spark"):
        schema_to_json(pa.schema([("ok", pa.int8()), ("x", kind)]))


def one_column(kind) -> str:
    return json.dumps({"type": "struct", "fields": [{"name": "x", "type": kind}]})


BAD_JSON = {
    "nothing": ("", "not JSON"),
    "no JSON": ("{broken", "not JSON"),
    "half of a surrogate pair": ('{"type":"struct","x":"\ud800"}', "not JSON"),
    "escaped half": ('{"type":"struct","fields":[{"name":"\\ud800","type":"long"}]}', "not JSON"),
    "a list": ("[]", "not a `struct`"),
    "a name": ('"struct"', "not a `struct`"),
    "null": ("null", "not a `struct`"),
    "no struct": ('{"type":"array"}', "not a `struct`"),
    "no fields": ('{"type":"struct"}', "the schema has no list `fields`"),
    "fields that are no list": ('{"type":"struct","fields":{}}', "the schema has no list `fields`"),
    "a field that is no object": (
        '{"type":"struct","fields":["x"]}',
        "a field of the schema has no `name` or no `type`",
    ),
    "a field without a name": ('{"type":"struct","fields":[{"type":"long"}]}', "no `name` or no `type`"),
    "a name that is no text": ('{"type":"struct","fields":[{"name":1,"type":"long"}]}', "no `name` or no `type`"),
    "an empty name": ('{"type":"struct","fields":[{"name":"","type":"long"}]}', "has no name"),
    "a field without a type": ('{"type":"struct","fields":[{"name":"x"}]}', "no `name` or no `type`"),
    "an unknown type": (one_column("telepathy"), "type of column `x` is unknown: `telepathy`"),
    "an interval": (one_column("interval day to second"), "type of column `x` is unknown"),
    "a type that is null": (one_column(None), "type of column `x` is unknown: None"),
    "a type that is a number": (one_column(5), "type of column `x` is unknown: 5"),
    "a user-defined type": (one_column({"type": "udt", "class": "X"}), "type of column `x` is unknown"),
    "an array of nothing": (one_column({"type": "array"}), "type of column `x` is unknown"),
    "a map without keys": (one_column({"type": "map", "valueType": "long"}), "type of column `x` is unknown"),
    "a map with keys of nothing": (
        one_column({"type": "map", "keyType": "void", "valueType": "long"}),
        "type of column `x` is unknown",
    ),
    "a struct without fields": (one_column({"type": "struct"}), "column `x` has no list `fields`"),
    "too many digits": (one_column("decimal(39,0)"), "unknown: `decimal"),
    "more decimals than digits": (one_column("decimal(3,5)"), "unknown: `decimal"),
    "no digits": (one_column("decimal(0,0)"), "unknown: `decimal"),
    "negative decimals": (one_column("decimal(3,-1)"), "unknown: `decimal"),
    "thousands of digits": (one_column(f"decimal({'9' * 5000},0)"), "unknown: `decimal"),
    "digits of another script": (one_column("decimal(\u0663,\u0661)"), "unknown: `decimal"),
    "a long name": (one_column("x" * 10_000), "unknown: `xxx"),
    "nested too deeply": ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    "structs nested too deeply": (
        '{"type":"struct","fields":[{"name":"x","type":' * 300 + '"long"' + "}]}" * 300,
        "nested too deeply",
    ),
}


@pytest.mark.parametrize("case", BAD_JSON)
def test_bad_json_is_refused(case) -> None:
    text, what = BAD_JSON[case]
    for read in (schema_from_json, schema_to_json):
        with pytest.raises(SchemaError) as caught:
            read(text)
        assert what in str(caught.value)
        assert len(str(caught.value)) < 400


def test_arrow_types_nested_too_deeply_are_refused() -> None:
    kind = pa.int8()
    for _ in range(1000):
        kind = pa.list_(kind)
    with pytest.raises(SchemaError, match="nested too deeply"):
        schema_to_json(pa.schema([("x", kind)]))


@pytest.mark.parametrize("names", [("a", "a"), ("Id", "iD"), ("x", "É", "é")])
def test_names_ignore_case(names) -> None:
    columns = [(name, pa.int8()) for name in names]
    text = json.dumps({"type": "struct", "fields": [{"name": name, "type": "long"} for name in names]})
    for schema in (pa.schema(columns), text, pa.schema([("outer", pa.struct(columns))])):
        with pytest.raises(SchemaError, match=f"cannot use the columns `{names[-2]}` and `{names[-1]}` together"):
            schema_to_json(schema)
    with pytest.raises(SchemaError, match="names ignore case"):
        schema_from_json(text)


def test_a_table_needs_columns_with_names() -> None:
    for schema in (pa.schema([]), '{"type":"struct","fields":[]}'):
        with pytest.raises(SchemaError, match="no columns"):
            schema_to_json(schema)
    assert schema_from_json('{"type":"struct","fields":[]}') == pa.schema([])
    with pytest.raises(SchemaError, match="has no name"):
        schema_to_json(pa.schema([("", pa.int8())]))


@pytest.mark.parametrize("schema", [None, 5, ["a"], {"a": "long"}, [("a", pa.int8())], b"{}"])
def test_only_schemas_are_schemas(schema) -> None:
    with pytest.raises(SchemaError, match=f"cannot use a `{type(schema).__name__}` as a schema"):
        schema_to_json(schema)


SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("raw", pa.binary()), ("list", pa.list_(pa.int8()))])


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ("day", "give a sequence of names"),
        (("month",), "no such column"),
        (("Day",), "no such column"),
        ((5,), "no such column"),
        (("day", "day"), "twice"),
        (("raw",), "no text form"),
        (("list",), "no text form"),
        (("id", "day", "raw", "list"), "no text form"),
    ],
)
def test_bad_partition_columns_are_refused(columns, what) -> None:
    with pytest.raises(SchemaError, match=what):
        check_partition_columns(SCHEMA, columns)


def test_partition_columns() -> None:
    check_partition_columns(SCHEMA, ())
    check_partition_columns(SCHEMA, ("day", "id"))
    with pytest.raises(SchemaError, match="every column"):
        check_partition_columns(pa.schema([("a", pa.int8())]), ["a"])


def test_same_columns_look_at_names_types_and_order() -> None:
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False), ("b", pa.string())])
    assert same_columns(schema, pa.schema([("a", pa.int8()), ("b", pa.string())]))
    assert not same_columns(schema, pa.schema([("b", pa.string()), ("a", pa.int8())]))
    assert not same_columns(schema, pa.schema([("a", pa.int16()), ("b", pa.string())]))
    assert not same_columns(schema, pa.schema([("a", pa.int8())]))
