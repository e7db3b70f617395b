"""Doc mappings and their registry: a large mapping stands once in the metadata, and adds name it by its hash.

The hash is canonical: object keys are sorted and arrays of named objects are ordered by name, so that two spellings of
one mapping share it. It is the first 16 characters of the SHA-256 in URL-safe base64.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

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


def canonical_references(registry: Mapping[str, str], used: object) -> dict[str, str]:
    return {}


def used_references(tables: object) -> set[str]:
    return set()


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


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        items = [_canonical(item) for item in value]
        if items and all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
            items.sort(key=lambda item: str(item["name"]))
        return items
    return value
