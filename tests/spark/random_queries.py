"""Queries by chance: SQL text over one table, whatever stands behind its name."""

from __future__ import annotations

import random

COLUMNS = {
    "id": ("0", "7", "41", "100", "199", "-1"),
    "n": ("0", "3", "5", "9", "-4", "1000000"),
    "x": ("0.0", "-1.5", "2.5", "double('NaN')", "1e9"),
    "amount": ("0.00", "12.50", "-7.25", "99.99"),
    "name": ("'a'", "'ab'", "''", "'O''Hara'", "'müller'", "'zz'", "'50%'"),
    "ok": ("true", "false"),
    "at": ("timestamp'2026-01-02 00:00:00Z'", "timestamp'2026-01-03 12:30:00.5Z'", "timestamp'1969-12-31 23:59:59Z'"),
    "day": ("date'2026-01-01'", "date'2026-01-02'", "date'2026-01-04'"),
    "zone": ("'eu'", "'us'", "'a b'", "'ünï/%'"),
}
"""Columns of the table, and literals that are worth comparing with."""

_ORDERED = ("id", "n", "x", "amount", "name", "at", "day", "zone")
_GROUPED = ("n", "ok", "day", "zone", "name")
_PATTERNS = ("'a%'", "'%a%'", "'_b'", "'%'", "'50\\\\%'", "'O''%'")
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


class Queries:
    """A sequence of queries that a seed decides."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def next(self) -> str:
        """A query over `{t}`, whose answer does not depend on the order of rows."""
        often = [self._select, self._aggregate, self._join]
        seldom = [self._union, self._top, self._subquery, self._nested]
        return self._random.choice([*often, *often, *seldom])()

    def _select(self) -> str:
        columns = self._columns(self._random.randint(1, 5))
        distinct = self._random.choice(["", "DISTINCT "])
        return f"SELECT {distinct}{', '.join(columns)} FROM {{t}}{self._where()}"

    def _aggregate(self) -> str:
        key = self._random.choice(_GROUPED)
        value = self._random.choice(["id", "n", "amount"])
        having = self._random.choice(["", " HAVING count(*) > 2"])
        return (
            f"SELECT {key}, count(*), count({value}), sum({value}), min({value}), max(name), count(DISTINCT zone) "
            f"FROM {{t}}{self._where()} GROUP BY {key}{having}"
        )

    def _join(self) -> str:
        join = self._random.choice(_JOINS)
        key = self._random.choice(["id", "day", "zone", "name"])
        left, right = (f"(SELECT * FROM {{t}}{self._where()})" for _ in range(2))
        shown = "a.id, a.zone" if "SEMI" in join or "ANTI" in join else "a.id, b.id, a.zone, b.day"
        more = "" if key == "id" else " AND a.id % 10 = b.id % 10"
        return f"SELECT {shown} FROM {left} a {join} {right} b ON a.{key} = b.{key}{more}"

    def _union(self) -> str:
        columns = ", ".join(self._columns(3))
        parts = [f"SELECT {columns} FROM {{t}}{self._where()}" for _ in range(self._random.randint(2, 3))]
        return self._random.choice([" UNION ALL ", " UNION ", " EXCEPT ", " INTERSECT "]).join(parts)

    def _top(self) -> str:
        """Ordered by a key of its own, so that the limit leaves no choice."""
        return f"SELECT id, name, day FROM {{t}}{self._where()} ORDER BY id LIMIT {self._random.randint(1, 20)}"

    def _subquery(self) -> str:
        kind = self._random.randint(0, 2)
        if kind == 0:
            return f"SELECT id FROM {{t}} WHERE n > (SELECT avg(n) FROM {{t}}{self._where()})"
        if kind == 1:
            word = self._random.choice(["IN", "NOT IN"])
            inner = f"SELECT id FROM {{t}}{self._where()}"
            return f"SELECT id, zone FROM {{t}} WHERE id {word} ({inner})"
        inner = f"SELECT 1 FROM {{t}} b WHERE b.id = a.n AND {self._condition('b.')}"
        return f"SELECT a.id FROM {{t}} a WHERE EXISTS ({inner})"

    def _nested(self) -> str:
        inner = (
            f"SELECT id, n, zone, row_number() OVER (PARTITION BY zone ORDER BY id) AS place FROM {{t}}{self._where()}"
        )
        return f"WITH ranked AS ({inner}) SELECT zone, max(place), sum(n) FROM ranked WHERE place <= 7 GROUP BY zone"

    def _columns(self, count: int) -> list[str]:
        return self._random.sample([*COLUMNS], count)

    def _where(self) -> str:
        return "" if self._random.random() < 0.2 else f" WHERE {self._condition()}"

    def _condition(self, prefix: str = "", depth: int = 2) -> str:
        if depth and self._random.random() < 0.5:
            word = self._random.choice(["AND", "AND", "OR"])
            text = f"({self._condition(prefix, depth - 1)} {word} {self._condition(prefix, depth - 1)})"
            return f"NOT {text}" if self._random.random() < 0.2 else text
        return self._leaf(prefix)

    def _leaf(self, prefix: str) -> str:
        column = self._random.choice([*COLUMNS])
        values = COLUMNS[column]
        kind = self._random.randint(0, 5)
        name = prefix + column
        if kind == 0:
            return f"{name} IS {self._random.choice(['', 'NOT '])}NULL"
        if kind == 1:
            chosen = self._random.sample(values, min(2, len(values)))
            return f"{name} {self._random.choice(['', 'NOT '])}IN ({', '.join(chosen)})"
        if kind == 2 and column in ("name", "zone"):
            return f"{name} {self._random.choice(['', 'NOT '])}LIKE {self._random.choice(_PATTERNS)}"
        if kind == 3 and column in _ORDERED:
            low, high = self._random.choice(values), self._random.choice(values)
            return f"{name} BETWEEN {low} AND {high}"
        operator = self._random.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"])
        return f"{name} {operator} {self._random.choice(values)}"
