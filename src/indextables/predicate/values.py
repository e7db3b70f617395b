"""Predicates as written: frozen, comparable, picklable values that know no schema yet."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Literal

Value = None | bool | int | Decimal | float | str | dt.date | dt.datetime
"""A literal. A `datetime` is in UTC."""

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
"""The operator that says the same with its sides exchanged."""


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column by the parts of its name; what stood in backticks is one part, dots and all."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A column beside a literal. `<=>` is equality for which NULL equals NULL."""

    column: Column
    operator: Operator
    value: Value


@dataclasses.dataclass(frozen=True, slots=True)
class In:
    """A column beside a list of literals."""

    column: Column
    values: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class IsNull:
    """True or false, never NULL."""

    column: Column


@dataclasses.dataclass(frozen=True, slots=True)
class Like:
    """SQL's pattern: `%` for any run of characters, `_` for one, `escape` before either to mean it."""

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
    """A condition without a column: true, false, or NULL."""

    value: bool | None


Predicate = Comparison | In | IsNull | Like | And | Or | Not | Always


def columns(predicate: Predicate) -> frozenset[str]:
    """The names of the columns that a predicate speaks of, as they were written."""
    return frozenset(str(column) for column in _columns(predicate))


def split_conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The terms that must all hold; the predicate itself where it is not an `And`."""
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
