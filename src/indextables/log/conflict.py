"""Conflict verdicts: pure functions from what an operation was built on and what stands now. A conflict is a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from indextables.log.snapshot import Head
from indextables.protocol.actions import Metadata


class Conflict(NamedTuple):
    """Why an operation cannot stand on the newest version."""

    reason: str


def rows_fit(start: Head, now: Head) -> Conflict | None:
    """Whether files that were written for `start` still fit: the same table, schema and partitioning.

    A protocol that has moved is checked where it is met: what this library can still write is no conflict.
    """
    before, after = start.metadata, now.metadata
    if before.id != after.id:
        return Conflict("the table was made anew")
    if before.schema_string != after.schema_string:
        return Conflict(f"the schema was changed by version {now.version} or one before it")
    if before.partition_columns != after.partition_columns:
        return Conflict(f"the partitioning was changed by version {now.version} or one before it")
    return None


def still_at(expected: int, now: Head) -> Conflict | None:
    """Whether the table is where the caller said it must be."""
    if now.version == expected:
        return None
    return Conflict(f"the table is at version {now.version}, not at version {expected} as was asked for")


def sources_live(live: Mapping[str, bool]) -> Conflict | None:
    """Whether everything that is to be replaced is still part of the table."""
    gone = sorted(path for path, is_live in live.items() if not is_live)
    if not gone:
        return None
    others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return Conflict(f"`{gone[0]}`{others} is no longer part of the table")


def change_properties(start: Metadata, properties: Mapping[str, str | None], now: Metadata) -> Metadata | Conflict:
    """The newest metadata with some properties set, or taken away by None.

    Changes that others made since `start` are kept, but a key that they have set to another value is a conflict.
    """
    if start.id != now.id:
        return Conflict("the table was made anew")
    before, after = start.configuration, now.configuration
    for key, wanted in sorted(properties.items()):
        if after.get(key) not in (before.get(key), wanted):
            return Conflict(f"another writer has changed the property `{key}` meanwhile")
    changed = {**after, **properties}
    return with_configuration(now, {key: value for key, value in changed.items() if value is not None})


def with_configuration(metadata: Metadata, configuration: dict[str, str]) -> Metadata:
    """The metadata with another configuration."""
    fields = {name: getattr(metadata, name) for name in metadata.__struct_fields__}
    return Metadata(**{**fields, "configuration": configuration})
