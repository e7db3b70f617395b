"""Queries by chance: SQL text over one table, whatever stands behind its name, with nested values in every position.

In an expression `@` stands where the name of a table may: `get(@points, 0).b` is `get(t.points, 0).b` of the table `t`.
"""

from __future__ import annotations

import random

_INTEGERS = ("0", "3", "5", "-1", "-4", "1000000")
_MARKS = ("'x1'", "'y2'", "'z3'", "''")
_HALVES = ("0.5D", "-2.0D", "-1.5D", "100.0D")
SCALARS = {
    "@id": ("0", "7", "41", "100", "199", "-1"),
    "@n": _INTEGERS,
    "@x": ("0.0", "-1.5", "2.5", "double('NaN')", "1e9"),
    "@amount": ("0.00", "12.50", "-7.25", "99.99"),
    "@name": ("'a'", "'ab'", "''", "'O''Hara'", "'müller'", "'zz'", "'50%'"),
    "@ok": ("true", "false"),
    "@at": ("timestamp'2026-01-02 00:00:00Z'", "timestamp'2026-01-03 12:30:00.5Z'", "timestamp'1969-12-31 23:59:59Z'"),
    "@day": ("date'2026-01-01'", "date'2026-01-02'", "date'2026-01-04'"),
    "@zone": ("'eu'", "'us'", "'a b'", "'ünï/%'"),
}
"""Columns of the table, and literals that are worth comparing with."""
FIELDS = {
    "@s.a": _INTEGERS,
    "@s.b": _MARKS,
    "@s.c.p": _INTEGERS,
    "@s.c.q": _HALVES,
    "get(@points, 0).a": _INTEGERS,
    "get(@points, 1).b": _MARKS,
    "get(get(@points, 0).v, 0)": _INTEGERS,
    "size(@points)": _INTEGERS,
    "@named['k'].a": _INTEGERS,
    "try_element_at(@named, 'l').b": _MARKS,
    "get(@numbers, 0)": _INTEGERS,
    "get(@flags, 0)": ("true", "false"),
    "@weights['a']": _HALVES,
    "array_max(transform(@points, p -> p.a))": _INTEGERS,
}
"""Values inside of nested columns."""
WHOLE = (
    *("@s", "@s.c", "@points", "@points.b", "@points.v", "@numbers", "@flags", "map_values(@named).a"),
    *("transform(@points, p -> p.b)", "filter(@points, p -> p.a > 2).b", "exists(@points, p -> p.b = 'x1')"),
    *("struct(@s.b, @points.a)", "aggregate(@numbers, 0L, (t, v) -> t + coalesce(v, 0L))", "map_keys(@named)"),
    *("coalesce(@s.c, named_struct('p', 0L, 'q', 0.5D))", "flatten(@points.v)", "sort_array(@numbers)"),
)
"""Values that are nested themselves, of types that can be compared."""
MAPS = ("@named", "@weights", "map_filter(@named, (k, v) -> v.a > 0)", "struct(@named, @s.a)")
VOIDS = ("@nothing", "@hollow", "@hollow.w", "@hollow.a")

_UNORDERED = ("@ok", "get(@flags, 0)")
_TEXTS = ("@name", "@zone", "@s.b", "get(@points, 1).b")
_NUMBERS = ("@id", "@n", "@amount", "@s.a", "@s.c.p", "@s.c.q", "get(@points, 0).a", "@weights['a']", "size(@points)")
_PATTERNS = ("'a%'", "'%a%'", "'_b'", "'%'", "'50\\\\%'", "'O''%'", "'x_'")
_MEASURES = (
    *("count(*)", "count(n)", "count(id)", "min(id)", "max(n)", "sum(n)", "avg(n)", "avg(id)", "max(at)", "min(day)"),
    *("sum(id) + 1", "max(x)", "sum(amount)", "min(name)", "count(zone)", "count(DISTINCT n)", "max(id) - min(id)"),
)
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


