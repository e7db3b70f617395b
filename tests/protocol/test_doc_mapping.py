"""Doc mappings: one hash for every spelling of a mapping, equal to that of other writers, and the registry."""

from __future__ import annotations

import base64
import hashlib
import json
import random

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import make_add
from tests.protocol.protocol_examples import json_values

from indextables.errors import SchemaError
from indextables.protocol.doc_mapping import (
    REGISTRY_PREFIX,
    canonical_json,
    canonical_references,
    deduplicate,
    doc_mapping_hash,
    registry_of,
    replace_references,
    restore_doc_mappings,
    used_references,
    without_registry,
)
from indextables.protocol.file_table import AddedFile, files_table

MAPPING = [
    {"name": "title", "type": "text", "options": {"stored": True, "fast": False}},
    {"name": "id", "type": "i64", "tags": ["b", "a"]},
]


def test_the_canonical_form() -> None:
    assert canonical_json('[ {"type": "b", "name": "z"},\n {"name": "a", "deep": {"y": 1, "x": [2, 1]}} ]') == (
        '[{"deep":{"x":[2,1],"y":1},"name":"a"},{"name":"z","type":"b"}]'
    )


def test_the_hash_is_16_characters_of_url_safe_base64_of_sha_256() -> None:
    digest = hashlib.sha256(canonical_json(json.dumps(MAPPING)).encode()).digest()
    assert doc_mapping_hash(json.dumps(MAPPING)) == base64.urlsafe_b64encode(digest)[:16].decode()
    assert doc_mapping_hash(json.dumps(MAPPING)) == "LvhZ2KISivkbfctP"


def test_names_order_only_arrays_in_which_every_item_has_one() -> None:
    assert canonical_json('[{"name":"b"},{"name":"a"}]') == '[{"name":"a"},{"name":"b"}]'
    for kept in (
        '[{"name":"b"},{"title":"a"}]',
        '[{"name":"b"},{"name":1}]',
        '[{"name":"b"},"a"]',
        "[2,1]",
        "[]",
        '["b","a"]',
    ):
        assert canonical_json(kept) == kept
    assert canonical_json('[{"name":"a","v":2},{"name":"a","v":1}]') == '[{"name":"a","v":2},{"name":"a","v":1}]'
    assert canonical_json('{"o":{"f":[{"name":"b"},{"name":"a"}]}}') == '{"o":{"f":[{"name":"a"},{"name":"b"}]}}'


fields = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(max_size=6)}, optional={"type": st.text(max_size=3), "options": json_values}
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda field: field["name"],
)


def respelled(value, rng: random.Random):
    """The same value with its keys, and its arrays of named objects, in another order."""
    if isinstance(value, dict):
        items = [(key, respelled(item, rng)) for key, item in value.items()]
        rng.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        items = [respelled(item, rng) for item in value]
        named = [item["name"] for item in items if isinstance(item, dict) and isinstance(item.get("name"), str)]
        if len(set(named)) == len(items):
            rng.shuffle(items)
        return items
    return value


@given(fields, st.randoms(use_true_random=False), st.sampled_from([None, 2]))
def test_order_and_spacing_do_not_matter(mapping, rng, indent) -> None:
    other = json.dumps(respelled(mapping, rng), indent=indent, ensure_ascii=rng.random() < 0.5)
    assert doc_mapping_hash(other) == doc_mapping_hash(json.dumps(mapping))


@given(json_values)
def test_the_canonical_form_is_stable_and_means_the_same(value) -> None:
    once = canonical_json(json.dumps(value))
    assert canonical_json(once) == once
    if not isinstance(value, list | dict):
        assert json.loads(once) == value


