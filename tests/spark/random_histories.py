"""Histories by chance: writes to one table from Python and from sessions of every kind, and reads between them.
Each read has to give what a plain Parquet copy gives.

A seed decides a history. It says whether the table has partitions and void columns, how its texts are indexed and when
that changes, which tables and frames are cached meanwhile, and who reads and writes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from tests.spark.random_queries import Queries
from tests.spark.random_rows import SCHEMA, WITH_VOIDS, ZONES, random_rows, read_plain, texts_of, write_plain
from tests.spark.random_searches import TEXTS, Both, Searches

import indextables as it

_PARTITIONS = ((), ("zone",), ("day", "zone"))
_ROWS_AT_MOST = 30
_TASKS = {"search.driver.maxRows": 0}


class Sessions(NamedTuple):
    """A session of each kind. Without Connect, two are left."""

    enabled: Any
    plain: Any
    connect: Any | None

    def all(self) -> list[Any]:
        return [session for session in self if session is not None]

    def name(self, session: Any) -> str:
        return self._fields[[one is session for one in self].index(True)]


class WrongAnswerError(AssertionError):
    """A read that gave something else than the plain copy. The message says what was done before."""


class History:
    """One table in the directory `place`, and what becomes of it."""

    def __init__(self, seed: int, place: Path, sessions: Sessions, done: Counter[str]) -> None:
        """`done` counts what is done."""
        self._random = random.Random(seed)
        self._place = place
        self._sessions = sessions
        self._name = f"random_{seed}"
        self._schema = WITH_VOIDS if self._random.random() < 0.2 else SCHEMA
        self._partition_by = self._random.choice(_PARTITIONS)
        self._kinds = {name: self._random.choice(["text", "text", "string"]) for name in TEXTS}
        self._queries = Queries(seed, has_voids=self._schema is WITH_VOIDS)
        self._next_id = 0
        self._cached: list[Any] = []
        self._steps: list[str] = [f"{self._partition_by}, {self._kinds}, {len(self._schema)} columns"]
        self._done = done
        self._table = it.Table.create(
            place / "table", self._schema, partition_by=self._partition_by, indexing=self._kinds
        )
        self._rows = self._schema.empty_table()
        self._versions = {0: self._rows}
        self._show_copy()

    def run(self, num_steps: int) -> None:
        """So many steps, each a write or a read. Ends with a `WrongAnswerError` where a read is wrong."""
        sql = self._sessions.enabled.sql
        sql(f"CREATE TABLE {self._name} USING indextables LOCATION '{self._table.url}'")
        try:
            self._write("append", self._append)
            for _ in range(num_steps):
                self._step()
        finally:
            for frame in self._cached:
                frame.unpersist()
            sql(f"DROP TABLE {self._name}")

    def _step(self) -> None:
        writes: list[Callable[[], None]] = [self._append, self._append, self._save, self._insert, self._copy_within]
        writes += [self._overwrite, self._change_indexing, self._change_indexing, self._merge, self._restore]
        writes += [self._drop_partitions] if "zone" in self._partition_by else []
        reads = [self._ask_by_name, self._ask_by_name, self._ask_a_load, self._ask_a_load, self._ask_a_search]
        reads += [self._ask_a_search, self._search_in_sql, self._search_in_sql, self._search_in_python]
        kind = self._random.random()
        if kind < 0.32:
            step = self._random.choice(writes)
            self._write(step.__name__.removeprefix("_"), step)
        elif kind < 0.46:
            self._cache()
        else:
            self._random.choice(reads)()

    # Writes: each sets the rows that the table has to hold afterwards.

    def _write(self, name: str, write: Callable[[], None]) -> None:
        self._say(name)
        self._done[f"write: {name}"] += 1
        write()
        self._table.refresh()
        self._versions[self._table.version] = self._rows
        self._show_copy()

    def _append(self) -> None:
        rows = self._new_rows()
        self._table.append(rows)
        self._rows = pa.concat_tables([self._rows, rows])
        # What another process writes is seen by cached tables once they are told.
        self._sessions.enabled.sql(f"REFRESH TABLE {self._name}")
        self._forget()

    def _save(self) -> None:
        session = self._random.choice(self._sessions.all())
        rows = self._new_rows()
        self._say(f"  by {self._sessions.name(session)}")
        self._frame(session, rows).write.format("indextables").mode("append").save(self._table.url)
        self._rows = pa.concat_tables([self._rows, rows])
        if session is not self._sessions.enabled:
            self._sessions.enabled.sql(f"REFRESH TABLE {self._name}")
            self._forget()

    def _insert(self) -> None:
        rows = self._new_rows()
        self._frame(self._sessions.enabled, rows).createOrReplaceTempView("incoming")
        self._sessions.enabled.sql(f"INSERT INTO {self._name} SELECT * FROM incoming")
        self._rows = pa.concat_tables([self._rows, rows])

    def _copy_within(self) -> None:
        """Rows that a search finds, stored again under other ids: what is stored is what was found."""
        search = self._searches().query(1)
        names = ", ".join(f"id + {1000 + self._next_id} AS id" if name == "id" else name for name in self._schema.names)
        found = it.read(self._sessions.enabled, self._table.url, search=search.ours)
        found.createOrReplaceTempView("found")
        expected = self._sessions.enabled.sql(f"SELECT {names} FROM copy WHERE {search.plain}").toArrow()
        self._next_id += 10_000
        self._sessions.enabled.sql(f"INSERT INTO {self._name} SELECT {names} FROM found")
        self._rows = pa.concat_tables([self._rows, expected.cast(self._schema)])

    def _overwrite(self) -> None:
        rows = self._new_rows()
        self._frame(self._sessions.enabled, rows).createOrReplaceTempView("incoming")
        self._sessions.enabled.sql(f"INSERT OVERWRITE {self._name} SELECT * FROM incoming")
        self._rows = rows

    def _drop_partitions(self) -> None:
        zone = self._random.choice(ZONES[:3])
        it.sql(self._sessions.enabled, f"DROP INDEXTABLES PARTITIONS FROM {self._name} WHERE zone = '{zone}'")
        kept = [value != zone for value in self._rows["zone"].to_pylist()]
        self._rows = self._rows.filter(pa.array(kept, pa.bool_()))

    def _restore(self) -> None:
        """Rows come back, and properties stay."""
        version = self._random.choice([*self._versions])
        it.sql(self._sessions.enabled, f"RESTORE INDEXTABLES {self._name} TO VERSION {version}")
        self._rows = self._versions[version]
        self._say(f"  version {version}")

    def _merge(self) -> None:
        it.sql(self._sessions.enabled, f"MERGE SPLITS {self._name} TARGET SIZE 1G")

    def _change_indexing(self) -> None:
        name = self._random.choice(TEXTS)
        self._kinds[name] = "string" if self._kinds[name] == "text" else "text"
        self._table.set_properties({f"indexing.{name}": self._kinds[name]})
        self._say(f"  {self._kinds}")
        self._sessions.enabled.sql(f"REFRESH TABLE {self._name}")
        self._forget()

    # Reads.

    def _ask_by_name(self) -> None:
        query = self._queries.next()
        self._compare("by name", self._sessions.enabled, Both(query, query), self._name)

    def _ask_a_load(self) -> None:
        session = self._random.choice(self._sessions.all())
        query = self._queries.next()
        session.read.format("indextables").load(self._table.url).createOrReplaceTempView("loaded")
        self._compare("load", session, Both(query, query), "loaded")

    def _ask_a_search(self) -> None:
        """A query above what a search finds, with the driver or tasks to find it."""
        session = self._random.choice(self._sessions.all())
        search = self._searches().query()
        options = self._random.choice([{}, _TASKS])
        self._say(f"  search {search.ours}, {options}")
        try:
            found = it.read(session, self._table.url, search=search.ours, options=options)
        except it.IndexTablesError as error:
            raise self._wrong("search", f"{search.ours}: {error}") from error
        found.createOrReplaceTempView("found")
        query = self._queries.next()
        narrowed = f"(SELECT * FROM copy WHERE {search.plain})"
        self._compare("search", session, Both(query, query.replace("{t}", narrowed)), "found")

    def _search_in_sql(self) -> None:
        self._compare("search in SQL", self._sessions.enabled, self._searches().next(), self._name)

    def _search_in_python(self) -> None:
        search = self._searches().query()
        self._done["read: Python"] += 1
        self._say(f"Python: {search.ours}")
        try:
            found = it.Table.open(self._table.url).search(search.ours, columns=["id"])["id"].to_pylist()
        except it.IndexTablesError as error:
            raise self._wrong("Python", f"{search.ours}: {error}") from error
        expected = self._sessions.enabled.sql(f"SELECT id FROM copy WHERE {search.plain}").collect()
        if sorted(found) != sorted(row.id for row in expected):
            raise self._wrong("Python", f"{search.ours}: {sorted(found)} and not {sorted(row.id for row in expected)}")

    def _cache(self) -> None:
        kind = self._random.choice(["CACHE TABLE", "CACHE TABLE", "UNCACHE TABLE IF EXISTS", "frame", "unpersist"])
        self._done[f"cache: {kind}"] += 1
        self._say(kind)
        if kind == "unpersist":
            self._forget()
            return
        if kind != "frame":
            self._sessions.enabled.sql(f"{kind} {self._name}")
            return
        frame = it.read(self._sessions.enabled, self._table.url).cache()
        frame.count()
        self._cached.append(frame)

    def _forget(self) -> None:
        """Spark does not learn of what others write, so frames that were cached by path are given up."""
        for frame in self._cached:
            frame.unpersist()
        self._cached = []

    # What all of them need.

    def _searches(self) -> Searches:
        texts = [name for name, kind in self._kinds.items() if kind == "text"]
        strings = [name for name, kind in self._kinds.items() if kind == "string"]
        return Searches(self._random.randrange(10**9), texts=texts, strings=["host", "zone", *strings])

    def _new_rows(self) -> pa.Table:
        rows = random_rows(self._random, self._next_id, self._random.randint(1, _ROWS_AT_MOST), self._schema)
        self._next_id += len(rows)
        return rows

    def _frame(self, session: Any, rows: pa.Table) -> Any:
        path = self._place / f"incoming-{self._next_id}.parquet"
        write_plain(rows, path)
        return read_plain(session, path, self._schema)

    def _show_copy(self) -> None:
        path = self._place / f"copy-{self._table.version}.parquet"
        write_plain(self._rows, path)
        read_plain(self._sessions.enabled, path, self._schema).createOrReplaceTempView("copy")

    def _compare(self, way: str, session: Any, query: Both, name: str) -> None:
        where = f"{way}, {self._sessions.name(session)}"
        self._done[f"read: {where}"] += 1
        asked = query.format(ours=name, plain="copy")
        self._say(f"{where}: {asked.ours}")
        expected, refused = _answer(self._sessions.enabled, asked.plain)
        found, error = _answer(session, asked.ours)
        if refused is not None and error is not None:
            self._done["refused by both"] += 1
        elif refused is not None or error is not None:
            raise self._wrong(
                where, f"{asked.ours}\n{asked.plain}\nours: {error or 'fine'}\nplain: {refused or 'fine'}"
            )
        elif found != expected:
            more, less = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
            raise self._wrong(where, f"{asked.ours}\n{asked.plain}\ntoo many: {[*more][:5]}\nmissing: {[*less][:5]}")

    def _say(self, step: str) -> None:
        self._steps.append(step)

    def _wrong(self, where: str, what: str) -> WrongAnswerError:
        return WrongAnswerError(
            "\n".join([f"{where}: {what[:3000]}", "after", *(step[:120] for step in self._steps[:-1])])
        )


def _answer(session: Any, text: str) -> tuple[list[str], str | None]:
    """The rows of a query, or why it has none."""
    try:
        return texts_of(session.sql(text).collect()), None
    except Exception as error:  # what a plain table refuses, ours may refuse too, each in its own words
        return [], f"{type(error).__name__}: {str(error)[:1000]}"
