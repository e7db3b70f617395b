"""Queries by chance with searches in every position, each as SQL for our tables and as plain SQL for a Parquet copy.

The plain side has a tokenizer of its own: lower case, split wherever no letter or digit stands. A search there is an
expression on the words, so that nothing of the index or of its query language takes part in the answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

WORDS = ("disk", "full", "error", "timeout", "user", "müller", "42", "ok", "retry")
HOSTS = ("web-1", "web-2", "db 1", "O'Hara", "Web-1")
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN")
_TEXTS = ("msg", "note")


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


class Searches:
    """A sequence of queries that a seed decides. `{t}` is the table, with columns id, n, msg, note, host, day."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def next(self) -> Both:
        """A query whose answer does not depend on the order of rows."""
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

    def _one(self, *options: str) -> str:
        return self._random.choice(options)

    def _where(self) -> Both:
        return both("SELECT id, host FROM {t} WHERE %s", self._condition("", 2))

    def _projected(self) -> Both:
        if self._random.random() < 0.5:
            return both("SELECT id, %s AS found FROM {t}", self._condition("", 1))
        found, other = self._search(""), self._search("")
        return both("SELECT id, CASE WHEN %s THEN 'a' WHEN %s THEN 'b' END AS c FROM {t}", found, other)

    def _join_on(self) -> Both:
        join = self._one(*_JOINS[:-1])
        shown = "a.id" if "SEMI" in join or "ANTI" in join else "a.id, b.id"
        key = self._one("a.id = b.id", "a.n = b.n AND a.id %% 7 = b.id %% 7")
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
        return both(f"SELECT a.id, b.id FROM {{t}} a {join} {{t}} b{on} WHERE %s {word} %s", first, second)

    def _subquery(self) -> Both:
        templates = (
            "SELECT id FROM {t} WHERE id IN (SELECT id + 1 FROM {t} WHERE %s)",
            "SELECT id FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.id = a.id + 1 AND %s)",
            "SELECT id FROM {t} a WHERE NOT EXISTS (SELECT 1 FROM {t} b WHERE b.n = a.n AND %s)",
            "SELECT id FROM {t} WHERE id > (SELECT avg(id) FROM {t} WHERE %s)",
            "SELECT id, (SELECT count(*) FROM {t} WHERE %s) AS k FROM {t} WHERE n = 1",
        )
        template = self._one(*templates)
        return both(template, self._condition("b." if "{t} b" in template else "", 1))

    def _after_limit(self) -> Both:
        inner = self._one(
            "SELECT * FROM {t} ORDER BY id LIMIT 60", "SELECT * FROM {t} WHERE n > 1 ORDER BY id LIMIT 40"
        )
        return both(f"SELECT id FROM ({inner}) q WHERE %s", self._condition("", 1))

    def _aggregate(self) -> Both:
        templates = (
            "SELECT day, count(*) FROM {t} WHERE %s GROUP BY day",
            "SELECT day, count(*) FILTER (WHERE %s) FROM {t} GROUP BY day",
            "SELECT s, count(*), max(id) FROM (SELECT %s AS s, id FROM {t}) GROUP BY s",
            "SELECT n, sum(CASE WHEN %s THEN 1 ELSE 0 END) AS k FROM {t} GROUP BY n HAVING count(*) > 2",
            "SELECT count(DISTINCT host) FROM {t} WHERE %s",
        )
        return both(self._one(*templates), self._condition("", 1))

    def _union(self) -> Both:
        word = self._one("UNION ALL", "UNION", "INTERSECT", "EXCEPT")
        first, second = self._condition("", 1), self._condition("", 1)
        if self._random.random() < 0.5:
            return both(f"SELECT id FROM {{t}} WHERE %s {word} SELECT id FROM {{t}} WHERE %s", first, second)
        return both("SELECT id FROM (SELECT * FROM {t} UNION ALL SELECT * FROM {t} WHERE n = 2) u WHERE %s", first)

    def _with(self) -> Both:
        first, second = self._condition("", 1), self._condition("", 1)
        return both(
            "WITH c AS (SELECT * FROM {t} WHERE %s) SELECT a.id FROM c a JOIN c b ON a.id = b.id WHERE a.id IN "
            "(SELECT id FROM c WHERE %s)",
            first,
            second,
        )

    def _window(self) -> Both:
        found, kept = self._search(""), self._condition("", 1)
        return both(
            "SELECT id, r FROM (SELECT *, row_number() OVER (PARTITION BY day ORDER BY %s, id) AS r FROM {t}) w "
            "WHERE r <= 3 AND %s",
            found,
            kept,
        )

    def _renamed(self) -> Both:
        ours, plain = self._search("")
        rename = self._one(*_TEXTS)
        columns = [f"{name} AS {name}x" if name == rename else name for name in ("id", "n", *_TEXTS, "host", "day")]
        inner = f"(SELECT {', '.join(columns)} FROM {{t}})"
        if rename in ours or "*" in ours:
            ours = f"{rename}x TEXTSEARCH 'disk'"
            plain = _holds(rename + "x", "disk")
        return Both(f"SELECT id FROM {inner} WHERE {ours}", f"SELECT id FROM {inner} WHERE {plain}")

    def _condition(self, table: str, depth: int) -> Both:
        if depth == 0 or self._random.random() < 0.4:
            return self._search(table)
        parts = [self._condition(table, depth - 1), self._other(table, depth - 1)]
        self._random.shuffle(parts)
        return both(self._one("(%s AND %s)", "(%s OR %s)", "(%s AND NOT %s)", "(NOT %s OR %s)"), *parts)

    def _other(self, table: str, depth: int) -> Both:
        if self._random.random() < 0.5:
            return self._condition(table, depth)
        plain = self._one("id > 50", "n = 2", "day = 'd1'", "host LIKE 'w%%'", "note IS NULL", "id % 3 = 0")
        column, rest = plain.split(" ", 1)
        text = f"{table}{column} {rest}".replace("%%", "%")
        return Both(text, text)

    def _search(self, table: str) -> Both:
        kinds: list[Callable[[str], Both]] = [self._text, self._text, self._text, self._match, self._value]
        return self._random.choice([*kinds, self._everywhere] if not table else kinds)(table)

    def _text(self, table: str) -> Both:
        column = table + self._one(*_TEXTS)
        query, plain = self._query()
        return self._called("textsearch", column, query, plain(column))

    def _everywhere(self, _: str) -> Both:
        first, second = self._one(*WORDS), self._one(*WORDS)
        anywhere = [" OR ".join(_holds(column, word) for column in _TEXTS) for word in (first, second)]
        return Both(f"* TEXTSEARCH '{first} AND {second}'", f"(({anywhere[0]}) AND ({anywhere[1]}))")

    def _match(self, table: str) -> Both:
        value = self._one(*HOSTS).replace("'", "\\'")
        return self._called("fieldmatch", f"{table}host", value, f"coalesce({table}host = '{value}', false)")

    def _value(self, table: str) -> Both:
        sign = self._one(">", ">=", "<", "<=")
        bound = self._random.randint(-1, 5)
        return self._called("indexquery", f"{table}n", f"{sign}{bound}", f"coalesce({table}n {sign} {bound}, false)")

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
