"""What one writer tried and what it was told, in a file that outlives its process; and which rows must be there then.

Every writer has partitions of its own. After an answer that leaves open what happened it goes on in a new one, so that
at the end only the last write of a partition may be in doubt, and the rows of every partition are known but for that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa

ROWS_PER_BATCH = 20
SCHEMA = pa.schema([("writer", pa.string()), ("batch", pa.int64()), ("id", pa.int64()), ("message", pa.string())])
Kind = Literal["append", "replace"]
ACKNOWLEDGED, REFUSED, UNKNOWN, DIED = "acknowledged", "refused", "unknown", "died"


class Tried(msgspec.Struct):
    """One write. `told` stays `died` where the process ended before an answer came."""

    partition: str
    batch: int
    kind: Kind
    told: str = DIED
    version: int | None = None
    error: str | None = None


class Journal:
    """Appends to a file; a line is there before the write that it speaks of begins."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, tried: Tried) -> None:
        os.write(self._file, msgspec.json.encode(tried) + b"\n")


def read_journals(directory: Path) -> list[Tried]:
    """Every write of every writer, in each writer's order, with the last that was noted of it."""
    found: dict[tuple[str, int], Tried] = {}
    for path in sorted(directory.glob("*.journal")):
        for tried in _lines(path):
            found[tried.partition, tried.batch] = tried
    return list(found.values())


def _lines(path: Path) -> Iterator[Tried]:
    for line in path.read_bytes().split(b"\n"):
        if line:
            yield msgspec.json.decode(line, type=Tried)


def rows_of(partition: str, batch: int) -> pa.Table:
    """The rows of one batch; all their values follow from its name and number."""
    first = batch * ROWS_PER_BATCH
    numbers = range(first, first + ROWS_PER_BATCH)
    columns = {
        "writer": [partition] * ROWS_PER_BATCH,
        "batch": [batch] * ROWS_PER_BATCH,
        "id": list(numbers),
        "message": [
            f"{word_of(partition, batch)} row {number} {'error' if number % 7 == 0 else 'ok'}" for number in numbers
        ],
    }
    return pa.table(columns, SCHEMA)


def word_of(partition: str, batch: int) -> str:
    """A word that is in the rows of this batch only."""
    return f"{partition}b{batch}"


def possible_batches(tried: list[Tried]) -> dict[str, list[frozenset[int]]]:
    """Of each partition the batches that it may hold: one set, or two where its last write is in doubt."""
    possible: dict[str, list[frozenset[int]]] = {}
    for entry in tried:
        before = possible.setdefault(entry.partition, [frozenset()])
        if entry.told == REFUSED:
            continue
        after = frozenset({entry.batch}) if entry.kind == "replace" else before[0] | {entry.batch}
        possible[entry.partition] = [after] if entry.told == ACKNOWLEDGED else [before[0], after]
    return possible
