"""The words of a predicate's text, each with its place, and a drawing of a place for messages."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from indextables.errors import QueryError

MAX_LENGTH = 1_000_000

_WINDOW = 60
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A word, a symbol, a quoted name, a string or a number; `kind` says which."""

    kind: str
    text: str
    start: int

    @property
    def is_end(self) -> bool:
        return self.kind == "end"

    @property
    def is_string(self) -> bool:
        return self.kind == "string"

    @property
    def is_number(self) -> bool:
        return self.kind == "number"

    @property
    def is_name(self) -> bool:
        return self.kind in {"word", "name"}

    @property
    def symbol(self) -> str | None:
        return self.text if self.kind == "symbol" else None

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    def is_symbol(self, *symbols: str) -> bool:
        return self.kind == "symbol" and self.text in symbols


def tokenize(text: str) -> list[Token]:
    """The words of `text`, and an end mark behind them."""
    # sqlglot takes a tenth of a second to load, which only those who filter should pay.
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import SqlglotError

    _check(text)
    try:
        raw = Spark().tokenize(text)
    except (SqlglotError, RecursionError, ValueError) as error:
        raise QueryError(
            "cannot read the predicate because it cannot be split into words: a quote or a comment is left open, "
            f"in {show_place(text, 0)}"
        ) from error
    return [*_join_quotes(text, raw), Token("end", "", len(text))]


def show_place(text: str, offset: int) -> str:
    """`line 1, column 5:` and, under it, that part of the line with a caret."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    end = len(text) if end < 0 else end
    number = text.count("\n", 0, start) + 1
    first, last = max(start, offset - _WINDOW), min(end, offset + _WINDOW)
    shown = "".join(character if character.isprintable() else " " for character in text[first:last])
    before, after = "..." if first > start else "", "..." if last < end else ""
    caret = " " * (len(before) + offset - first) + "^"
    return f"line {number}, column {offset - start + 1}:\n    {before}{shown}{after}\n    {caret}"


def _check(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise QueryError(
            f"cannot read the predicate because it is {len(text):,} characters long, and the limit is {MAX_LENGTH:,}"
        )
    if not text.strip():
        raise QueryError("cannot read the predicate because it is empty", hint="leave `where` out to mean every row")
    if bad := _UNREADABLE.search(text):
        raise QueryError(
            f"cannot read the predicate because of the character `U+{ord(bad.group()):04X}`, "
            f"at {show_place(text, bad.start())}"
        )


def _join_quotes(text: str, raw: list[Any]) -> list[Token]:
    """Our tokens. A doubled quote inside a string, which the tokenizer takes for two strings, is one string again."""
    found: list[Token] = []
    end = -1
    for item in raw:
        token = Token(_kind(item), item.text, item.start)
        touches = item.start == end + 1 and text[end] == text[item.start]
        if token.is_string and found and found[-1].is_string and touches:
            found[-1] = Token("string", found[-1].text + text[end] + token.text, found[-1].start)
        else:
            found.append(token)
        end = item.end
    return found


def _kind(item: Any) -> str:
    name = item.token_type.name
    if name in {"STRING", "RAW_STRING"}:
        return "string"
    if name == "NUMBER":
        return "number"
    if name == "IDENTIFIER":
        return "name"
    if name.endswith("_STRING") or name == "HEREDOC_STRING":
        return "other"
    if name == "VAR" or item.text[:1].isalpha() or item.text[:1] == "_":
        return "word"
    return "symbol"
