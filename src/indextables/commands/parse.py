"""SQL text to a `Command`, or to nothing where the statement is not one of ours.

Two or three words decide which it is, so that other statements cost next to nothing and go on untouched, whatever they
hold. What begins like one of ours is read to its end, and what is wrong with it is an error that shows the place.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
from collections.abc import Iterator

from indextables.commands.values import Command
from indextables.errors import QueryError
from indextables.predicate.words import Token, iterate_tokens, tokenize
from indextables.store.redact import redact

_TABLES = ("INDEXTABLES", "INDEXTABLE")
# What the second word of a command is, by its first. Spark and others have statements with some of the first words.
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
}
# Words of other table formats, for what commands of ours do. Their target tells whose a statement is.
_BORROWED = ("VACUUM", "OPTIMIZE")
_DESCRIBED = ("STATE", "TRANSACTION", "HISTORY", "MERGE")
_DESCRIBED_BY_SPARK = ("PARTITION", "AS")
_ALIKE = 0.8
_END = Token("end", "", 0, 0)


def parse_command(text: str) -> Command | None:
    """The command that a statement is, or None where it does not begin like one: it is then for Spark to read.
    `VACUUM`, `OPTIMIZE` and `DESCRIBE HISTORY` are read as the commands of ours that do the same.

    A `QueryError` shows the place where a command goes wrong.
    """
    if not _begins_like_ours(_first_words(text)) and not is_borrowed(text):
        return None
    # The parser library takes a while to import, and most statements are not ours.
    from indextables.commands.statement import read_statement

    try:
        return read_statement(text, tokenize(text, "statement"))
    except QueryError as error:
        raise QueryError(redact(error.message), hint=error.hint) from None


def is_borrowed(text: str) -> bool:
    """Whether a statement has words of other table formats, so that it is only ours where its table is."""
    words = _first_words(text)
    return _is_borrowed(next(words), next(words), next(words))


def _is_borrowed(first: Token, second: Token, third: Token) -> bool:
    if first.is_word("DESCRIBE", "DESC"):
        return second.is_word("HISTORY") and (third.is_name or third.is_string)
    return first.is_word(*_BORROWED) and (second.is_name or second.is_string)


def _first_words(text: str) -> Iterator[Token]:
    """The words one by one. Where the text cannot be split into words, it ends."""
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
    """Spark describes a table that is called `indextables`, a partition or one column of it: so much may follow."""
    if third.kind != "word" or third.is_word(*_DESCRIBED_BY_SPARK):
        return False
    is_column = fourth.is_end or fourth.is_symbol(";", ".")
    return third.is_word(*_DESCRIBED) or not is_column
