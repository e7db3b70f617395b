"""Rows, predicates and a plain evaluator of three-valued logic that shares no code with the library."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from indextables.predicate import Always, And, Column, Comparison, In, IsNull, Like, Not, Or, Predicate

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("Day", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("tn", pa.timestamp("us")),
        ("dec", pa.decimal128(10, 2)),
    ]
)


def single(value: float) -> float:
    """The nearest 32-bit float."""
    return struct.unpack("f", struct.pack("f", value))[0]


INTEGERS = [-100, -20, -10, -9, -2, -1, 0, 1, 2, 5, 9, 10, 11, 19, 20, 95, 99, 100, 1000, 100000, 2**31 - 1, -(2**31)]
LONGS = [*INTEGERS, 2**53 + 1, 2**63 - 1, -(2**63), 1_700_000_000_000, 17]
DOUBLES = [
    -math.inf,
    -1e10,
    -2.5,
    -1.0,
    -0.0,
    0.0,
    1e-7,
    0.1,
    1.0,
    2.5,
    9.5,
    10.0,
    95.0,
    1e10,
    1e300,
    math.inf,
    math.nan,
]
FLOATS = [single(x) for x in (-2.5, -0.0, 0.0, 0.1, 1.0, 9.5, 10.0, 1e10)] + [math.inf, math.nan]
STRINGS = [
    "",
    "a",
    "aa",
    "aaaaaaa",
    "aaaaaaaaaa",
    "aaaaaaab",
    "aaab",
    "ab",
    "abc",
    "abcdefgh",
    "abcdefghi",
    "abcdefghzz",
    "b",
]
STRINGS += [
    "ba",
    "10",
    "9",
    "A",
    "é",
    "éa",
    "%",
    "a_b",
    "a%b",
    "\ue000",
    "\uffff",
    "\U0001f600",
    "\U0001f600\U0001f600x",
]
STRINGS += [
    "aaaaaaa\U0001f600",
    "aaaaaaa\U0001f601b",
    "aaaaaaa\uffff",
    "z" * 9,
    "\U0010ffff" * 3,
    "a\nb",
    "a?",
    "aaaaaaa?x",
]
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 9, 30)]
DAYS += [dt.date(2024, 10, 1), dt.date(9999, 12, 31)]
INSTANTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC),
    dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
    dt.datetime(2024, 2, 29, 12, 0, 0, 500_000, dt.UTC),
    dt.datetime(2024, 2, 29, 12, 0, 0, 1, dt.UTC),
    dt.datetime(2024, 2, 29, 20, tzinfo=dt.UTC),
    dt.datetime(2024, 3, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 3, 1, 2, 3, 4, 5, dt.UTC),
]
TIMES = [instant.replace(tzinfo=None) for instant in INSTANTS]
CENTS = [-9_999_999_999, -1050, -100, -1, 0, 1, 100, 150, 999, 1000, 9500, 9_999_999_999]
DECIMALS = [Decimal(cents).scaleb(-2) for cents in CENTS]
POOLS: dict[str, list[Any]] = {
    "i": INTEGERS,
    "l": LONGS,
    "d": DOUBLES,
    "f": FLOATS,
    "s": STRINGS,
    "b": [True, False],
    "Day": DAYS,
    "ts": INSTANTS,
    "tn": TIMES,
    "dec": DECIMALS,
}
ODD_NUMBERS = [Decimal("1.5"), Decimal("-1.5"), 2**40, -(2**70), 10**30, Decimal("0.001"), "9", " 10 ", "1.5", "1e1"]
ODD_NUMBERS += [Decimal("94.999"), 95.5, math.nan, math.inf, -math.inf]
ODD_LITERALS: dict[str, list[Any]] = {
    "i": ODD_NUMBERS,
    "l": ODD_NUMBERS,
    "d": [*ODD_NUMBERS, 1, 2, 2**53 + 1, Decimal("0.1")],
    "f": [*ODD_NUMBERS, 0.1, 1, Decimal("0.1")],
    "s": ["aaa", "abcdefgz", "\ue000a", "aaaaaaa\U0001f600x", "c", "aaaaaaaz"],
    "b": ["true", "F"],
    "Day": ["2024-02-29", "2024-9-30", *INSTANTS, "2024-02-29 12:00:00"],
    "ts": ["2024-02-29", "2024-02-29 12:00:00.5", "2024-02-29T14:00:00+02:00", *DAYS],
    "tn": ["2024-02-29", "2024-02-29T12:00:00.000001Z", *DAYS],
    "dec": [*ODD_NUMBERS, 1, 10],
}
PATTERNS = [
    "a%",
    "aaaaaaa%",
    "abcdefgh%",
    "%",
    "a_",
    "%b%",
    "a\\%b",
    "a\\_%",
    "é%",
    "\U0001f600%",
    "aaaaaaa\U0001f600%",
]
PATTERNS += ["aaaaaaa_", "ab", "a%b", "", "\uffff%", "z%", "aaaaaaa?%"]


def random_row(rng: Random, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: None if rng.random() < 0.15 else rng.choice(POOLS[name]) for name in names}


def random_predicate(rng: Random, names: tuple[str, ...] = tuple(POOLS), depth: int = 3) -> Predicate:
    """A leaf as often as not, and else a few of them joined and negated."""
    if depth == 0 or rng.random() < 0.5:
        return _random_leaf(rng, names)
    join = rng.choice([And, Or, Not])
    terms = tuple(random_predicate(rng, names, depth - 1) for _ in range(rng.choice([2, 3])))
    return Not(terms[0]) if join is Not else join(terms)


def predicates(names: tuple[str, ...] = tuple(POOLS)) -> st.SearchStrategy[Predicate]:
    return st.randoms(use_true_random=False).map(lambda rng: random_predicate(rng, names))


def rows(max_size: int = 12) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.randoms(use_true_random=False).map(lambda rng: random_row(rng, tuple(POOLS))), max_size=max_size)


def _random_leaf(rng: Random, names: tuple[str, ...]) -> Predicate:
    name = rng.choice(names)
    column = Column((rng.choice([name, name.upper()]),))
    shape = rng.choice([*["compare"] * 6, "in", "in", "between", "null", "always", *["like"] * 4 * (name == "s")])
    if shape == "compare":
        return Comparison(column, rng.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"]), _random_literal(rng, name))
    if shape == "in":
        size = rng.choice([1, 2, 3, 40])
        return In(column, tuple(_random_literal(rng, name) for _ in range(size)))
    if shape == "between":
        low, high = _random_literal(rng, name), _random_literal(rng, name)
        return And((Comparison(column, ">=", low), Comparison(column, "<=", high)))
    if shape == "like":
        return Like(column, rng.choice(PATTERNS))
    return IsNull(column) if shape == "null" else Always(rng.choice([True, False, None]))


def _random_literal(rng: Random, name: str) -> Any:
    if rng.random() < 0.03:
        return None
    return rng.choice(POOLS[name] if rng.random() < 0.6 else ODD_LITERALS[name])


def evaluate(predicate: Predicate, row: dict[str, Any]) -> bool | None:
    """SQL's answer for one row: true, false or NULL."""
    match predicate:
        case Always(value):
            return value
        case Not(term):
            answer = evaluate(term, row)
            return None if answer is None else not answer
        case And(terms):
            answers = [evaluate(term, row) for term in terms]
            return False if False in answers else None if None in answers else True
        case Or(terms):
            answers = [evaluate(term, row) for term in terms]
            return True if True in answers else None if None in answers else False
        case IsNull(column):
            return _cell(column, row)[1] is None
        case In(column, values):
            return evaluate(Or(tuple(Comparison(column, "=", value) for value in values)), row)
        case Like(column, pattern, escape):
            value = _cell(column, row)[1]
            return None if value is None else _like(value, pattern, escape)
        case Comparison(column, operator, literal):
            return _compare(*_cell(column, row), operator, literal)
    raise AssertionError(predicate)


