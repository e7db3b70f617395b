"""Fold of a checkpoint's objects, which are single actions or lists of actions.

Every refusal is a `ValueError` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from indextables.location import Location
from indextables.protocol.actions import Add, Count, Long, Metadata, Protocol, Remove, Skip
from indextables.protocol.checkpoint_content import (
    CheckpointContent,
    convert,
    metadata_of,
    protocol_of,
    skips_of,
    transactions_of,
)
from indextables.protocol.file_columns import relative_path
from indextables.protocol.file_table import AddedFile, files_table
from indextables.protocol.paths import remembered
from indextables.protocol.version_file import with_footer


class _Entry(Add, frozen=True):
    """Add with the version that added it, if the writer recorded it."""

    added_at_version: Count | None = None
    added_at_timestamp: Long | None = None


class _Extras(msgspec.Struct, frozen=True, rename="camel"):
    version: Count | None = None
    version_timestamp: Long | None = None
    version_txn_id: str | None = None
    transactions: dict[str, Any] | None = None


class CheckpointFold:
    """Fold of the objects of a checkpoint, one after the other."""

    def __init__(self, version: int, table: Location) -> None:
        self.num_actions = 0
        self._version = version
        self._table = table
        self._timestamp_ms: int | None = None
        self._txn_id: str | None = None
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._files: dict[str, AddedFile] = {}
        self._skips: dict[str, Skip] = {}
        self._transactions: dict[str, tuple[int, int]] = {}
        self._takers: dict[str, Callable[[Any], None]] = {
            "protocol": self._take_protocol,
            "metaData": self._take_metadata,
            "remove": self._take_remove,
            "add": self._take_add,
            "mergeskip": self._take_skip,
            "skip": self._take_skip,
        }

    def apply(self, fields: Mapping[str, Any]) -> None:
        """Apply one object, whose keys have an action or a list of actions.

        Unknown keys are ignored.
        """
        for kind, take in self._takers.items():
            found = fields.get(kind)
            if found is None:
                continue
            actions = found if isinstance(found, list) else [_with_version(found, fields)]
            self.num_actions += len(actions)
            for action in actions:
                take(action)
        self._take_extras(fields)

    def content(self) -> CheckpointContent:
        """Return the content of the checkpoint."""
        if self._metadata is None:
            raise ValueError("it has no metadata action (`metaData`)")
        return CheckpointContent(
            version=self._version,
            timestamp_ms=self._timestamp_ms,
            txn_id=self._txn_id,
            protocol=self._protocol,
            metadata=self._metadata,
            files=files_table(self._files.values()),
            skips=self._skips,
            transactions=self._transactions,
        )

    def _take_protocol(self, fields: Any) -> None:
        self._protocol = protocol_of(fields)

    def _take_metadata(self, fields: Any) -> None:
        self._metadata = metadata_of(fields)

    def _take_remove(self, fields: Any) -> None:
        path = relative_path(convert(fields, Remove, "remove").path, self._table)
        self._files.pop(path, None)
        self._skips.pop(path, None)

    def _take_add(self, fields: Any) -> None:
        entry = convert(fields, _Entry, "add")
        path = relative_path(entry.path, self._table)
        add = with_footer(entry)
        if path != entry.path:
            add = msgspec.structs.replace(add, path=path, tags=remembered(entry.tags, entry.path))
        version = self._version if entry.added_at_version is None else entry.added_at_version
        time_ms = entry.modification_time if entry.added_at_timestamp is None else entry.added_at_timestamp
        self._files.pop(path, None)
        self._files[path] = AddedFile(add, version, time_ms)

    def _take_skip(self, fields: Any) -> None:
        for path, skip in skips_of([fields]).items():
            inside = relative_path(path, self._table)
            self._skips[inside] = skip if inside == path else msgspec.structs.replace(skip, path=inside)

    def _take_extras(self, fields: Mapping[str, Any]) -> None:
        extras = convert({name: fields.get(name) for name in _Extras.__struct_encode_fields__}, _Extras, "object")
        if extras.version is not None and extras.version != self._version:
            raise ValueError(f"it belongs to version {extras.version}")
        if extras.version_timestamp is not None:
            self._timestamp_ms = extras.version_timestamp
        if extras.version_txn_id is not None:
            self._txn_id = extras.version_txn_id
        if extras.transactions is not None:
            self._transactions = transactions_of(extras.transactions)


def _with_version(action: Any, fields: Mapping[str, Any]) -> Any:
    """Return the action with its version and time from the enclosing object.

    Other writers do not know these fields.
    """
    beside = {name: fields[name] for name in ("addedAtVersion", "addedAtTimestamp") if name in fields}
    return {**action, **beside} if beside and isinstance(action, dict) else action
