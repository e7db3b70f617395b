"""Filter expressions: parsed from SQL text, bound to a schema, converted to Arrow.

`parse_predicate` parses text to the frozen values of `values`; `bind` resolves names, converts literals, and returns a
`BoundPredicate` that is true for exactly the rows for which the SQL condition is true; `to_arrow` converts it to a
filter of rows.

Comparison (in `literals` and `bind`): numbers compare by value, whole numbers and decimals exactly and doubles as the
nearest double; NaN equals NaN and is greater than any number; strings compare by code point; times are in UTC unless
they name a zone. Text is converted to the type of a column of numbers, booleans, dates or timestamps. A column of
strings compares with strings only: `'007' = 7` is ambiguous and therefore refused.
"""

from __future__ import annotations

from indextables.predicate.arrow import matching, to_arrow
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
    "matching",
    "parse_predicate",
    "split_conjuncts",
    "to_arrow",
]
