"""The `stats` JSON of a file: `numRecords`, and per column `minValues`, `maxValues` and `nullCount`.

This is how other writers keep what the maps `minValues` and `maxValues` lack. It is read row by row, so it is asked
only where the maps are silent. JSON that cannot be read says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

_SECTIONS = ("minValues", "maxValues", "nullCount")


class JsonStatistics:
    """The decoded JSON of each file, of which a column is read when it is asked for."""

    def __init__(self, stats: pa.Array[Any], names: Sequence[str]) -> None:
        decoder = msgspec.json.Decoder(_stats_type(names))
        self._decoded = [_decode(decoder, text) for text in stats.to_pylist()]
        self._fields = {name: f"c{i}" for i, name in enumerate(names)}

    def texts(self, section: str, name: str) -> pa.Array[Any]:
        """A value of `minValues` or `maxValues` as text, null where unknown."""
        return pa.array([_text(raw) for raw in self._raw(section, name)], pa.string())

    def counts(self, name: str) -> pa.Array[Any]:
        """How many NULLs the column has, null where unknown."""
        return pa.array([_count(raw) for raw in self._raw("nullCount", name)], pa.int64())

    def _raw(self, section: str, name: str) -> Iterator[bytes]:
        field = self._fields[name]
        for decoded in self._decoded:
            values = getattr(decoded, section, None)
            yield b"" if values is None else bytes(getattr(values, field))


def _stats_type(names: Sequence[str]) -> Any:
    """A type that decodes nothing but what is asked for."""
    absent = msgspec.Raw()
    fields = [(f"c{i}", msgspec.Raw, msgspec.field(default=absent, name=name)) for i, name in enumerate(names)]
    section = msgspec.defstruct("Section", fields, gc=False)
    return msgspec.defstruct("Stats", [(name, section | None, None) for name in _SECTIONS], gc=False)


def _decode(decoder: Any, text: str | None) -> Any:
    if not text:
        return None
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _text(raw: bytes) -> str | None:
    """A JSON string's text, or the digits of a number as they stand."""
    if raw[:1] in (b"", b"{", b"[", b"n"):
        return None
    try:
        return str(msgspec.json.decode(raw)) if raw[:1] == b'"' else raw.decode()
    except (msgspec.DecodeError, UnicodeError):
        return None


def _count(raw: bytes) -> int | None:
    return int(raw) if raw.isdigit() and len(raw) <= 18 else None