@given(st.lists(st.integers(0, 3), min_size=2, max_size=4))
def test_the_order_of_other_arrays_matters(items) -> None:
    turned = items[::-1]
    assert (doc_mapping_hash(json.dumps(items)) == doc_mapping_hash(json.dumps(turned))) == (items == turned)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1,]", "not JSON"),
        ('"\ud800"', "not JSON"),
        ("1e400", "not JSON"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_mapping_is_refused(bad, why) -> None:
    with pytest.raises(SchemaError, match=f"cannot hash a doc mapping because it is {why}"):
        doc_mapping_hash(bad)


def test_the_registries_of_other_writers_have_our_hashes(shared) -> None:
    mappings = {}
    for state in sorted((shared / "fixtures" / "upstream-0.5.4").glob("*/_transaction_log/state-v*/_manifest.avro")):
        with state.open("rb") as file:
            for record in fastavro.reader(file):
                mappings |= {
                    key.removeprefix(REGISTRY_PREFIX): value for key, value in record["schemaRegistry"].items()
                }
    assert len(mappings) >= 2
    assert {doc_mapping_hash(mapping): mapping for mapping in mappings.values()} == mappings


def test_the_adds_of_other_writers_name_what_their_registries_hold(shared) -> None:
    for table in sorted((shared / "fixtures" / "upstream-0.5.4").glob("*/_transaction_log")):
        known, named = set(), set()
        for state in table.glob("state-v*/_manifest.avro"):
            with state.open("rb") as file:
                for record in fastavro.reader(file):
                    known |= {key.removeprefix(REGISTRY_PREFIX) for key in record["schemaRegistry"]}
        for manifest in table.glob("manifests/*.avro"):
            with manifest.open("rb") as file:
                named |= {entry["docMappingRef"] for entry in fastavro.reader(file)}
        assert named - {None}
        assert named - {None} <= known


def test_the_registry_stands_in_the_configuration() -> None:
    configuration = {"docMappingSchema.ab": "[]", "docMappingSchema.": "x", "other": "1", "a.docMappingSchema.b": "2"}
    assert registry_of(configuration) == {"ab": "[]", "": "x"}
    assert without_registry(configuration) == {"other": "1", "a.docMappingSchema.b": "2"}


def test_adds_come_to_name_their_mappings_by_hash() -> None:
    first, turned = json.dumps(MAPPING), json.dumps(MAPPING[::-1], indent=1)
    adds = [
        make_add("a", doc_mapping_json=first),
        make_add("b"),
        make_add("c", doc_mapping_json=turned),
        make_add("d", doc_mapping_json="[]", doc_mapping_ref="old"),
        make_add("e", doc_mapping_ref="kept"),
    ]
    slim, entries = deduplicate(adds)
    known, empty = doc_mapping_hash(first), doc_mapping_hash("[]")
    assert [add.path for add in slim] == ["a", "b", "c", "d", "e"]
    assert [add.doc_mapping_ref for add in slim] == [known, None, known, empty, "kept"]
    assert all(add.doc_mapping_json is None for add in slim)
    assert entries == {REGISTRY_PREFIX + known: first, REGISTRY_PREFIX + empty: "[]"}
    assert adds[0].doc_mapping_json == first
    assert deduplicate(slim) == (slim, {})
    assert deduplicate([]) == ([], {})


def test_an_add_with_a_broken_mapping_is_refused() -> None:
    with pytest.raises(SchemaError, match="not JSON"):
        deduplicate([make_add("a", doc_mapping_json="{")])


def files_with(*mappings: tuple[str | None, str | None]) -> pa.Table:
    """Files with these references and texts."""
    adds = (make_add(f"{at}", doc_mapping_ref=ref, doc_mapping_json=text) for at, (ref, text) in enumerate(mappings))
    return files_table(AddedFile(add, 1, 1) for add in adds)


references = st.sampled_from([None, "a", "b", "c", "lost"])
texts = st.sampled_from([None, "[]", "{}", "own"])
mappings = st.lists(st.tuples(references, texts), max_size=20)
registries = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["[]", "[1]", "text"]))


def in_parts(table: pa.Table, size: int) -> list[pa.Table]:
    return [table.slice(start, size) for start in range(0, table.num_rows, size)]


@given(mappings, st.integers(1, 7))
def test_used_references_are_gathered_from_all_parts(rows, size) -> None:
    assert used_references(in_parts(files_with(*rows), size)) == {ref for ref, _ in rows if ref is not None}


def test_references_become_canonical_where_they_are_not() -> None:
    canonical = doc_mapping_hash(json.dumps(MAPPING))
    registry = {canonical: json.dumps(MAPPING), "old": json.dumps(MAPPING[::-1]), "broken": "[", "unused": "[]"}
    assert canonical_references(registry, [canonical, "old", "broken", "missing"]) == {"old": canonical}


@given(st.dictionaries(st.text(max_size=3), json_values.map(json.dumps), max_size=5))
def test_canonical_references_are_the_hashes_of_their_mappings(registry) -> None:
    found = canonical_references(registry, registry)
    assert all(doc_mapping_hash(registry[old]) == new != old for old, new in found.items())
    assert all(doc_mapping_hash(registry[same]) == same for same in registry.keys() - found.keys())
    merged = {found.get(old, old): text for old, text in registry.items()}
    assert canonical_references(merged, merged) == {}


@given(mappings, st.dictionaries(st.sampled_from("abc"), st.sampled_from("bcxy")), st.integers(1, 7))
def test_references_are_replaced(rows, changes, size) -> None:
    files = pa.concat_tables([files_with(), *in_parts(files_with(*rows), size)])
    replaced = replace_references(files, changes)
    assert replaced["doc_mapping_ref"].to_pylist() == [changes.get(ref, ref) for ref, _ in rows]
    assert replaced.schema.equals(files.schema)
    assert replaced.drop_columns(["doc_mapping_ref"]).equals(files.drop_columns(["doc_mapping_ref"]))


@given(mappings, registries, st.integers(1, 7))
def test_mappings_are_restored_from_the_registry(rows, registry, size) -> None:
    files = pa.concat_tables([files_with(), *in_parts(files_with(*rows), size)])
    restored = restore_doc_mappings(files, registry)
    expected = [registry.get(ref) if text is None else text for ref, text in rows]
    assert restored["doc_mapping_json"].to_pylist() == expected
    assert restored["doc_mapping_json"].type == pa.dictionary(pa.int32(), pa.string())
    for chunk in restored["doc_mapping_json"].chunks:
        assert len(chunk.dictionary.unique()) == len(chunk.dictionary)
    assert restored.drop_columns(["doc_mapping_json"]).equals(files.drop_columns(["doc_mapping_json"]))
    assert restore_doc_mappings(restored, registry)["doc_mapping_json"].to_pylist() == expected


def test_many_files_share_one_text() -> None:
    files = files_with(*[("a", None)] * 10_000)
    restored = restore_doc_mappings(files, {"a": "x" * 10_000})["doc_mapping_json"]
    assert restored.nbytes < 100_000
    assert restored[9_999].as_py() == "x" * 10_000
