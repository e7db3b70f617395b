"""What becomes of a line that cannot be read: an error that names it, or a count of what was left out."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable

import pyarrow as pa

from indextables.errors import SchemaError
from indextables.ops.type_names import type_text

_SHOWN = 60


class OnBadLine(enum.StrEnum):
    """`fail`: nothing is written. `skip`: the line is left out. `null`: a value that does not fit is null, and a line
    that cannot be read at all is left out."""

    FAIL = "fail"
    SKIP = "skip"
    NULL = "null"


class BadLines:
    """The bad lines of all files: met one after the other, and counted."""

    def __init__(self, policy: OnBadLine) -> None:
        self.policy = policy
        self.skipped = 0
        self.nulled = 0

    def unreadable(self, where: str, why: str) -> None:
        """A line that is no row at all."""
        if self.policy is OnBadLine.FAIL:
            raise bad_line(where, why)
        self.skipped += 1

    def misfits(
        self,
        batch: pa.RecordBatch,
        bad: dict[str, list[int]],
        where: Callable[[int], str],
        text: Callable[[str, int], str],
    ) -> pa.RecordBatch:
        """A batch less its bad rows, or with nulls in them. `bad` has the rows of a column whose values do not fit,
        `where` names a row of the batch, and `text` gives what stood there."""
        rows = sorted({row for places in bad.values() for row in places})
        if not rows:
            return batch
        if self.policy is OnBadLine.FAIL:
            column = next(name for name, places in bad.items() if rows[0] in places)
            kind = type_text(batch.schema.field(column).type)
            shown = text(column, rows[0])
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
            raise bad_line(where(rows[0]), f"`{shown}` in the column `{column}` is no `{kind}`")
        if self.policy is OnBadLine.NULL:
            self.nulled += sum(map(len, bad.values()))
            return batch
        self.skipped += len(rows)
        return batch.filter(_kept(batch.num_rows, rows))


def bad_line(where: str, why: str) -> SchemaError:
    """The error of a line that cannot be read."""
    return SchemaError(
        f"cannot read {where} because {why}",
        hint="mend the line, or leave such lines out with `--on-bad-line skip`; nothing was written",
    )


def _kept(count: int, left_out: Iterable[int]) -> pa.Array[pa.BooleanScalar]:
    mask = [True] * count
    for row in left_out:
        mask[row] = False
    return pa.array(mask)
