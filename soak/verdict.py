"""The end of a soak: every acknowledged row is there once and no other is, no version is missing, fsck is clean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import indextables as it
from soak.journal import ACKNOWLEDGED, ROWS_PER_BATCH, Tried, possible_batches, rows_of


def verdict(url: str, options: Mapping[str, Any], tried: Sequence[Tried]) -> dict[str, int]:
    """Figures about the table. Those of `FAULTLESS` count what is wrong with it."""
    table = it.Table.open(url, options=options)
    rows = table.search()
    found = Counter(zip(*(rows[name].to_pylist() for name in ("writer", "batch", "id", "message")), strict=True))
    lost = 0
    expected: set[tuple[Any, ...]] = set()
    for partition, sets in possible_batches(list(tried)).items():
        held = {batch for writer, batch, _, _ in found if writer == partition}
        chosen = next((batches for batches in sets if batches == held), sets[0])
        want = {row for batch in chosen for row in _rows(partition, batch)}
        lost += len(want - found.keys())
        expected |= want
    versions = table.log.versions()
    acknowledged = [entry.version for entry in tried if entry.told == ACKNOWLEDGED]
    problems = [problem for problem in table.fsck().to_pylist() if problem["severity"] == "error"]
    return {
        "rows": rows.num_rows,
        "version": table.version,
        "lost": lost,
        "doubled": sum(count - 1 for count in found.values()),
        "wrong": len(found.keys() - expected),
        "gaps": len(range(versions[0], versions[-1] + 1)) - len(versions),
        "versions_acknowledged_twice": len(acknowledged) - len(set(acknowledged)),
        "problems": len(problems),
        "rows_acknowledged": ROWS_PER_BATCH * len(acknowledged),
    }


FAULTLESS = ("lost", "doubled", "wrong", "gaps", "versions_acknowledged_twice", "problems")


def _rows(partition: str, batch: int) -> list[tuple[Any, ...]]:
    columns = rows_of(partition, batch).to_pydict()
    return list(zip(*columns.values(), strict=True))
