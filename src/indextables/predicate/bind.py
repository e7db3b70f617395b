"""`bind`: a predicate and an Arrow schema to a `BoundPredicate`.

Names ignore case, as in Spark. A literal is converted to the stored form of the column. If the column cannot hold the
literal, the comparison changes too: `n < 1.5` on whole numbers is `n <= 1`, and `n = 1.5` is never true. A date
compared with a timestamp means the whole day.
"""

from __future__ import annotations

import difflib
import math
import re
from fractions import Fraction
from typing import Any

import pyarrow as pa

from indextables.errors import QueryError
from indextables.predicate.bound import (
    BoundAnd,
    BoundColumn,
    BoundComparison,
    BoundConstant,
    BoundIn,
    BoundLike,
    BoundNull,
    BoundOperator,
    BoundOr,
    BoundPredicate,
    BoundValue,
)
from indextables.predicate.convert import convert, limits, next_day
from indextables.predicate.literals import is_day
from indextables.predicate.values import (
    Always,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Value,
)

_NEGATED: dict[BoundOperator, BoundOperator] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MAX_PATTERN_LENGTH = 2_000
_NEVER = BoundConstant(value=False)


def bind(predicate: Predicate, schema: pa.Schema) -> BoundPredicate:
    """Bind the predicate to `schema`; refuse names and literals that do not fit."""
    try:
        return _bind(predicate, schema, negated=False)
    except RecursionError as error:
        raise QueryError("cannot use the predicate because it is nested too deeply") from error


def resolve(column: Column, schema: pa.Schema) -> BoundColumn:
    """Return the column with this whole name, or else the field inside a struct."""
    whole = _find(str(column), schema)
    if whole is not None:
        return BoundColumn((whole.name,), whole.type)
    type_: Any = pa.struct(list(schema))
    path: list[str] = []
    for part in column.parts:
        fields = list(type_) if pa.types.is_struct(type_) else []
        field = _find(part, fields)
        if field is None:
            raise _unknown(column, path, fields)
        path.append(field.name)
        type_ = field.type
    return BoundColumn(tuple(path), type_)


def _bind(node: Predicate, schema: pa.Schema, *, negated: bool) -> BoundPredicate:
    if isinstance(node, Not):
        return _bind(node.term, schema, negated=not negated)
    if isinstance(node, And | Or):
        terms = [_bind(term, schema, negated=negated) for term in node.terms]
        return _all(terms) if isinstance(node, And) is not negated else _any(terms)
    if isinstance(node, Always):
        return BoundConstant(value=node.value is not None and node.value is not negated)
    column = resolve(node.column, schema)
    if isinstance(node, IsNull):
        return BoundNull(column, negated)
    if isinstance(node, Comparison):
        return _comparison(column, node, negated=negated)
    return _in(column, node, negated=negated) if isinstance(node, In) else _like(column, node, negated=negated)


def _all(terms: list[BoundPredicate]) -> BoundPredicate:
    flat = [part for term in terms for part in (term.terms if isinstance(term, BoundAnd) else (term,))]
    flat = [term for term in flat if term != BoundConstant(value=True)]
    if _NEVER in flat:
        return _NEVER
    if len(flat) == 1:
        return flat[0]
    return BoundAnd(tuple(flat)) if flat else BoundConstant(value=True)


def _any(terms: list[BoundPredicate]) -> BoundPredicate:
    flat = [part for term in terms for part in (term.terms if isinstance(term, BoundOr) else (term,))]
    flat = [term for term in flat if term != _NEVER]
    if BoundConstant(value=True) in flat:
        return BoundConstant(value=True)
    if len(flat) == 1:
        return flat[0]
    return BoundOr(tuple(flat)) if flat else _NEVER


def _comparison(column: BoundColumn, node: Comparison, *, negated: bool) -> BoundPredicate:
    if node.operator == "<=>":
        if node.value is None:
            return BoundNull(column, negated)
        equal = Comparison(node.column, "=", node.value)
        found = _comparison(column, equal, negated=negated)
        return _any([BoundNull(column, negated=False), found]) if negated else found
    if node.value is None:
        return _NEVER
    operator = _NEGATED[node.operator] if negated else node.operator
    return _compared(column, operator, node.value)


def _compared(column: BoundColumn, operator: BoundOperator, literal: Value) -> BoundPredicate:
    value = convert(column, literal)
    if column.kind != "timestamp" or not is_day(literal) or not isinstance(value, Fraction):
        return _beside(column, operator, value)
    end = next_day(column, value)
    if operator == "=":
        return _all([_beside(column, ">=", value), _beside(column, "<", end)])
    if operator == "<>":
        return _any([_beside(column, "<", value), _beside(column, ">=", end)])
    return _beside(column, "<" if operator in {"<", "<="} else ">=", end if operator in {">", "<="} else value)


