"""Filter expressions as plain values: parsed from SQL text, bound to a schema, and turned into Arrow expressions.

`parse_predicate` reads text into the frozen values of `values`; `bind` resolves names, converts literals, and gives a
`BoundPredicate` that is true for exactly the rows for which the SQL condition is true; `to_arrow` filters rows by it.

How values compare (in `literals` and `bind`): numbers by value, a whole number or a decimal exactly and a double as the
nearest double; NaN equals NaN and is greater than any number; strings by code point; times in UTC unless they name a
zone. Text is converted to the type of a column of numbers, booleans, dates or timestamps. A column of strings compares
with strings only: whether `'007' = 7` is a question that we refuse to guess.
"""

from __future__ import annotations

from indextables.predicate.arrow import to_arrow
from indextables.predicate.bind import bind
from indextables.predicate.bound import (
    BoundAnd,
    BoundColumn,
    BoundComparison,
    BoundConstant,
    BoundIn,
    BoundLike,
    BoundNull,
    BoundOr,
    BoundPredicate,
    bound_columns,
)
from indextables.predicate.parse import parse_predicate
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
    columns,
    split_conjuncts,
)

__all__ = [
    "Always",
    "And",
    "BoundAnd",
    "BoundColumn",
    "BoundComparison",
    "BoundConstant",
    "BoundIn",
    "BoundLike",
    "BoundNull",
    "BoundOr",
    "BoundPredicate",
    "Column",
    "Comparison",
    "In",
    "IsNull",
    "Like",
    "Not",
    "Or",
    "Predicate",
    "Value",
    "bind",
    "bound_columns",
    "columns",
    "parse_predicate",
    "split_conjuncts",
    "to_arrow",
]
