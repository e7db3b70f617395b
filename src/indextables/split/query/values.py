"""Helpers of all leaves: literals, names of operators, and refusals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import tantivy

from indextables.split.index.fields import MAX_WHOLE_BYTES
from indextables.split.query.catalog import Catalog, Field, Literal
from indextables.split.query.tree import Exists, Fuzzy, InSet, Leaf, Phrase, Prefix, Range, Regex, Term, Wildcard

_NAMES: dict[type[Leaf], str] = {
    Term: "a term",
    Phrase: "a phrase with slop",
    Prefix: "a prefix",
    Wildcard: "a wildcard",
    Fuzzy: "a fuzzy search",
    Regex: "a regular expression",
    Range: "a range",
    Exists: "a search for existing values",
    InSet: "a set",
}


LOOK_AT_ROWS = "compare it with `where`, which looks at the rows"


class Unsupported(Exception):  # noqa: N818 (turned into a QueryError that knows the place)
    """Raised if a leaf cannot run on a field; holds the reason."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def refuse(leaf: Leaf, field: Field, hint: str | None = None) -> NoReturn:
    """Refuse an operator that the field does not support."""
    raise Unsupported(f"{_NAMES[type(leaf)]} does not work on `{field.column}` of type `{field.type}`", hint)


def literal(catalog: Catalog, field: Field, text: str) -> Literal:
    """Convert a value to index form."""
    try:
        return catalog.parse_literal(field.column, text)
    except ValueError as error:
        raise Unsupported(f"`{text[:100]}` is no value of `{field.column}`, of type `{field.type}`: {error}") from None


def span(catalog: Catalog, field: Field, text: str) -> tuple[Literal, Literal]:
    """Return the range of values of a text in index form; usually one value."""
    try:
        found = catalog.parse_span(field.column, text)
    except ValueError:
        found = None
    if found is not None:
        return found
    value = literal(catalog, field, text)
    return value, value


def check_length(value: bytes, field: Field) -> None:
    """Refuse a value that the index cannot distinguish from others with its prefix."""
    if len(value) > MAX_WHOLE_BYTES:
        raise Unsupported(
            f"the index of `{field.column}` distinguishes values by {MAX_WHOLE_BYTES:,} bytes, and this has "
            f"{len(value):,}",
            LOOK_AT_ROWS,
        )


def any_of(queries: Iterable[tantivy.Query]) -> tantivy.Query:
    """Return a query for the rows of at least one query."""
    found = list(queries)
    if len(found) == 1:
        return found[0]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in found])


def all_of(queries: Iterable[tantivy.Query]) -> tantivy.Query:
    """Return a query for the rows of every query."""
    found = list(queries)
    if len(found) == 1:
        return found[0]
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, query) for query in found])


def regex_query(schema: tantivy.Schema, name: str, pattern: str) -> tantivy.Query:
    """Return a query for rows with a word that matches the expression."""
    try:
        return tantivy.Query.regex_query(schema, name, pattern)
    except ValueError as error:
        raise Unsupported(f"the pattern is refused: {_reason(str(error))}", _hint(str(error))) from None


def _reason(message: str) -> str:
    lines = message.rpartition("RegexQueryError: ")[2].strip("'").splitlines() or [message]
    return lines[-1].removeprefix("error: ").rstrip(".")


def _hint(message: str) -> str | None:
    if "Empty match" in message:
        return "a pattern fits whole words: leave `^`, `$` and `\\b` out"
    if "size limit" in message:
        return "use fewer repetitions and wildcards, or put plain text before them"
    return None
