"""Conflict detection; pure. A conflict is a value.

The functions compare the start of an operation with the newest version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from indextables.log.snapshot import Head
from indextables.protocol.actions import Metadata
from indextables.protocol.horizon import own_properties


class Conflict(NamedTuple):
    """Reason why an operation does not fit the newest version."""

    reason: str


def rows_fit(start: Head, now: Head, *, same_properties: bool = False) -> Conflict | None:
    """Return a conflict unless table, schema and partitioning are those of `start`.

    With `same_properties`, changed table properties are a conflict too: they control how rows are indexed.
    A changed protocol is checked later: it is no conflict if this library can still write it.
    """
    before, after = start.metadata, now.metadata
    if before.id != after.id:
        return Conflict("the table was recreated")
    if before.schema_string != after.schema_string:
        return Conflict(f"the schema was changed by version {now.version} or one before it")
    if before.partition_columns != after.partition_columns:
        return Conflict(f"the partitioning was changed by version {now.version} or one before it")
    if same_properties and own_properties(before.configuration) != own_properties(after.configuration):
        return Conflict(f"the properties were changed by version {now.version} or one before it")
    return None


def still_at(expected: int, now: Head) -> Conflict | None:
    """Return a conflict unless the table is at the version that the caller expects."""
    if now.version == expected:
        return None
    return Conflict(f"the table is at version {now.version}, not at version {expected} as requested")


def sources_live(live: Mapping[str, bool]) -> Conflict | None:
    """Return a conflict unless all files to replace are still live."""
    gone = sorted(path for path, is_live in live.items() if not is_live)
    if not gone:
        return None
    others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return Conflict(f"`{gone[0]}`{others} is no longer part of the table")


def change_properties(start: Metadata, properties: Mapping[str, str | None], now: Metadata) -> Metadata | Conflict:
    """Return the newest metadata with some properties set, or removed by None.

    Concurrent changes since `start` are kept, but a key that they set to another value is a conflict.
    """
    if start.id != now.id:
        return Conflict("the table was recreated")
    before, after = start.configuration, now.configuration
    for key, wanted in sorted(properties.items()):
        if after.get(key) not in (before.get(key), wanted):
            return Conflict(f"another writer has changed the property `{key}` concurrently")
    changed = {**after, **properties}
    return with_configuration(now, {key: value for key, value in changed.items() if value is not None})


def with_configuration(metadata: Metadata, configuration: dict[str, str]) -> Metadata:
    """Return the metadata with another configuration."""
    fields = {name: getattr(metadata, name) for name in metadata.__struct_fields__}
    return Metadata(**{**fields, "configuration": configuration})
