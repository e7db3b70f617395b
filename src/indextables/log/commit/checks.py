"""Checks of a caller's arguments before any write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from indextables.errors import ConfigError, CorruptLogError, SchemaError
from indextables.protocol.actions import Action, Add, Metadata
from indextables.protocol.paths import normalize_path
from indextables.protocol.version_file import decode_version, encode_lines
from indextables.store import Location


def checked_adds(adds: Iterable[Add], metadata: Metadata, table: Location) -> list[Add]:
    """Return the adds with relative paths.

    Refuse repeated paths and unknown partitions.
    """
    checked: list[Add] = []
    for add in adds:
        if not isinstance(add, Add):
            raise ConfigError(f"cannot add a `{type(add).__name__}`: expected `actions.Add`")
        path = checked_path(add.path, table)
        checked.append(add if path == add.path else msgspec.structs.replace(add, path=path))
        _check_partition_values(add, metadata)
    repeated = [path for path, count in Counter(add.path for add in checked).items() if count > 1]
    if repeated:
        raise ConfigError(f"cannot add `{repeated[0]}` twice in one commit")
    return checked


def checked_path(path: str, table: Location) -> str:
    """Return the path of a split, relative to the table."""
    if not isinstance(path, str) or not path:
        raise ConfigError(f"cannot use `{path!r}` as the path of a split: expected text")
    try:
        return normalize_path(path, table)
    except ValueError as error:
        raise ConfigError(f"cannot use `{path}` as the path of a split because {error}") from error


class CheckedActions(NamedTuple):
    """Actions as a reader decodes them from `lines`, the bytes to write."""

    actions: tuple[Action, ...]
    lines: bytes


def checked(actions: Sequence[Action], version: int, table: Location) -> CheckedActions:
    """Encode actions and decode them like a reader; refuse unreadable actions."""
    if not actions:
        return CheckedActions((), b"")
    lines = encode_lines(actions)
    try:
        return CheckedActions(decode_version(lines, version, table), lines)
    except CorruptLogError as error:
        raise ConfigError(f"cannot commit because an action is not valid: {error.message}") from error


def _check_partition_values(add: Add, metadata: Metadata) -> None:
    unknown = sorted(set(add.partition_values) - set(metadata.partition_columns))
    if unknown:
        columns = ", ".join(f"`{column}`" for column in metadata.partition_columns) or "none"
        raise SchemaError(
            f"cannot add `{add.path}` because `{unknown[0]}` is not a partition column of the table",
            hint=f"its partition columns: {columns}",
        )