def _cell(column: Column, row: dict[str, Any]) -> tuple[str, Any]:
    name = next(name for name in row if name.lower() == str(column).lower())
    return name, row[name]


def _compare(name: str, value: Any, operator: str, literal: Any) -> bool | None:
    if value is None or literal is None:
        return (value is None and literal is None) if operator == "<=>" else None
    left, right = _key(name, value), _key(name, literal)
    if name in {"ts", "tn"} and _is_day(literal):
        left, right = left.date(), right.date()
    return {
        "=": left == right,
        "<=>": left == right,
        "<>": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def _key(name: str, value: Any) -> Any:
    """Something that orders as SQL orders the values of the column."""
    if name == "s":
        return [ord(character) for character in value]
    if name == "b":
        return {"true": True, "F": False}.get(value, value)
    if name in {"Day", "ts", "tn"}:
        return _instant(value)
    if isinstance(value, str):
        value = Decimal(value.strip())
    if name in {"d", "f"}:
        try:
            value = float(value)
        except OverflowError:
            value = math.copysign(math.inf, value)
    if isinstance(value, float) and not math.isfinite(value):
        return (3, 0) if math.isnan(value) else (2, 0) if value > 0 else (0, 0)
    return 1, Fraction(str(value)) if isinstance(value, float) else Fraction(value)


def _is_day(literal: Any) -> bool:
    """A date beside a timestamp is the whole day."""
    if isinstance(literal, str):
        return len(literal) <= 10
    return not isinstance(literal, dt.datetime)


def _instant(value: Any) -> dt.datetime:
    if isinstance(value, str):
        year, month, day = value[:10].split("T")[0].split(" ")[0].split("-")
        clock = value.replace("2024-9-30", "2024-09-30")
        value = dt.datetime.fromisoformat(clock) if len(clock) > 10 else dt.date(int(year), int(month), int(day))
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


def _like(value: str, pattern: str, escape: str) -> bool:
    if not pattern:
        return not value
    if pattern[0] == escape:
        return value[:1] == pattern[1] and _like(value[1:], pattern[2:], escape)
    if pattern[0] == "%":
        return any(_like(value[i:], pattern[1:], escape) for i in range(len(value) + 1))
    return bool(value) and pattern[0] in {"_", value[0]} and _like(value[1:], pattern[1:], escape)


def to_sql(predicate: Predicate) -> str:
    """SQL text of a predicate."""
    match predicate:
        case Always(value):
            return _literal(value)
        case Not(term):
            return f"NOT ({to_sql(term)})"
        case And(terms) | Or(terms):
            return f" {type(predicate).__name__.upper()} ".join(f"({to_sql(term)})" for term in terms)
        case IsNull(column):
            return f"`{column}` IS NULL"
        case In(column, values):
            return f"{column} IN ({', '.join(_literal(value) for value in values)})"
        case Like(column, pattern, _):
            return f"{column} LIKE {_literal(pattern)}"
        case Comparison(column, operator, literal):
            return f"{column} {operator} {_literal(literal)}"
    raise AssertionError(predicate)


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
    if value is None or isinstance(value, bool):
        return str(value).upper().replace("NONE", "NULL")
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    return str(value)
