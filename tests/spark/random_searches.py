"""Queries by chance with searches in every position, each as SQL for our tables and as plain SQL for a Parquet copy.

The plain side has a tokenizer of its own: lower case, split wherever no letter or digit stands. A search there is an
expression on the words, so that nothing of the index or of its query language takes part in the answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.spark.random_queries import FIELDS, WHOLE
from tests.spark.random_rows import HOSTS, MARKS, WORDS, ZONES

_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN")
_PLAIN = ("id > 50", "n = 2", "zone = 'eu'", "host LIKE 'w%'", "note IS NULL", "id % 3 = 0", "s.a > 1", "s.c.p = 3")
TEXTS = ("msg", "note")


class Both(NamedTuple):
    """One thing twice: as our SQL says it, and as plain SQL does."""

    ours: str
    plain: str

    def format(self, ours: str, plain: str) -> Both:
        return Both(self.ours.replace("{t}", ours), self.plain.replace("{t}", plain))


def both(template: str, *parts: Both) -> Both:
    """A template with `%s` for each part."""
    return Both(template % tuple(part.ours for part in parts), template % tuple(part.plain for part in parts))


def _words(column: str) -> str:
    return rf"filter(split(lower({column}), '[^\\p{{L}}\\p{{N}}]+'), w -> w <> '')"


def _holds(column: str, word: str) -> str:
    return _has(column, f"w = '{word}'")


def _has(column: str, condition: str) -> str:
    return f"coalesce(exists({_words(column)}, w -> {condition}), false)"


def _is(column: str, value: str) -> str:
    text = value.replace("'", "\\'")
    return f"coalesce({column} = '{text}', false)"


class Searches:
    """A sequence of queries that a seed decides, over the table `{t}`.

    `texts` are the columns that are split into words, and `strings` those whose values are whole.
    """

    def __init__(self, seed: int, *, texts: Sequence[str] = TEXTS, strings: Sequence[str] = ("host", "zone")) -> None:
        self._random = random.Random(seed)
        self._texts = texts
        self._strings = strings

    def next(self) -> Both:
        """A query in SQL, whose answer does not depend on the order of rows."""
        shapes = [
            self._where,
            self._where,
            self._projected,
            self._join_on,
            self._join_where,
            self._subquery,
            self._after_limit,
            self._aggregate,
            self._union,
            self._with,
            self._window,
            self._renamed,
        ]
        return self._random.choice(shapes)()

    def query(self, depth: int = 2) -> Both:
        """A query of the query language, and a condition in plain SQL for the rows that it finds."""
        if depth and self._random.random() < 0.6:
            word = self._one("AND", "OR", "AND NOT")
            return both(f"(%s {word} %s)", self.query(depth - 1), self.query(depth - 1))
        kinds = [self._field_of_struct, self._range, self._whole_value]
        kinds += [self._words, self._words, self._anywhere] if self._texts else []
        return self._random.choice(kinds)()

    def _words(self) -> Both:
        column = self._one(*self._texts)
        query, plain = self._query()
        return Both(f"{column}:({query})", plain(column))

    def _anywhere(self) -> Both:
        word = self._one(*WORDS)
        return Both(word, "(" + " OR ".join(_holds(column, word) for column in self._texts) + ")")

    def _whole_value(self) -> Both:
        column = self._one(*self._strings)
        value = self._value_of(column)
        return Both(f'{column}:"{value}"', _is(column, value))

    def _field_of_struct(self) -> Both:
        value = self._one(*MARKS)
        if self._random.random() < 0.5:
            return Both(f"s.b:{value}", _is("s.b", value))
        return Both(f"points.b:{value}", f"coalesce(exists(points, p -> p.b <=> '{value}'), false)")

    def _range(self) -> Both:
        sign, bound = self._one(">", ">=", "<", "<="), self._random.randint(-1, 5)
        return Both(f"n:{sign}{bound}", f"coalesce(n {sign} {bound}, false)")

    def _one(self, *options: str) -> str:
        return self._random.choice(options)

    def _shown(self, table: str = "") -> str:
        """Nested values that are shown beside the rest."""
        names = self._random.sample([*FIELDS, *WHOLE, "@named", "@weights"], self._random.randint(0, 2))
        return "".join(f", {name.replace('@', table)}" for name in names).replace("%", "%%")

    def _where(self) -> Both:
        return both(f"SELECT id, host{self._shown()} FROM {{t}} WHERE %s", self._condition("", 2))

    def _projected(self) -> Both:
        if self._random.random() < 0.5:
            return both(f"SELECT id, %s AS found{self._shown()} FROM {{t}}", self._condition("", 1))
        found, other = self._search(""), self._search("")
        return both("SELECT id, CASE WHEN %s THEN s.b WHEN %s THEN 'b' END AS c FROM {t}", found, other)

    def _join_on(self) -> Both:
        join = self._one(*_JOINS[:-1])
        is_one_sided = "SEMI" in join or "ANTI" in join
        shown = f"a.id{self._shown('a.')}" + ("" if is_one_sided else f", b.id{self._shown('b.')}")
        key = self._one("a.id = b.id", "a.n = b.n AND a.id %% 7 = b.id %% 7", "a.s = b.s AND a.id %% 7 = b.id %% 7")
        side = self._condition(self._one("a.", "b."), 1)
        return both(f"SELECT {shown} FROM {{t}} a {join} {{t}} b ON {key} AND %s", side)

    def _join_where(self) -> Both:
        join = self._one(*_JOINS)
        if "SEMI" in join or "ANTI" in join:
            return both(
                f"SELECT a.id FROM {{t}} a {join} {{t}} b ON a.id = b.id + 1 WHERE %s", self._condition("a.", 1)
            )
        on = "" if join == "CROSS JOIN" else " ON a.id = b.id + 1"
        first, second = self._condition("a.", 1), self._condition("b.", 1)
        word = self._one("AND", "OR") if on else "AND"
        shown = f"a.id, b.id{self._shown('b.')}"
        return both(f"SELECT {shown} FROM {{t}} a {join} {{t}} b{on} WHERE %s {word} %s", first, second)

    def _subquery(self) -> Both:
        templates = (
            "SELECT id, s.b FROM {t} WHERE id IN (SELECT id + 1 FROM {t} WHERE %s)",
            "SELECT id FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.id = a.id + 1 AND %s)",
            "SELECT id FROM {t} a WHERE NOT EXISTS (SELECT 1 FROM {t} b WHERE b.n = a.n AND %s)",
            "SELECT id FROM {t} o WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.id = o.id + 1 AND %s)",
            "SELECT id FROM {t} WHERE id > (SELECT avg(id) FROM {t} WHERE %s)",
            "SELECT id, (SELECT max(s.a) FROM {t} WHERE %s) AS k FROM {t} WHERE n = 1",
        )
        template = self._one(*templates)
        table = "o." if "{t} o" in template else "b." if "{t} b" in template else ""
        return both(template, self._condition(table, 1))

    def _after_limit(self) -> Both:
        inner = self._one(
            "SELECT * FROM {t} ORDER BY id LIMIT 60", "SELECT * FROM {t} WHERE n > 1 ORDER BY id LIMIT 40"
        )
        return both(f"SELECT id{self._shown()} FROM ({inner}) q WHERE %s", self._condition("", 1))

    def _aggregate(self) -> Both:
        if self._random.random() < 0.2:
            having = self._column_search("", self._one(*self._strings))
            column = next(name for name in self._strings if name in having.plain)
            return both(f"SELECT {column}, count(*), sum(s.a) FROM {{t}} GROUP BY {column} HAVING %s", having)
        templates = (
            "SELECT zone, count(*), sum(s.a) FROM {t} WHERE %s GROUP BY zone",
            "SELECT s.b, count(*) FILTER (WHERE %s) FROM {t} GROUP BY s.b",
            "SELECT f, count(*), max(id) FROM (SELECT %s AS f, id FROM {t}) GROUP BY f",
            "SELECT n, sum(CASE WHEN %s THEN s.a ELSE 0 END) AS k FROM {t} GROUP BY n HAVING count(*) > 2",
            "SELECT count(DISTINCT host), max(s), count(get(points, 0).a) FROM {t} WHERE %s",
            "SELECT count(*), min(id), max(n), sum(n), avg(n) FROM {t} WHERE %s",
            "SELECT host, count(*) FROM {t} WHERE %s GROUP BY host",
            "SELECT n, count(*) FROM {t} WHERE n > 0 AND %s GROUP BY n",
            "SELECT count(*) FROM (SELECT id, s.b FROM {t} WHERE %s LIMIT 7)",
            "SELECT count(*) FROM (SELECT id FROM {t} WHERE %s AND n >= 1 LIMIT 5 OFFSET 2)",
        )
        return both(self._one(*templates), self._condition("", 1))

    def _union(self) -> Both:
        word = self._one("UNION ALL", "UNION", "INTERSECT", "EXCEPT")
        first, second = self._condition("", 1), self._condition("", 1)
        if self._random.random() < 0.5:
            return both(f"SELECT id, s FROM {{t}} WHERE %s {word} SELECT id, s FROM {{t}} WHERE %s", first, second)
        return both("SELECT id, s.b FROM (SELECT * FROM {t} UNION ALL SELECT * FROM {t} WHERE n = 2) u WHERE %s", first)

    def _with(self) -> Both:
        first, second = self._condition("", 1), self._condition("", 1)
        return both(
            f"WITH c AS (SELECT * FROM {{t}} WHERE %s) SELECT a.id{self._shown('a.')} FROM c a JOIN c b "
            "ON a.id = b.id WHERE a.id IN (SELECT id FROM c WHERE %s)",
            first,
            second,
        )

    def _window(self) -> Both:
        found, kept = self._search(""), self._condition("", 1)
        key = self._one("zone", "s.b", "s", "numbers")
        return both(
            f"SELECT id, r{self._shown()} FROM (SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY %s, id) AS r "
            "FROM {t}) w WHERE r <= 3 AND %s",
            found,
            kept,
        )

    def _renamed(self) -> Both:
        column = self._one(*self._texts, *self._strings)
        names = [f"{name} AS {name}x" if name == column else name for name in ("id", "n", *TEXTS, "host", "zone", "s")]
        search = self._column_search("", column)
        ours, plain = (text.replace(column, f"{column}x") for text in search)
        inner = f"(SELECT {', '.join(names)} FROM {{t}})"
        return Both(f"SELECT id, s.b FROM {inner} WHERE {ours}", f"SELECT id, s.b FROM {inner} WHERE {plain}")

    def _condition(self, table: str, depth: int) -> Both:
        if depth == 0 or self._random.random() < 0.4:
            return self._search(table)
        parts = [self._condition(table, depth - 1), self._other(table, depth - 1)]
        self._random.shuffle(parts)
        return both(self._one("(%s AND %s)", "(%s OR %s)", "(%s AND NOT %s)", "(NOT %s OR %s)"), *parts)

    def _other(self, table: str, depth: int) -> Both:
        if self._random.random() < 0.5:
            return self._condition(table, depth)
        text = table + self._one(*_PLAIN)
        return Both(text, text)

    def _search(self, table: str) -> Both:
        if not table and self._texts and self._random.random() < 0.15:
            return self._everywhere()
        kind = self._random.randint(0, 5)
        if kind == 0:
            return self._value(table)
        if kind == 1:
            return self._path(table)
        return self._column_search(table, self._one(*self._texts, *self._texts, *self._strings))

    def _column_search(self, table: str, column: str) -> Both:
        if column in self._strings:
            value = self._value_of(column)
            return self._called("fieldmatch", table + column, value.replace("'", "\\'"), _is(table + column, value))
        query, plain = self._query()
        return self._called("textsearch", table + column, query, plain(table + column))

    def _everywhere(self) -> Both:
        first, second = self._one(*WORDS), self._one(*WORDS)
        anywhere = [" OR ".join(_holds(column, word) for column in self._texts) for word in (first, second)]
        return Both(f"* TEXTSEARCH '{first} AND {second}'", f"(({anywhere[0]}) AND ({anywhere[1]}))")

    def _path(self, table: str) -> Both:
        query, plain = self._field_of_struct()
        column = query.partition(".")[0]
        condition = plain.replace(f"({column}", f"({table}{column}")
        return self._called("indexquery", table + column, query, condition)

    def _value(self, table: str) -> Both:
        query, plain = self._range()
        return self._called("indexquery", f"{table}n", query.removeprefix("n:"), plain.replace("(n", f"({table}n"))

    def _value_of(self, column: str) -> str:
        values = {"host": HOSTS, "zone": ZONES[:3]}
        return self._one(*values.get(column, WORDS))

    def _called(self, function: str, column: str, text: str, plain: str) -> Both:
        infix = f"{column} {self._one(function, function.upper())} '{text}'"
        return Both(self._one(infix, infix, f"{function}({column}, '{text}')"), plain)

    def _query(self) -> tuple[str, Callable[[str], str]]:
        first, second = self._one(*WORDS), self._one(*WORDS)
        queries: list[tuple[str, Callable[[str], str]]] = [
            (first, lambda column: _holds(column, first)),
            (first.upper(), lambda column: _holds(column, first)),
            (
                f"{first} AND {second}",
                lambda column: f"({_holds(column, first)} AND {_holds(column, second)})",
            ),
            (f"{first} {second}", lambda column: _has(column, f"w IN ('{first}', '{second}')")),
            (f"NOT {first}", lambda column: f"(NOT {_holds(column, first)})"),
            (f"{first[:2]}*", lambda column: _has(column, f"startswith(w, '{first[:2]}')")),
            (
                f'"{first} {second}"',
                lambda column: (
                    f"coalesce(contains(concat(' ', array_join({_words(column)}, ' '), ' '), "
                    f"' {first} {second} '), false)"
                ),
            ),
        ]
        return self._random.choice(queries)