class Queries:
    """A sequence of queries that a seed decides."""

    def __init__(self, seed: int, *, has_voids: bool = False) -> None:
        self._random = random.Random(seed)
        self._scalars = {**SCALARS, **FIELDS}
        self._shown = [*SCALARS, *FIELDS, *WHOLE, *MAPS, *(VOIDS if has_voids else ())]

    def next(self) -> str:
        """A query over `{t}`, whose answer does not depend on the order of rows."""
        often = [self._select, self._aggregate, self._join, self._measured, self._counted]
        seldom = [self._union, self._top, self._subquery, self._window, self._exploded, self._renamed]
        return self._random.choice([*often, *often, *seldom])()

    def _select(self) -> str:
        if self._random.random() < 0.3:
            return f"SELECT DISTINCT {', '.join(self._compared(3))} FROM {{t}}{self._where()}"
        columns = self._some(self._shown, self._random.randint(1, 5))
        if self._random.random() < 0.1:
            columns.append("s.*")
        return f"SELECT {', '.join(columns)} FROM {{t}}{self._where()}"

    def _aggregate(self) -> str:
        key, value, seen = self._compared(1)[0], self._one(_NUMBERS), self._compared(1)[0]
        having = self._random.choice(["", " HAVING count(*) > 2", f" HAVING max({self._condition('', 0)})"])
        return (
            f"SELECT {key}, count(*), count({value}), sum({value}), min({value}), max(name), max(s), "
            f"count(DISTINCT zone), count({seen}) FROM {{t}}{self._where()} GROUP BY {key}{having}"
        )

    def _measured(self) -> str:
        """Measures that an index or the log may know, of rows that they may decide."""
        measures = self._random.sample(_MEASURES, self._random.randint(1, 4))
        return f"SELECT {', '.join(measures)} FROM {{t}}{self._plain_where()}"

    def _counted(self) -> str:
        """Counts of values, and of the rows that a limit leaves."""
        key, limit = self._one([*SCALARS]), self._random.randint(1, 30)
        having = self._random.choice(["", "", " HAVING count(*) > 2"])
        return self._random.choice(
            [
                f"SELECT {key}, count(*) FROM {{t}}{self._plain_where()} GROUP BY {key}{having}",
                f"SELECT {key}, count(1) + 1, {key} FROM {{t}} GROUP BY {key}",
                f"SELECT DISTINCT {key} FROM {{t}}{self._plain_where()}",
                f"SELECT count(*), count(DISTINCT id) FROM (SELECT * FROM {{t}}{self._plain_where()} LIMIT {limit})",
                f"SELECT count(id) FROM (SELECT id, s FROM {{t}} LIMIT {limit} OFFSET {self._random.randint(1, 9)})",
            ]
        )

    def _plain_where(self) -> str:
        """A condition on columns alone, or none."""
        leaves = [self._plain_leaf() for _ in range(self._random.randint(0, 3))]
        return f" WHERE {self._random.choice([' AND ', ' AND ', ' OR ']).join(leaves)}" if leaves else ""

    def _plain_leaf(self) -> str:
        column = self._random.choice([*SCALARS])
        name, value = _of(column, ""), self._random.choice(SCALARS[column])
        kinds = [f"{name} = {value}", f"{name} >= {value}", f"{name} <> {value}", f"NOT {name} <=> {value}"]
        kinds += [f"{name} IN ({value}, {self._random.choice(SCALARS[column])})", f"{name} IS NOT NULL"]
        if column in _UNORDERED:
            kinds[1] = f"{name}"
        return self._random.choice(kinds)

    def _join(self) -> str:
        join = self._random.choice(_JOINS)
        key = self._random.choice(["@id", "@day", "@zone", "@name", "@s.b", "@s", "get(@points, 0).b", "@numbers"])
        left, right = (f"(SELECT * FROM {{t}}{self._where()})" for _ in range(2))
        is_one_sided = "SEMI" in join or "ANTI" in join
        shown = [_of(name, "a.") for name in ("@id", *self._random.sample(self._shown, 2))]
        if not is_one_sided:
            shown += [_of(name, "b.") for name in ("@id", *self._random.sample(self._shown, 2))]
        more = "" if key == "@id" else " AND a.id % 10 = b.id % 10"
        on = f"{_of(key, 'a.')} = {_of(key, 'b.')}{more}"
        return f"SELECT {', '.join(shown)} FROM {left} a {join} {right} b ON {on}"

    def _union(self) -> str:
        columns = ", ".join(self._compared(3))
        parts = [f"SELECT {columns} FROM {{t}}{self._where()}" for _ in range(self._random.randint(2, 3))]
        return self._random.choice([" UNION ALL ", " UNION ", " EXCEPT ", " INTERSECT "]).join(parts)

    def _top(self) -> str:
        """Ordered by a key of its own in the end, so that the limit leaves no choice."""
        shown, first = self._some(self._shown, 2), self._one([*FIELDS])
        order = self._random.choice(["id", f"{first} DESC, id", "s NULLS LAST, id"])
        limit = self._random.randint(1, 20)
        return f"SELECT id, {', '.join(shown)} FROM {{t}}{self._where()} ORDER BY {order} LIMIT {limit}"

    def _subquery(self) -> str:
        kind = self._random.randint(0, 3)
        if kind == 0:
            value = self._one(_NUMBERS)
            return f"SELECT id, s.b FROM {{t}} WHERE {value} > (SELECT avg({value}) FROM {{t}}{self._where()})"
        if kind == 1:
            word, key = self._random.choice(["IN", "NOT IN"]), self._random.choice(["id", "s.b", "s.a"])
            return f"SELECT id, zone, points FROM {{t}} WHERE {key} {word} (SELECT {key} FROM {{t}}{self._where()})"
        if kind == 2:
            inner = f"SELECT 1 FROM {{t}} b WHERE b.id = a.n AND {self._condition('b.')}"
            return f"SELECT a.id FROM {{t}} a WHERE EXISTS ({inner})"
        inner = f"SELECT max(b.s.a) FROM {{t}} b WHERE b.s.b = a.s.b AND {self._condition('b.', 1)}"
        return f"SELECT a.id, ({inner}) AS most FROM {{t}} a"

    def _window(self) -> str:
        key, shown = self._compared(1)[0], self._some(self._shown, 1)[0]
        place = f"row_number() OVER (PARTITION BY {key} ORDER BY id) AS place"
        inner = f"SELECT id, n, {key} AS key, {shown} AS shown, {place} FROM {{t}}{self._where()}"
        outer = self._random.choice(
            ["SELECT key, max(place), sum(n) FROM ranked WHERE place <= 7 GROUP BY key", "SELECT * FROM ranked"]
        )
        return f"WITH ranked AS ({inner}) {outer}"

    def _exploded(self) -> str:
        where = self._where()
        return self._random.choice(
            [
                f"SELECT id, p.b, p.v FROM (SELECT id, explode(points) AS p FROM {{t}}{where}) WHERE p.a >= 0",
                f"SELECT id, inline(points) FROM {{t}}{where}",
                f"SELECT id, k, v.b FROM (SELECT id, explode(named) AS (k, v) FROM {{t}}{where}) WHERE v.a > 0",
                f"SELECT id, place, e, s.b FROM {{t}} LATERAL VIEW OUTER posexplode(numbers) p AS place, e{where}",
                f"SELECT e, count(*), sum(s.a) FROM {{t}} LATERAL VIEW explode(points.b) p AS e{where} GROUP BY e",
            ]
        )

    def _renamed(self) -> str:
        inner = f"SELECT id, s AS v, points AS ps, named AS m FROM {{t}}{self._where()}"
        return self._random.choice(
            [
                f"SELECT v.c.q, v.b, ps.a FROM ({inner})",
                f"SELECT v.b, sum(v.a), max(v.c.p) FROM ({inner}) GROUP BY v.b",
                f"SELECT id, get(ps, 0).b, m['k'].v FROM ({inner}) WHERE v.b = 'x1' OR get(ps, 0).a > 1",
                f"SELECT c.q, id FROM (SELECT id, v.c FROM ({inner})) WHERE c.p > 0",
            ]
        )

    def _one(self, names: list[str] | tuple[str, ...]) -> str:
        return _of(self._random.choice(names), "")

    def _some(self, names: list[str], count: int) -> list[str]:
        return [_of(name, "") for name in self._random.sample(names, count)]

    def _compared(self, count: int) -> list[str]:
        """Values that have an order: maps have none."""
        return self._some([*self._scalars, *WHOLE], count)

    def _where(self) -> str:
        return "" if self._random.random() < 0.2 else f" WHERE {self._condition()}"

    def _condition(self, prefix: str = "", depth: int = 2) -> str:
        if depth and self._random.random() < 0.5:
            word = self._random.choice(["AND", "AND", "OR"])
            text = f"({self._condition(prefix, depth - 1)} {word} {self._condition(prefix, depth - 1)})"
            return f"NOT {text}" if self._random.random() < 0.2 else text
        return self._leaf(prefix)

    def _leaf(self, prefix: str) -> str:
        column = self._random.choice([*self._scalars])
        values = self._scalars[column]
        kind = self._random.randint(0, 6)
        name = _of(column, prefix)
        if kind == 0:
            name = _of(self._random.choice([column, *WHOLE, *MAPS]), prefix)
            return f"{name} IS {self._random.choice(['', 'NOT '])}NULL"
        if kind == 1:
            chosen = self._random.sample(values, min(2, len(values)))
            return f"{name} {self._random.choice(['', 'NOT '])}IN ({', '.join(chosen)})"
        if kind == 2 and column in _TEXTS:
            return f"{name} {self._random.choice(['', 'NOT '])}LIKE {self._random.choice(_PATTERNS)}"
        if kind == 3 and column not in _UNORDERED:
            low, high = self._random.choice(values), self._random.choice(values)
            return f"{name} BETWEEN {low} AND {high}"
        if kind == 4:
            return self._of_whole(prefix)
        operator = self._random.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"])
        return f"{name} {operator} {self._random.choice(values)}"

    def _of_whole(self, prefix: str) -> str:
        templates = (
            *("array_contains(@points.b, 'x1')", "exists(@points, p -> p.a > 2)", "forall(@numbers, v -> v > 0)"),
            *("map_contains_key(@named, 'k')", "@s.c = named_struct('p', 3L, 'q', 0.5D)", "@numbers = array(1L, 2L)"),
            *(
                "size(filter(@points, p -> p.v IS NOT NULL)) > 1",
                "@s < named_struct('a', 2, 'b', 'y2', 'c', named_struct('p', 1L, 'q', 0.5D))",
            ),
        )
        return _of(self._random.choice(templates), prefix)


def _of(expression: str, prefix: str) -> str:
    return expression.replace("@", prefix)