def _beside(column: BoundColumn, operator: BoundOperator, value: Fraction | BoundValue) -> BoundPredicate:
    """Bind a comparison with a value that the column may be unable to hold."""
    if column.kind in {"string", "boolean", "float"}:
        assert not isinstance(value, Fraction)  # noqa: S101
        if value == value or operator not in {">", "<="}:
            return BoundComparison(column, operator, value)
        return _NEVER if operator == ">" else BoundNull(column, negated=True)
    assert not isinstance(value, str)  # noqa: S101
    low, high = limits(column)
    if value != value or value > high:
        return BoundNull(column, negated=True) if operator in {"<", "<=", "<>"} else _NEVER
    if value < low:
        return BoundNull(column, negated=True) if operator in {">", ">=", "<>"} else _NEVER
    below = math.floor(value)
    if below == value:
        return BoundComparison(column, operator, below)
    if operator in {"=", "<>"}:
        return BoundNull(column, negated=True) if operator == "<>" else _NEVER
    return BoundComparison(column, "<=" if operator in {"<", "<="} else ">", below)


def _in(column: BoundColumn, node: In, *, negated: bool) -> BoundPredicate:
    if negated and any(value is None for value in node.values):
        return _NEVER
    if column.kind == "timestamp" and any(map(is_day, node.values)):
        given = [value for value in node.values if value is not None]
        return (_all if negated else _any)([_compared(column, "<>" if negated else "=", value) for value in given])
    terms = [_beside(column, "=", convert(column, value)) for value in node.values if value is not None]
    values = {_hashable(term.value): term.value for term in terms if isinstance(term, BoundComparison)}
    if not values:
        return BoundNull(column, negated=True) if negated else _NEVER
    ordered = tuple(values[key] for key in sorted(values))
    if len(ordered) == 1:
        return BoundComparison(column, "<>" if negated else "=", ordered[0])
    return BoundIn(column, ordered, negated)


def _hashable(value: Any) -> tuple[bool, Any]:
    return (True, 0) if value != value else (False, value)


def _like(column: BoundColumn, node: Like, *, negated: bool) -> BoundPredicate:
    if column.kind != "string":
        raise QueryError(f"cannot use `LIKE` on column `{column.name}` because its type is `{column.type}`")
    convert(column, node.pattern)
    parts = _pattern_parts(node)
    texts = "".join(part for part in parts if part is not None)
    wild = [i for i, part in enumerate(parts) if part is None or part == ""]
    if not wild:
        return BoundComparison(column, "<>" if negated else "=", texts)
    prefix = "".join(part for part in parts[: wild[0]] if part is not None)
    prefix_only = all(part is None for part in parts[wild[0] :])
    regex = "".join({None: ".*", "": "."}.get(part) or re.escape(str(part)) for part in _without_repeats(parts))
    return BoundLike(column, prefix, prefix_only, rf"\A(?s:{regex})\z", negated)


def _pattern_parts(node: Like) -> list[str | None]:
    """Split a pattern: a literal character, the empty string for `_`, None for `%`."""
    if len(node.pattern) > _MAX_PATTERN_LENGTH:
        raise QueryError(f"cannot use a pattern of more than {_MAX_PATTERN_LENGTH:,} characters")
    parts: list[str | None] = []
    characters = iter(node.pattern)
    for character in characters:
        if character == node.escape:
            meant = next(characters, "")
            if meant not in {"%", "_", node.escape}:
                raise QueryError(
                    f"cannot use the pattern `{node.pattern[:60]}` because the escape character `{node.escape}` "
                    "is not followed by `%`, `_` or itself"
                )
            parts.append(meant)
        else:
            parts.append({"%": None, "_": ""}.get(character, character))
    return parts


def _without_repeats(parts: list[str | None]) -> list[str | None]:
    return [part for i, part in enumerate(parts) if part is not None or i == 0 or parts[i - 1] is not None]


def _find(name: str, fields: Any) -> pa.Field[Any] | None:
    same = [field for field in fields if field.name.lower() == name.lower()]
    exact = [field for field in same if field.name == name]
    if len(same) > 1 and len(exact) != 1:
        raise QueryError(f"cannot tell which column `{name}` means because several differ in case only")
    return exact[0] if exact else same[0] if same else None


def _unknown(column: Column, path: list[str], fields: Any) -> QueryError:
    names = [field.name for field in fields]
    place = f"in `{'.'.join(path)}`" if path else "in the schema"
    lowered = {name.lower(): name for name in names}
    near = difflib.get_close_matches(column.parts[len(path)].lower()[:200], list(lowered), n=1)
    hint = f"did you mean `{lowered[near[0]]}`?" if near else f"there are {', '.join(f'`{n}`' for n in names[:20])}"
    return QueryError(
        f"cannot use column `{str(column)[:200]}` because there is no such column {place}", hint=hint if names else None
    )
