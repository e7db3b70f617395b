"""Rows by chance, with values of every kind and nulls at every depth, and the plain Parquet copy that they are held
against.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = ("disk", "full", "error", "timeout", "user", "müller", "42", "ok", "retry")
HOSTS = ("web-1", "web-2", "db 1", "O'Hara", "Web-1")
ZONES = ("eu", "us", "a b", "ünï/%")
MARKS = ("x1", "y2", "z3")

_POINT = pa.struct([("a", pa.int32()), ("b", pa.string()), ("v", pa.list_(pa.int32()))])
_VOID = pa.struct([("a", pa.int32()), ("w", pa.null())])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("amount", pa.decimal128(9, 2)),
        ("name", pa.string()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("zone", pa.string()),
        ("msg", pa.string()),
        ("note", pa.string()),
        ("host", pa.string()),
        (
            "s",
            pa.struct(
                [("a", pa.int32()), ("b", pa.string()), ("c", pa.struct([("p", pa.int64()), ("q", pa.float64())]))]
            ),
        ),
        ("points", pa.list_(_POINT)),
        ("named", pa.map_(pa.string(), _POINT)),
        ("numbers", pa.list_(pa.int64())),
        ("flags", pa.list_(pa.bool_())),
        ("weights", pa.map_(pa.string(), pa.float64())),
    ]
)
WITH_VOIDS = pa.schema([*SCHEMA, ("hollow", _VOID), ("nothing", pa.null())])
"""The same with columns of Spark's type `void`, which Python has to serve."""


def random_rows(chance: random.Random, first: int, count: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows with ids from `first` on. Of some tables all values of a nested column are null."""
    row = _Row(chance)
    return pa.Table.from_pylist([row.values(first + number) for number in range(count)], schema)


class _Row:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._has_numbers = chance.random() < 0.7

    def values(self, number: int) -> dict[str, Any]:
        chance, maybe = self._chance, self._maybe
        moment = dt.datetime(2026, 1, chance.randint(1, 5), chance.randint(0, 23), 30, 0, 500_000, tzinfo=dt.UTC)
        inner = {"p": self._number(), "q": maybe(chance.choice([0.5, -2.0, 8.25]))}
        return {
            "id": number,
            "n": maybe(chance.randint(-5, 10)),
            "x": maybe(chance.choice([0.0, -0.0, -1.5, 2.5, math.nan, math.inf, 1e9])),
            "amount": maybe(Decimal(chance.randint(-1000, 10_000)) / 100),
            "name": maybe(chance.choice(["a", "ab", "", "O'Hara", "müller", "zz", "50%", "abc"])),
            "ok": maybe(chance.random() < 0.5),
            "at": maybe(moment),
            "day": maybe(dt.date(2026, 1, chance.randint(1, 4))),
            "zone": maybe(chance.choice(ZONES)),
            "msg": maybe(self._text()),
            "note": maybe(self._text()),
            "host": maybe(chance.choice(HOSTS)),
            "s": maybe({"a": self._number(), "b": maybe(chance.choice(MARKS)), "c": maybe(inner)}),
            "points": self._several(self._point),
            "named": maybe([(key, self._point()) for key in chance.sample(["k", "l", "m"], chance.randint(0, 3))]),
            "numbers": self._several(self._number),
            "flags": self._several(lambda: maybe(chance.random() < 0.5)),
            "weights": maybe([(key, maybe(chance.choice([0.5, -1.5]))) for key in "ab"[: chance.randint(0, 2)]]),
            "hollow": maybe({"a": self._number(), "w": None}),
            "nothing": None,
        }

    def _maybe(self, value: Any) -> Any:
        return None if self._chance.random() < 0.15 else value

    def _number(self) -> int | None:
        return self._maybe(self._chance.randint(-2, 6)) if self._has_numbers else None

    def _point(self) -> dict[str, Any] | None:
        values = self._several(self._number)
        return self._maybe({"a": self._number(), "b": self._maybe(self._chance.choice(MARKS)), "v": values})

    def _several(self, one: Callable[[], Any]) -> list[Any] | None:
        return self._maybe([one() for _ in range(self._chance.randint(0, 3))])

    def _text(self) -> str:
        chance = self._chance
        words = [chance.choice(WORDS) for _ in range(chance.randint(0, 6))]
        cased = [chance.choice([str, str.upper, str.title])(word) for word in words]
        # Some are one word as it stands, which is found also where a column is not split into words.
        if len(words) == 1:
            return words[0]
        return "".join(word + chance.choice([" ", ", ", "-", "/", "\n", "! "]) for word in cased)


def write_plain(rows: pa.Table, path: Path) -> None:
    """Write rows as Parquet that Spark reads: it knows no column of type void."""
    if "hollow" in rows.column_names:
        hollow = pa.chunked_array(
            [_without_void(chunk) for chunk in rows["hollow"].chunks], pa.struct([("a", pa.int32())])
        )
        rows = rows.drop_columns(["hollow", "nothing"]).append_column("hollow", hollow)
    # With statistics, which leave NaN out, Spark would lose rows; and it cannot read an empty dictionary.
    pq.write_table(rows, path, write_statistics=False, use_dictionary=False)


def read_plain(session: Any, path: Path, schema: pa.Schema = SCHEMA) -> Any:
    """The rows of such a file as a DataFrame, columns of type void included."""
    frame = session.read.parquet(str(path))
    if "hollow" not in schema.names:
        return frame
    hollow = "if(hollow IS NULL, NULL, named_struct('a', hollow.a, 'w', NULL)) AS hollow"
    return frame.selectExpr(*SCHEMA.names, hollow, "NULL AS nothing")


def texts_of(rows: list[Any]) -> list[str]:
    """Rows of Spark as texts, whatever their order and the order of the keys of maps, which classic sessions change."""
    return sorted(repr(_sorted(tuple(row))) for row in rows)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if hasattr(value, "__fields__"):
        return [*zip(value.__fields__, map(_sorted, value), strict=True)]
    return [_sorted(one) for one in value] if isinstance(value, list | tuple) else value


def _without_void(column: pa.StructArray) -> pa.StructArray:
    return pa.StructArray.from_arrays([column.field("a")], ["a"], mask=column.is_null())
