"""Text of predicates and statements: limits, and positions for messages."""

from __future__ import annotations

import re

from indextables.errors import QueryError

MAX_LENGTH = 1_000_000

_WINDOW = 60
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


def show_place(text: str, offset: int) -> str:
    """Return `line 1, column 5:` and below it this part of the line with a caret."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    end = len(text) if end < 0 else end
    number = text.count("\n", 0, start) + 1
    first, last = max(start, offset - _WINDOW), min(end, offset + _WINDOW)
    shown = "".join(character if character.isprintable() else " " for character in text[first:last])
    before, after = "..." if first > start else "", "..." if last < end else ""
    caret = " " * (len(before) + offset - first) + "^"
    return f"line {number}, column {offset - start + 1}:\n    {before}{shown}{after}\n    {caret}"


def check(text: str, what: str = "predicate") -> None:
    """Refuse text that is too long, empty, or has characters that are not valid text."""
    if len(text) > MAX_LENGTH:
        raise QueryError(
            f"cannot read the {what} because it is {len(text):,} characters long, and the limit is {MAX_LENGTH:,}"
        )
    if not text.strip():
        hint = "leave `where` out to mean every row" if what == "predicate" else None
        raise QueryError(f"cannot read the {what} because it is empty", hint=hint)
    if bad := _UNREADABLE.search(text):
        raise QueryError(
            f"cannot read the {what} because of the character `U+{ord(bad.group()):04X}`, "
            f"at {show_place(text, bad.start())}"
        )
