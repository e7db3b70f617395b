"""Predicates as parsed: frozen, comparable, picklable values without a schema."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Literal

Value = None | bool | int | Decimal | float | str | dt.date | dt.datetime
"""Literal. A `datetime` is in UTC."""

Operator = Literal["=", "<>", "<", "<=", ">", ">=", "<=>"]

FLIPPED: dict[Operator, Operator] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "<=>": "<=>",
}
"""Equivalent operators for exchanged sides."""


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """Column by the parts of its name; backticks make one part of a name with dots."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of a column with a literal. For `<=>`, NULL equals NULL."""

    column: Column
    operator: Operator
    value: Value


@dataclasses.dataclass(frozen=True, slots=True)
class In:
    """Membership of a column in a list of literals."""

    column: Column
    values: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class IsNull:
    """Test for NULL; true or false, never NULL."""

    column: Column


@dataclasses.dataclass(frozen=True, slots=True)
class Like:
    """SQL pattern: `%` is any text, `_` is one character, `escape` makes them literal."""

    column: Column
    pattern: str
    escape: str = "\\"


@dataclasses.dataclass(frozen=True, slots=True)
class And:
    terms: tuple[Predicate, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Or:
    terms: tuple[Predicate, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Not:
    term: Predicate


@dataclasses.dataclass(frozen=True, slots=True)
class Always:
    """Condition without a column: true, false, or NULL."""

    value: bool | None


Predicate = Comparison | In | IsNull | Like | And | Or | Not | Always


def columns(predicate: Predicate) -> frozenset[str]:
    """Return the column names of a predicate, in their original spelling."""
    return frozenset(str(column) for column in _columns(predicate))


def split_conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the terms of nested `And`s; the predicate itself if it is no `And`."""
    if not isinstance(predicate, And):
        return (predicate,)
    return tuple(part for term in predicate.terms for part in split_conjuncts(term))


def _columns(predicate: Predicate) -> Iterator[Column]:
    pending: list[Predicate] = [predicate]
    while pending:
        node = pending.pop()
        if isinstance(node, And | Or):
            pending.extend(node.terms)
        elif isinstance(node, Not):
            pending.append(node.term)
        elif not isinstance(node, Always):
            yield node.column
