"""Content of every kind of checkpoint: a table at one version, with its actions.

Actions of any writer are read. Every refusal is a `ValueError` with the reason; the codec of the format adds the name
of the file.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from indextables.protocol.actions import Count, Long, Metadata, Protocol, Skip

_Kind = TypeVar("_Kind")


@dataclasses.dataclass(frozen=True)
class CheckpointContent:
    """Table at one version, as in a checkpoint.

    Fields that the writer omitted are None.
    """

    version: int
    timestamp_ms: int | None
    txn_id: str | None
    protocol: Protocol | None
    metadata: Metadata | None
    files: pa.Table
    skips: dict[str, Skip]
    transactions: dict[str, tuple[int, int]]


class LastBatch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Last batch of a streaming application, and the version with this batch."""

    batch_id: Long
    version: Count


def encode_json(value: Any) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(value).decode()


def decode_json(text: bytes | str) -> Any:
    """Decode JSON of any shape."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        return msgspec.json.decode(text)
    except UnicodeError as error:
        raise ValueError("it is not UTF-8 text") from error
    except msgspec.DecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def convert(fields: Any, kind: type[_Kind], what: str) -> _Kind:
    """Return the checked value; null fields count as missing."""
    _prepare(kind)
    try:
        return msgspec.convert(without_nulls(fields), kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"its {what} is not valid: {error}") from error
    except RecursionError as error:
        raise ValueError(f"its {what} is nested too deeply") from error


_prepared: set[type] = set()
_preparing = threading.Lock()


def _prepare(kind: type) -> None:
    """Let one thread analyse a type: msgspec crashes if two threads do it at once."""
    if kind not in _prepared:
        with _preparing:
            msgspec.json.Decoder(kind)
            _prepared.add(kind)


def without_nulls(fields: Any) -> Any:
    if not isinstance(fields, dict):
        return fields
    return {name: value for name, value in fields.items() if value is not None}


def metadata_of(fields: Any) -> Metadata:
    """Return a metadata action, bare or under its name.

    Old writers omitted empty fields.
    """
    fields = _unwrap(fields, "metaData")
    if isinstance(fields, dict):
        fields = {"partitionColumns": [], "configuration": {}, **without_nulls(fields)}
    return convert(fields, Metadata, "metadata")


def protocol_of(fields: Any) -> Protocol:
    """Return a protocol action, bare or under its name."""
    return convert(_unwrap(fields, "protocol"), Protocol, "protocol")


def skips_of(items: Iterable[Any]) -> dict[str, Skip]:
    """Return skip actions by path, the last of each."""
    found = [convert(_unwrap(_unwrap(item, "mergeskip"), "skip"), Skip, "skip") for item in items]
    return {skip.path: skip for skip in found}


def transactions_of(fields: Any) -> dict[str, tuple[int, int]]:
    """Return the last batch of each application."""
    batches = convert(fields, dict[str, LastBatch], "list of transactions")
    return {application: (last.batch_id, last.version) for application, last in batches.items()}


def transaction_fields(transactions: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    """Return the wire form of `transactions_of`."""
    return {key: {"batchId": batch_id, "version": version} for key, (batch_id, version) in transactions.items()}


def _unwrap(fields: Any, name: str) -> Any:
    if isinstance(fields, dict) and isinstance(fields.get(name), dict):
        return fields[name]
    return fields
