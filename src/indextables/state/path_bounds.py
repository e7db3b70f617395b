"""Bounds of the paths in a manifest: proof that a path is not in it.

The manifest is not read. A state must know whether a file that was added is in a manifest already, and which manifests
hold the files that were removed. Three pairs of bounds answer this: of whole paths, which are narrow if the table is
sorted by partition; of names that begin with the time, as this library gives them, which exclude every later file; and
of all other names. A name is compared with the bounds of its own kind, so a few names of other kinds do not widen the
bounds of ours.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.protocol.avro.state_manifest import ManifestInfo

Bounds = Mapping[str, tuple[str | None, str | None]]

PATHS, TIMED, OTHERS = "path", "timed", "other"
_TIMED_NAME = r"split-[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\.split"
_is_timed = re.compile(_TIMED_NAME, re.ASCII).fullmatch
_MOST_CHARACTERS = 1024


def path_bounds(paths: pa.ChunkedArray[Any]) -> dict[str, tuple[str | None, str | None]] | None:
    """Return the bounds of the paths of a manifest; None if they are too long to keep."""
    names = pc.replace_substring_regex(paths, pattern=r"(?s)^.*/", replacement="")
    timed = pc.match_substring_regex(names, pattern=rf"\A{_TIMED_NAME}\z")
    found = {
        PATHS: _bounds(paths),
        TIMED: _bounds(pc.filter(names, timed)),
        OTHERS: _bounds(pc.filter(names, pc.invert(timed))),
    }
    if any(len(text) > _MOST_CHARACTERS for pair in found.values() if pair is not None for text in pair):
        return None
    return {kind: pair for kind, pair in found.items() if pair is not None}


def _bounds(texts: Any) -> tuple[str, str] | None:
    if not len(texts):
        return None
    found = pc.min_max(texts).as_py()
    return found["min"], found["max"]


class SoughtPaths:
    """Paths that may be in a manifest or not."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(set(paths))
        self._names: dict[str, list[str]] = {TIMED: [], OTHERS: []}
        for path in self._paths:
            self._names[_kind(path)].append(_name(path))
        for names in self._names.values():
            names.sort()

    def __bool__(self) -> bool:
        return bool(self._paths)

    def may_be_in(self, info: ManifestInfo) -> bool:
        """Return False if the bounds of a manifest exclude every path."""
        bounds = info.path_bounds
        if bounds is None:
            return bool(self._paths)
        if not any(_between(names, bounds.get(kind)) for kind, names in self._names.items()):
            return False
        return bool(self.those_in(info))

    def those_in(self, info: ManifestInfo) -> list[str]:
        """Return the paths that the bounds of a manifest do not exclude."""
        bounds = info.path_bounds
        if bounds is None:
            return list(self._paths)
        return [
            path
            for path in _between(self._paths, bounds.get(PATHS))
            if _is_within(_name(path), bounds.get(_kind(path)))
        ]


def _kind(path: str) -> str:
    return TIMED if _is_timed(_name(path)) else OTHERS


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _between(texts: Sequence[str], bounds: tuple[str | None, str | None] | None) -> Sequence[str]:
    """Return the sorted texts within bounds; none if there are no bounds."""
    if bounds is None:
        return ()
    low, high = bounds
    start = 0 if low is None else bisect.bisect_left(texts, low)
    return texts[start : len(texts) if high is None else bisect.bisect_right(texts, high)]


def _is_within(text: str, bounds: tuple[str | None, str | None] | None) -> bool:
    if bounds is None:
        return False
    low, high = bounds
    return (low is None or low <= text) and (high is None or text <= high)
