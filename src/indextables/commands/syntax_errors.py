"""Syntax errors of a statement: expected words, position, and correct syntax."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import lark

from indextables.commands.lexer import Statement
from indextables.commands.specs import COMMANDS
from indextables.errors import QueryError
from indextables.predicate.source import show_place

_TABLE = "a table (its name, or a path in quotes)"
_EXPECTED = {
    "PATH": _TABLE,
    "NAME": _TABLE,
    "QUOTED": _TABLE,
    "NUMBER": "a whole number",
    "BYTES": "a size such as `100M`",
    "URL": "a path in quotes",
    "MOMENT": "a timestamp in quotes",
    "PREDICATE": "a predicate",
    "SEMICOLON": "the end",
    "$END": "the end",
}
_LONGEST_WORD = 60
_PARTS_OF_PATHS = ("/", ":", "~", "\\", "-")
_NUMBERS = {"NUMBER", "BYTES"}
_OWN_WORDS = {
    ("VACUUM",): ["PURGE", "INDEXTABLES"],
    ("OPTIMIZE",): ["MERGE", "SPLITS"],
    ("DESCRIBE", "HISTORY"): ["DESCRIBE", "INDEXTABLES", "HISTORY"],
}
_SINGULAR = {"INDEXTABLE": "INDEXTABLES", "DESC": "DESCRIBE"}


def unexpected(statement: Statement, token: lark.Token, accepted: Collection[str]) -> QueryError:
    """Return the error for an unexpected word or an unexpected end."""
    keywords = sorted(name for name in accepted if name not in _EXPECTED and name != "DOT")
    nouns = dict.fromkeys(_EXPECTED[name] for name in _EXPECTED if name in accepted)
    if _TABLE in nouns and "PATH" not in accepted:
        nouns = {"a name": None}
    belongs = _any_of([*(f"`{keyword}`" for keyword in keywords), *nouns])
    if token.type == "$END":
        return mistake(statement, f"it ends where {belongs} is expected", _end(statement))
    start = token.start_pos or 0
    word = statement.written(start, token.end_pos or start)[:_LONGEST_WORD]
    reason = f"`{word}` is found where {belongs} is expected"
    if word.startswith(_PARTS_OF_PATHS) and _NUMBERS.isdisjoint(accepted):
        return mistake(statement, reason, start, advice="put a path in quotes.")
    near = difflib.get_close_matches(word.upper(), keywords, n=1)
    return mistake(statement, reason, start, advice=f"did you mean `{near[0]}`?" if near else None)


def mistake(statement: Statement, reason: str, place: int, *, advice: str | None = None) -> QueryError:
    """Return an error with the position of a mistake and the syntax of the command."""
    usages = "; ".join(f"`{usage}`" for usage in _nearest_usages(statement))
    hint = f"it is written {usages}"
    return QueryError(
        f"cannot read the statement because {reason}, at {show_place(statement.text, place)}",
        hint=hint if advice is None else f"{advice} {hint[0].upper()}{hint[1:]}",
    )


def _any_of(things: list[str]) -> str:
    *others, last = things
    return f"{', '.join(others)} or {last}" if others else last


def _end(statement: Statement) -> int:
    """Return the position after the last word."""
    return statement.tokens[-2].end


def _nearest_usages(statement: Statement) -> list[str]:
    """Return the syntax of the commands with the most first words in common."""
    words = [token.text.upper() for token in statement.tokens if not token.is_end]
    words = [_SINGULAR.get(word, word) for word in words]
    words = next((ours for theirs, ours in _OWN_WORDS.items() if tuple(words[: len(theirs)]) == theirs), words)
    shared = {spec.usage: _num_shared(spec.usage.split(), words) for spec in COMMANDS.values()}
    most = max(shared.values())
    return [usage for usage, number in shared.items() if number == most]


def _num_shared(usage: list[str], words: list[str]) -> int:
    number = 0
    for expected, word in zip(usage, words, strict=False):
        if expected != word:
            break
        number += 1
    return number
