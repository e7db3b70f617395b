"""What a caller hands in, checked before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from indextables.errors import ConfigError, CorruptLogError, SchemaError
from indextables.protocol.actions import Action, Add, Metadata
from indextables.protocol.paths import normalize_path
from indextables.protocol.version_file import decode_version, encode_version
from indextables.store import Location


def checked_adds(adds: Iterable[Add], metadata: Metadata, table: Location) -> list[Add]:
    """The adds with paths relative to the table: each path once, each partition value of a partition column."""
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
    """A path of a split, relative to the table."""
    if not isinstance(path, str) or not path:
        raise ConfigError(f"cannot use `{path!r}` as the path of a split: expected text")
    try:
        return normalize_path(path, table)
    except ValueError as error:
        raise ConfigError(f"cannot use `{path}` as the path of a split because {error}") from error


def checked(actions: Sequence[Action], version: int, table: Location) -> tuple[Action, ...]:
    """The actions as a reader would get them. What could not be read is never written."""
    if not actions:
        return ()
    try:
        return decode_version(encode_version(actions, compress=False), version, table)
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
