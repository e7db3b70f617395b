"""Parsing of SQL text to a `Command`, or None for statements that are not ours.

The first two or three words decide this, so other statements cost almost nothing and stay unchanged, whatever they
contain. A statement that starts like one of ours is parsed completely, and an error shows the position of a mistake.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from indextables.errors import QueryError
from indextables.location import redact
from indextables.predicate.words import Token, iterate_tokens, tokenize

_TABLES = ("INDEXTABLES", "INDEXTABLE")
# The second word of a command, by its first word. Spark and other formats use some of the first words, too.
_BEGINNINGS: dict[str, tuple[str, ...]] = {
    "CHECKPOINT": _TABLES,
    "COMPACT": _TABLES,
    "TRUNCATE": _TABLES,
    "PURGE": _TABLES,
    "DESCRIBE": _TABLES,
    "DESC": _TABLES,
    "REPAIR": ("INDEXFILES", *_TABLES),
    "MERGE": ("SPLITS",),
    "REINDEX": _TABLES,
    "DROP": _TABLES,
    "RESTORE": _TABLES,
    "INVALIDATE": _TABLES,
    "FLUSH": _TABLES,
    "PREWARM": _TABLES,
}
# Words of other table formats for our commands. The format of the target table decides whose statement it is.
_BORROWED = ("VACUUM", "OPTIMIZE")
_DESCRIBED = ("STATE", "TRANSACTION", "HISTORY", "MERGE")
_DESCRIBED_BY_SPARK = ("PARTITION", "AS")
_ALIKE = 0.8
_END = Token("end", "", 0, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The table of a command: a path or URL, or a name to look up.

    `place` is its position in the statement.
    """

    text: str
    is_path: bool
    place: int


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """One of `COMMANDS` by name, with the arguments of the method of the same name."""

    name: str
    target: Target | None
    arguments: Mapping[str, Any]
    text: str


def parse_command(text: str) -> Command | None:
    """Parse a command; return None if the text does not start like one of ours.

    `VACUUM`, `OPTIMIZE` and `DESCRIBE HISTORY` are parsed as the equivalent commands of ours. A `QueryError` shows the
    position of a mistake.
    """
    if not _begins_like_ours(_first_words(text)) and not is_borrowed(text):
        return None
    # The import of the parser library is slow, and most statements are not ours.
    from indextables.commands.statement import read_statement

    try:
        return read_statement(text, tokenize(text, "statement"))
    except QueryError as error:
        raise QueryError(redact(error.message), hint=error.hint) from None


def is_borrowed(text: str) -> bool:
    """Return whether a statement uses words of other formats.

    The format of its table then decides whose statement it is.
    """
    words = _first_words(text)
    return _is_borrowed(next(words), next(words), next(words))


def _is_borrowed(first: Token, second: Token, third: Token) -> bool:
    if first.is_word("DESCRIBE", "DESC"):
        return second.is_word("HISTORY") and (third.is_name or third.is_string)
    return first.is_word(*_BORROWED) and (second.is_name or second.is_string)


def _first_words(text: str) -> Iterator[Token]:
    """Yield the words one by one; stop where the text cannot be split into words."""
    with contextlib.suppress(QueryError):
        yield from iterate_tokens(text, "statement")
    yield from itertools.repeat(_END)


def _begins_like_ours(words: Iterator[Token]) -> bool:
    first = next(words)
    seconds = _BEGINNINGS.get(first.text.upper()) if first.kind == "word" else None
    if seconds is None:
        return False
    second = next(words)
    if first.is_word("DESCRIBE", "DESC"):
        return second.is_word(*seconds) and _describes_like_ours(next(words), next(words))
    if second.kind != "word":
        return False
    return bool(difflib.get_close_matches(second.text.upper(), seconds, n=1, cutoff=_ALIKE))


def _describes_like_ours(third: Token, fourth: Token) -> bool:
    """Return whether a `DESCRIBE` is ours.

    Spark describes a table named `indextables`, its partitions and its columns; such words may follow.
    """
    if third.kind != "word" or third.is_word(*_DESCRIBED_BY_SPARK):
        return False
    is_column = fourth.is_end or fourth.is_symbol(";", ".")
    return third.is_word(*_DESCRIBED) or not is_column
