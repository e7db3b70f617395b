"""Formats of checkpoints, from the names of their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from indextables.protocol.checkpoint.json_checkpoint import json_checkpoint_key
from indextables.protocol.checkpoint.last_checkpoint import LastCheckpoint
from indextables.protocol.names import state_keys

Format = Literal["avro-state", "parquet", "json"]

JSON_IN_PARTS = "json-multipart"
"""Name of a JSON checkpoint in parts in `_last_checkpoint`."""

OLDER: tuple[Format, ...] = ("parquet", "json")
_PREFERRED: tuple[Format, ...] = ("avro-state", *OLDER)


def formats_of(version: int, keys: Iterable[str], hint: LastCheckpoint | None = None) -> dict[Format, Sequence[str]]:
    """Return the checkpoints of a version by format, the hinted one first."""
    found: dict[Format, list[str]] = {}
    for key in keys:
        if (name := _format_of(version, key)) is not None:
            found.setdefault(name, []).append(key)
    order = sorted(found, key=_PREFERRED.index)
    if hint is not None and hint.version == version:
        # The oldest writers knew only JSON and did not name it.
        named = "json" if hint.format in (None, JSON_IN_PARTS) else hint.format
        order.sort(key=lambda name: name != named)
    return {name: found[name] for name in order}


def _format_of(version: int, key: str) -> Format | None:
    if key in state_keys(version):
        return "avro-state"
    if key == json_checkpoint_key(version):
        return "json"
    # A directory written by Spark has other files too, which all begin with one of these characters.
    is_part = not key.rpartition("/")[2].startswith(("_", "."))
    return "parquet" if ".checkpoint.parquet" in key and is_part else None
