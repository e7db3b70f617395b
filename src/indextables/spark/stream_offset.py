"""Offsets of a stream as Spark keeps them in its checkpoint.

Spark keeps where a batch ends, and asks anew for the beginning when it repeats the first one. By then the table may
have moved on. So the beginning is a mark that says nothing, and every later offset tells what it stood for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from indextables.errors import ConfigError
from indextables.ops.added_rows import Position

BEGINNING = {"position": "beginning"}
_LONGEST_QUOTE = 200


class StreamOffset(NamedTuple):
    """A place in the stream of one table, and where that stream began."""

    table_id: str
    begin: Position
    position: Position

    @classmethod
    def read(cls, offset: Mapping[str, Any]) -> StreamOffset:
        """An offset that Spark gives back."""
        try:
            return cls(str(offset["tableId"]), _position(offset["begin"]), _position(offset["position"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"cannot go on with a stream because `{str(offset)[:_LONGEST_QUOTE]}` is no offset of a table",
                hint="its checkpoint is of another source: start with another `checkpointLocation`",
            ) from error

    def json(self) -> dict[str, Any]:
        """The offset as Spark keeps it."""
        return {"tableId": self.table_id, "begin": self.begin._asdict(), "position": self.position._asdict()}


def _position(given: Mapping[str, Any]) -> Position:
    return Position(int(given["version"]), int(given["passed"]), bool(given["whole"]))
