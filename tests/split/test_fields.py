"""From a schema and settings to the fields of an index."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from indextables.config import Config
from indextables.errors import SchemaError
from indextables.protocol.doc_mapping import canonical_json
from indextables.split.index.fields import FieldMap, Kind, map_fields

NATURAL = {
    pa.string(): Kind.STRING,
    pa.large_string(): Kind.STRING,
    pa.string_view(): Kind.STRING,
    pa.dictionary(pa.int8(), pa.string()): Kind.STRING,
    pa.int8(): Kind.INT,
    pa.uint32(): Kind.INT,
    pa.uint64(): Kind.UINT,
    pa.float16(): Kind.FLOAT,
    pa.float64(): Kind.FLOAT,
    pa.bool_(): Kind.BOOL,
    pa.date32(): Kind.INT,
    pa.timestamp("us", tz="UTC"): Kind.INT,
    pa.timestamp("us"): Kind.INT,
    pa.time64("us"): Kind.INT,
    pa.decimal128(18, 4): Kind.INT,
    pa.decimal128(19, 4): Kind.STRING,
    pa.binary(): Kind.BYTES,
    pa.binary(16): Kind.BYTES,
    pa.null(): Kind.STRING,
    pa.struct([("a", pa.int64())]): Kind.JSON,
    pa.map_(pa.string(), pa.int64()): Kind.JSON,
    pa.list_(pa.string()): Kind.JSON,
}
SCHEMA = pa.schema([("id", pa.int64()), ("Message", pa.string()), ("day", pa.string()), ("doc", pa.string())])


def mapped(options: dict[str, object], schema: pa.Schema = SCHEMA, partition_columns=()) -> FieldMap:
    return map_fields(schema, Config.resolve(options=options), partition_columns)


@pytest.mark.parametrize("type_", NATURAL, ids=str)
def test_every_type_has_a_kind(type_):
    (field,) = mapped({}, pa.schema([("c", type_)])).fields
    assert field.kind is NATURAL[type_]
    assert field.type == str(type_.value_type if pa.types.is_dictionary(type_) else type_)


def test_a_type_without_a_kind_is_refused():
    with pytest.raises(SchemaError, match=r"cannot index column `d` because its type is `duration\[s\]`"):
        mapped({}, pa.schema([("d", pa.duration("s"))]))


def test_text_columns_are_indexed_as_asked():
    fields = mapped(
        {
            "indexing.typemap.message": "text",
            "indexing.doc": "json",
            "indexing.tokenizer.Message": "en_stem",
            "indexing.text.indexRecordOption": "freq",
            "indexing.text.maxTokenLength": 40,
        }
    )
    message, doc, day = fields.find("Message"), fields.find("DOC"), fields.find("day")
    assert (message.kind, message.tokenizer, message.record, message.max_token_length) == (
        "text",
        "en_stem",
        "freq",
        40,
    )
    assert (doc.kind, doc.tokenizer, doc.fast) == ("json", "default", True)
    assert (day.kind, day.tokenizer, day.record, day.max_token_length) == ("string", "raw", "basic", 65_530)
    assert fields.text_fields() == (message,)
    assert fields.find("nothing") is None


def test_fast_fields():
    def fast(options: dict[str, object], partition_columns=()) -> set[str]:
        return {field.column for field in mapped(options, partition_columns=partition_columns).fields if field.fast}

    assert fast({}, ("day",)) == {"id", "day"}
    assert fast({"indexing.fastfields": "message"}, ("day",)) == {"Message"}
    assert fast({"indexing.fastfields": ""}) == set()
    assert fast({"indexing.doc": "json", "indexing.fastfields": ""}) == {"doc"}
    assert fast({"indexing.doc": "json", "indexing.json.mode": "minimal"}) == {"id"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"indexing.typemap.nope": "text"}, ["`indexing.typemap.nope`", "no column `nope`"]),
        ({"indexing.tokenizer.nope": "raw"}, ["`indexing.tokenizer.nope`"]),
        ({"indexing.fastfields": "id,nope"}, ["`indexing.fastfields`", "`nope`"]),
        ({"indexing.typemap.id": "text"}, ["cannot index column `id` as `text`", "`int64`"]),
        ({"indexing.tokenizer.day": "default"}, ["`indexing.tokenizer.day`", "indexed as `string`"]),
        ({"indexing.doc": "text", "indexing.tokenizer.doc": "klingon_stem"}, ["`klingon_stem`", "`en_stem`"]),
        ({"indexing.doc": "text", "indexing.tokenizer.doc": "ngram(3,2)"}, ["`ngram(3,2)`"]),
        ({"indexing.typemap.doc": "text", "indexing.typemap.DOC": "json"}, ["`doc`", "names ignore case"]),
    ],
)
def test_settings_that_do_not_fit_are_refused(options, words):
    with pytest.raises(SchemaError) as caught:
        mapped(options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("name", ["_row", "_score", "_snippet"])
def test_reserved_names_are_refused(name):
    with pytest.raises(SchemaError, match="reserved"):
        mapped({}, pa.schema([(name, pa.int64())]))


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(SchemaError, match="one name"):
        mapped({}, pa.schema([("a", pa.int64()), ("a", pa.string())]))


def test_the_doc_mapping_is_canonical_and_comes_back():
    fields = mapped(
        {"indexing.message": "text", "indexing.tokenizer.message": "ngram(2,4)"}, partition_columns=("day",)
    )
    text = fields.to_json()
    assert canonical_json(text) == text
    assert [entry["name"] for entry in msgspec.json.decode(text)] == ["Message", "day", "doc", "id"]
    assert FieldMap.from_json(text) == fields
    assert hash(FieldMap.from_json(text)) == hash(fields)


@pytest.mark.parametrize(
    "text", ["", "{}", '[{"name": "a"}]', '[{"name":"a","field":"fx","kind":"int","type":"int64"}]']
)
def test_a_doc_mapping_of_another_form_is_refused(text):
    with pytest.raises(SchemaError, match="cannot read a doc mapping because"):
        FieldMap.from_json(text)


def test_a_doc_mapping_that_names_a_column_twice_is_refused():
    entry = '{"name":"a","field":"f%d","kind":"int","type":"int64"}'
    with pytest.raises(SchemaError, match="twice"):
        FieldMap.from_json(f"[{entry % 0},{entry % 1}]")


def test_five_hundred_columns_with_odd_names():
    odd = ["a.b", "a b", "-lead", "ümläut", "日本", "", "f0", 'q"uote', "new\nline", "x" * 300]
    schema = pa.schema([(name, pa.int32()) for name in odd] + [(f"c{i}", pa.string()) for i in range(490)])
    fields = mapped({}, schema)
    assert FieldMap.from_json(fields.to_json()) == fields
    assert [field.name for field in fields.fields] == [f"f{i}" for i in range(500)]
    assert fields.find("a.b").name == "f0"
    assert fields.find("f0").name == "f6"
