"""Handle unreadable lines and unknown columns of input files.

A bad line is an error that names it, or is counted and left out. An unknown column is an error that names it and
suggests a similar column of the table.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from indextables.arrow_values import to_array
from indextables.errors import SchemaError
from indextables.ingest.column_types import type_text

_SHOWN = 60


class OnBadLine(enum.StrEnum):
    """Policy for lines that cannot be read.

    `fail`: nothing is written. `skip`: the line is left out. `null`: a value that does not fit becomes null, and a line
    that cannot be read at all is left out.
    """

    FAIL = "fail"
    SKIP = "skip"
    NULL = "null"


class BadLines:
    """Handles and counts the bad lines of all files."""

    def __init__(self, policy: OnBadLine) -> None:
        self.policy = policy
        self.skipped = 0
        self.nulled = 0

    def unreadable(self, where: str, why: str) -> None:
        """Handle a line that is not a row."""
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
        """Drop the bad rows of a batch, or set their bad values to null.

        `bad` maps a column to its rows with bad values. `where` names a row of the batch, and `text` returns the
        original text.
        """
        rows = sorted({row for places in bad.values() for row in places})
        if not rows:
            return batch
        if self.policy is OnBadLine.FAIL:
            column = next(name for name, places in bad.items() if rows[0] in places)
            kind = type_text(batch.schema.field(column).type)
            shown = text(column, rows[0])
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
            raise bad_line(where(rows[0]), f"`{shown}` in the column `{column}` is not a `{kind}`")
        if self.policy is OnBadLine.NULL:
            self.nulled += sum(map(len, bad.values()))
            return batch
        self.skipped += len(rows)
        return batch.filter(_kept(batch.num_rows, rows))


class LogCounts:
    """Counts of losses and assumptions in the log files of an ingest."""

    def __init__(self) -> None:
        self.blank_lines = 0
        self.escaped_lines = 0
        self.assumed_years = 0
        self.unread_moments = 0


def bad_line(where: str, why: str) -> SchemaError:
    """Return the error for a line that cannot be read."""
    return SchemaError(
        f"cannot read {where} because {why}",
        hint="correct the line, or leave such lines out with `--on-bad-line skip`; nothing was written",
    )


def _kept(count: int, left_out: Iterable[int]) -> pa.Array[pa.BooleanScalar]:
    mask = [True] * count
    for row in left_out:
        mask[row] = False
    return to_array(mask)


class UnknownColumns:
    """Checks column names against the table, or ignores unknown ones."""

    def __init__(self, known: Sequence[str], *, ignored: bool) -> None:
        self._known = list(known)
        self._ignored = ignored

    def check(self, names: Iterable[str], where: str) -> None:
        """Refuse names that the table does not have, unless unknown columns are ignored."""
        unknown = [name for name in names if name not in self._known]
        if not unknown or self._ignored:
            return
        listed = ", ".join(f"`{name}`" for name in unknown)
        raise SchemaError(
            f"cannot read {where} because the table has no {'column' if len(unknown) == 1 else 'columns'} {listed}",
            hint=f"{self._meant(unknown)}leave such columns out with `--ignore-unknown`; the table has "
            + ", ".join(f"`{name}`" for name in self._known),
        )

    def _meant(self, unknown: Sequence[str]) -> str:
        by_lower = {name.lower(): name for name in self._known}
        for name in unknown:
            close = difflib.get_close_matches(name.lower(), by_lower, n=1)
            if close:
                return f"`{name}` may be `{by_lower[close[0]]}`; "
        return ""
