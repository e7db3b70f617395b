"""Doc mappings: a registry in the metadata, and references by hash in adds.

The registry stores a large mapping once. The hash is canonical: object keys are sorted and arrays of named objects are
ordered by name, so that two spellings of one mapping have the same hash. It is the first 16 characters of the SHA-256
in URL-safe base64.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.errors import SchemaError
from indextables.protocol.actions import Add

REGISTRY_PREFIX = "docMappingSchema."
HASH_LENGTH = 16


def canonical_json(mapping_json: str) -> str:
    """Return the canonical spelling of a mapping."""
    try:
        return msgspec.json.encode(_canonical(msgspec.json.decode(mapping_json))).decode()
    except (msgspec.DecodeError, UnicodeError) as error:
        raise SchemaError(f"cannot hash a doc mapping because it is not JSON: {error}") from error
    except RecursionError as error:
        raise SchemaError("cannot hash a doc mapping because it is nested too deeply") from error


@functools.lru_cache(maxsize=64)
def doc_mapping_hash(mapping_json: str) -> str:
    """Return the hash by which adds refer to this mapping."""
    digest = hashlib.sha256(canonical_json(mapping_json).encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:HASH_LENGTH]


def registry_of(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the doc mappings of a table's configuration, by hash."""
    return {
        key.removeprefix(REGISTRY_PREFIX): value
        for key, value in configuration.items()
        if key.startswith(REGISTRY_PREFIX)
    }


def without_registry(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the table's configuration without its doc mappings."""
    return {key: value for key, value in configuration.items() if not key.startswith(REGISTRY_PREFIX)}


def deduplicate(adds: Sequence[Add]) -> tuple[list[Add], dict[str, str]]:
    """Return adds with references to mappings, and a configuration with the mappings."""
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
    """Return adds with inline mappings; keep a reference without a mapping."""
    inline: list[Add] = []
    for add in adds:
        text = add.doc_mapping_json or registry.get(add.doc_mapping_ref or "")
        reference = None if text is not None else add.doc_mapping_ref
        inline.append(msgspec.structs.replace(add, doc_mapping_json=text, doc_mapping_ref=reference))
    return inline


def used_references(tables: Iterable[pa.Table]) -> set[str]:
    """Return the references to doc mappings of files, given in parts."""
    found: set[str | None] = set()
    for table in tables:
        found.update(pc.unique(table["doc_mapping_ref"]).to_pylist())
    return {reference for reference in found if reference is not None}


def canonical_references(registry: Mapping[str, str], used: Iterable[str]) -> dict[str, str]:
    """Return the canonical hash of each reference that differs from it.

    A reference without a mapping, or to text that is not JSON, is ignored.
    """
    found: dict[str, str] = {}
    for reference in used:
        with contextlib.suppress(KeyError, SchemaError):
            canonical = doc_mapping_hash(registry[reference])
            if canonical != reference:
                found[reference] = canonical
    return found


def replace_references(files: pa.Table, references: Mapping[str, str]) -> pa.Table:
    """Return the files with replaced references; keep those not in `references`."""
    old = to_array(references.keys(), pa.string())
    new = to_array(references.values(), pa.string())
    column = files["doc_mapping_ref"]
    replaced = pc.coalesce(new.take(pc.index_in(column, value_set=old)), column)
    at = files.schema.get_field_index("doc_mapping_ref")
    return files.set_column(at, files.schema.field(at), replaced)


def restore_doc_mappings(files: pa.Table, registry: Mapping[str, str]) -> pa.Table:
    """Return the files with the text of their mappings, in a dictionary column.

    A text in the file's own row stays; a reference without a mapping results in null.
    """
    known = to_array(registry.keys(), pa.string())
    texts = to_array(registry.values(), pa.string())
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
