"""Doc mappings and their registry: a large mapping stands once in the metadata, and adds name it by its hash.

The hash is canonical: object keys are sorted and arrays of named objects are ordered by name, so that two spellings of
one mapping share it. It is the first 16 characters of the SHA-256 in URL-safe base64.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import SchemaError
from indextables.protocol.actions import Add

REGISTRY_PREFIX = "docMappingSchema."
HASH_LENGTH = 16


def canonical_json(mapping_json: str) -> str:
    """The mapping in its one canonical spelling."""
    try:
        return msgspec.json.encode(_canonical(msgspec.json.decode(mapping_json))).decode()
    except (msgspec.DecodeError, UnicodeError) as error:
        raise SchemaError(f"cannot hash a doc mapping because it is not JSON: {error}") from error
    except RecursionError as error:
        raise SchemaError("cannot hash a doc mapping because it is nested too deeply") from error


def doc_mapping_hash(mapping_json: str) -> str:
    """The reference by which adds name this mapping."""
    digest = hashlib.sha256(canonical_json(mapping_json).encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:HASH_LENGTH]


def registry_of(configuration: Mapping[str, str]) -> dict[str, str]:
    """The doc mappings that a table's configuration holds, by hash."""
    return {
        key.removeprefix(REGISTRY_PREFIX): value
        for key, value in configuration.items()
        if key.startswith(REGISTRY_PREFIX)
    }


def without_registry(configuration: Mapping[str, str]) -> dict[str, str]:
    """The table's configuration less its doc mappings."""
    return {key: value for key, value in configuration.items() if not key.startswith(REGISTRY_PREFIX)}


def deduplicate(adds: Sequence[Add]) -> tuple[list[Add], dict[str, str]]:
    """Adds that name their mappings by hash, and the configuration entries that hold those mappings."""
    entries: dict[str, str] = {}
    hashes: dict[str, str] = {}
    slim: list[Add] = []
    for add in adds:
        if add.doc_mapping_json is None:
            slim.append(add)
            continue
        if add.doc_mapping_json not in hashes:
            hashes[add.doc_mapping_json] = doc_mapping_hash(add.doc_mapping_json)
        reference = hashes[add.doc_mapping_json]
        entries.setdefault(REGISTRY_PREFIX + reference, add.doc_mapping_json)
        slim.append(msgspec.structs.replace(add, doc_mapping_ref=reference, doc_mapping_json=None))
    return slim, entries


def with_inline_mappings(adds: Sequence[Add], registry: Mapping[str, str]) -> list[Add]:
    """Adds that carry their mappings. A reference that leads nowhere stays."""
    inline: list[Add] = []
    for add in adds:
        text = add.doc_mapping_json or registry.get(add.doc_mapping_ref or "")
        reference = None if text is not None else add.doc_mapping_ref
        inline.append(msgspec.structs.replace(add, doc_mapping_json=text, doc_mapping_ref=reference))
    return inline


def used_references(tables: Iterable[pa.Table]) -> set[str]:
    """The references to doc mappings that some files hold, gathered part by part."""
    found: set[str | None] = set()
    for table in tables:
        found.update(pc.unique(table["doc_mapping_ref"]).to_pylist())
    return {reference for reference in found if reference is not None}


def canonical_references(registry: Mapping[str, str], used: Iterable[str]) -> dict[str, str]:
    """The hash of the mapping behind each reference, where the reference is another.

    A reference that leads nowhere, or to what is no JSON, is left alone.
    """
    found: dict[str, str] = {}
    for reference in used:
        with contextlib.suppress(KeyError, SchemaError):
            canonical = doc_mapping_hash(registry[reference])
            if canonical != reference:
                found[reference] = canonical
    return found


def replace_references(files: pa.Table, references: Mapping[str, str]) -> pa.Table:
    """The same files, their doc mappings named by other references; what is not in `references` stays."""
    old = pa.array(references.keys(), pa.string())
    new = pa.array(references.values(), pa.string())
    column = files["doc_mapping_ref"]
    replaced = pc.coalesce(new.take(pc.index_in(column, value_set=old)), column)
    at = files.schema.get_field_index("doc_mapping_ref")
    return files.set_column(at, files.schema.field(at), replaced)


def restore_doc_mappings(files: pa.Table, registry: Mapping[str, str]) -> pa.Table:
    """The files with the text of the mappings that they name by reference, in a column that holds each text once.

    A text that a file carries itself stays; a reference that leads nowhere leaves it null.
    """
    known = pa.array(registry.keys(), pa.string())
    texts = pa.array(registry.values(), pa.string())
    batches = files.select(["doc_mapping_ref", "doc_mapping_json"]).to_batches()
    chunks = [_restored(batch.column(0), batch.column(1), known, texts) for batch in batches]
    at = files.schema.get_field_index("doc_mapping_json")
    field = pa.field("doc_mapping_json", pa.dictionary(pa.int32(), pa.string()))
    return files.set_column(at, field, pa.chunked_array(chunks, field.type).unify_dictionaries())


def _restored(references: Any, carried: Any, known: Any, texts: Any) -> Any:
    own = carried.dictionary_encode()
    every = pc.unique(pa.concat_arrays([texts, own.dictionary]))
    by_reference = pc.index_in(texts, value_set=every).take(pc.index_in(references, value_set=known))
    carried_at = pc.index_in(own.dictionary, value_set=every).take(own.indices)
    return pa.DictionaryArray.from_arrays(pc.coalesce(carried_at, by_reference), every)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        items = [_canonical(item) for item in value]
        if items and all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
            items.sort(key=lambda item: str(item["name"]))
        return items
    return value
