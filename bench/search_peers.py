"""The same log rows in this library and in those that stand beside it, all asked the same questions.

Everyone splits messages into the same words: at what is neither letter nor digit, in lower case, without stemming and
stop words. Everyone can find phrases. Answers are Arrow tables, but for SQLite, which gives tuples of Python values.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
import importlib.util
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import duckdb
import lance
import lance.query as lance_query
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import indextables as it
from bench.harness import OURS
from bench.log_rows import SCHEMA, TEXT_COLUMN, WordSearch

LANCE = "Lance FTS"
SQLITE = "SQLite FTS5"
DUCKDB = "DuckDB LIKE over Parquet"
INFINO = "infino"

_DUCKDB_GROUP_ROWS = 122_880
_INFINO_TABLE = "logs"
_NOT_KEPT = {"search.answers.maxSize": "0"}

Rows: TypeAlias = pa.Table | list[tuple[Any, ...]]


class WordPeer(Protocol):
    """Log rows that can be searched for words."""

    name: str

    def search(self, search: WordSearch, columns: Sequence[str] | None = None) -> Rows:
        """The rows that a search finds, with all columns or some."""

    def count(self, search: WordSearch) -> int:
        """How many rows a search finds."""


class Peer(WordPeer, Protocol):
    """Log rows that can be grouped too. `None` for a search means all rows."""

    def terms(self, column: str, search: WordSearch | None) -> Rows:
        """How many rows have each value of a column."""

    def by_hour(self, search: WordSearch | None) -> Rows:
        """How many rows there are in each hour."""

    def stats(self, column: str, search: WordSearch | None) -> Any:
        """Count, least, most and mean of a column of numbers."""


def build_ours(path: Path, rows: pa.Table) -> None:
    it.Table.create(path, SCHEMA, indexing={TEXT_COLUMN: "text"}).append(rows)


def build_lance(path: Path, rows: pa.Table) -> None:
    dataset = lance.write_dataset(rows, str(path))
    dataset.create_scalar_index(
        TEXT_COLUMN, "INVERTED", with_position=True, stem=False, remove_stop_words=False, ascii_folding=False
    )
    dataset.cleanup_old_versions(older_than=dt.timedelta(0))


def build_sqlite(path: Path, rows: pa.Table) -> None:
    """A table, and an index that refers to it and so holds no text of its own."""
    names = ", ".join(SCHEMA.names)
    values = rows.set_column(0, "ts", rows["ts"].cast(pa.int64())).to_pydict().values()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE logs ({names})")
        marks = ", ".join("?" * len(SCHEMA.names))
        connection.executemany(f"INSERT INTO logs VALUES ({marks})", zip(*values, strict=True))
        connection.execute(
            f"CREATE VIRTUAL TABLE words USING fts5({TEXT_COLUMN}, content='logs', tokenize='unicode61')"
        )
        connection.execute("INSERT INTO words(words) VALUES ('rebuild')")
        connection.execute("INSERT INTO words(words) VALUES ('optimize')")
        connection.commit()


def build_parquet(path: Path, rows: pa.Table) -> None:
    """In row groups as large as DuckDB writes them, since it reads them side by side."""
    pq.write_table(rows, path, compression="zstd", row_group_size=_DUCKDB_GROUP_ROWS)


def has_infino() -> bool:
    return importlib.util.find_spec("infino") is not None


def build_infino(path: Path, rows: pa.Table) -> None:
    """It indexes large strings only."""
    infino = importlib.import_module("infino")
    at = SCHEMA.get_field_index(TEXT_COLUMN)
    schema = SCHEMA.set(at, SCHEMA[at].with_type(pa.large_string()))
    table = infino.connect(str(path)).create_table(
        _INFINO_TABLE, schema, infino.IndexSpec().fts(TEXT_COLUMN, positions=True)
    )
    table.append(rows.cast(schema))


class OurPeer:
    """A table, opened once. Extracted indexes are kept in a directory of the benchmark, and answers are not kept."""

    name = OURS

    def __init__(self, path: Path, cache: Path, options: Mapping[str, str] | None = None) -> None:
        self._table = it.Table.open(path, options={**_NOT_KEPT, "cache.disk.path": str(cache), **(options or {})})

    def search(self, search: WordSearch, columns: Sequence[str] | None = None) -> Rows:
        return self._table.search(our_query(search), columns=columns)

    def count(self, search: WordSearch) -> int:
        return self._table.count(our_query(search))

    def terms(self, column: str, search: WordSearch | None) -> Rows:
        return self._table.aggregate(column, query=_our_query(search))

    def by_hour(self, search: WordSearch | None) -> Rows:
        return self._table.date_histogram("ts", interval="1h", query=_our_query(search))

    def stats(self, column: str, search: WordSearch | None) -> Any:
        return self._table.stats(column, query=_our_query(search))


class LancePeer:
    """A dataset, opened once. Its rows come with a score. It groups nothing itself, so that Arrow does."""

    name = LANCE

    def __init__(self, path: Path) -> None:
        self._dataset = lance.dataset(str(path))

    def search(self, search: WordSearch, columns: Sequence[str] | None = None) -> Rows:
        return self._table(search, columns)

    def count(self, search: WordSearch) -> int:
        scanner = self._dataset.scanner(columns=[], with_row_id=True, full_text_query=_lance_query(search))
        return int(scanner.count_rows())

    def terms(self, column: str, search: WordSearch | None) -> Rows:
        return self._table(search, [column]).group_by(column).aggregate([([], "count_all")])

    def by_hour(self, search: WordSearch | None) -> Rows:
        hours = pc.floor_temporal(self._table(search, ["ts"])["ts"], unit="hour")
        return pa.table({"ts": hours}).group_by("ts").aggregate([([], "count_all")])

    def stats(self, column: str, search: WordSearch | None) -> Any:
        values = self._table(search, [column])[column]
        return pc.count(values), pc.min_max(values), pc.mean(values)

    def _table(self, search: WordSearch | None, columns: Sequence[str] | None) -> pa.Table:
        names = None if columns is None else list(columns)
        if search is None:
            return self._dataset.to_table(columns=names)
        scanner = self._dataset.scanner(
            columns=names, full_text_query=_lance_query(search), disable_scoring_autoprojection=names is not None
        )
        return scanner.to_table()


class SqlitePeer:
    """A database, opened once."""

    name = SQLITE

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)

    def search(self, search: WordSearch, columns: Sequence[str] | None = None) -> Rows:
        return self._ask(", ".join(f"logs.{name}" for name in columns or SCHEMA.names), search)

    def count(self, search: WordSearch) -> int:
        found = self._connection.execute("SELECT count(*) FROM words WHERE words MATCH ?", [_sqlite_query(search)])
        return int(found.fetchone()[0])

    def terms(self, column: str, search: WordSearch | None) -> Rows:
        return self._ask(f"{column}, count(*)", search, "GROUP BY 1")

    def by_hour(self, search: WordSearch | None) -> Rows:
        return self._ask("ts / 3600000000, count(*)", search, "GROUP BY 1")

    def stats(self, column: str, search: WordSearch | None) -> Any:
        return self._ask(f"count({column}), min({column}), max({column}), avg({column})", search)

    def _ask(self, what: str, search: WordSearch | None, rest: str = "") -> list[tuple[Any, ...]]:
        if search is None:
            return self._connection.execute(f"SELECT {what} FROM logs {rest}").fetchall()
        joined = "words JOIN logs ON logs.rowid = words.rowid WHERE words MATCH ?"
        return self._connection.execute(f"SELECT {what} FROM {joined} {rest}", [_sqlite_query(search)]).fetchall()


class DuckDbPeer:
    """A Parquet file that is scanned for substrings by a connection that stays open."""

    name = DUCKDB

    def __init__(self, path: Path) -> None:
        self._connection = duckdb.connect()
        self._path = path

    def search(self, search: WordSearch, columns: Sequence[str] | None = None) -> Rows:
        return self._ask(", ".join(columns or SCHEMA.names), search)

    def count(self, search: WordSearch) -> int:
        return int(self._ask("count(*) AS found", search)["found"][0].as_py())

    def terms(self, column: str, search: WordSearch | None) -> Rows:
        return self._ask(f"{column}, count(*)", search, "GROUP BY 1")

    def by_hour(self, search: WordSearch | None) -> Rows:
        return self._ask("date_trunc('hour', ts), count(*)", search, "GROUP BY 1")

    def stats(self, column: str, search: WordSearch | None) -> Any:
        return self._ask(f"count({column}), min({column}), max({column}), avg({column})", search)

    def _ask(self, what: str, search: WordSearch | None, rest: str = "") -> pa.Table:
        condition = "true" if search is None else _like(search)
        asked = f"SELECT {what} FROM read_parquet('{self._path}') WHERE {condition} {rest}"
        return self._connection.sql(asked).to_arrow_table()


class InfinoPeer:
    """A table, opened once. It keeps answers, so that it is asked for words that it has not seen; it excludes none."""

    name = INFINO

    def __init__(self, path: Path) -> None:
        self._table = importlib.import_module("infino").connect(str(path)).open_table(_INFINO_TABLE)

    def search(self, search: WordSearch, columns: Sequence[str] | None = None) -> Rows:
        names = list(columns or SCHEMA.names)
        return self._table.token_match(TEXT_COLUMN, _infino_query(search), mode="and", projection=names)

    def count(self, search: WordSearch) -> int:
        return int(self._table.count(TEXT_COLUMN, _infino_query(search), mode="and"))


def our_query(search: WordSearch) -> str:
    """A search in our query language."""
    wanted = " AND ".join(map(_quoted, search.required))
    return wanted + "".join(f" AND NOT {_quoted(word)}" for word in search.excluded)


def _our_query(search: WordSearch | None) -> str | None:
    return None if search is None else our_query(search)


def _sqlite_query(search: WordSearch) -> str:
    wanted = " AND ".join(map(_quoted, search.required))
    return wanted + "".join(f" NOT {_quoted(word)}" for word in search.excluded)


def _quoted(words: str) -> str:
    return f'"{words}"' if " " in words else words


def _infino_query(search: WordSearch) -> str:
    if search.excluded:
        raise AssertionError(f"infino excludes no words: {search}")
    return " ".join(map(_quoted, search.required))


def _lance_query(search: WordSearch) -> lance_query.FullTextQuery:
    wanted = [_lance_words(words) for words in search.required]
    if len(wanted) == 1 and not search.excluded:
        return wanted[0]
    excluded = [_lance_words(words) for words in search.excluded]
    must, must_not = lance_query.Occur.MUST, lance_query.Occur.MUST_NOT
    return lance_query.BooleanQuery([*((must, one) for one in wanted), *((must_not, one) for one in excluded)])


def _lance_words(words: str) -> lance_query.FullTextQuery:
    return (lance_query.PhraseQuery if " " in words else lance_query.MatchQuery)(words, TEXT_COLUMN)


def _like(search: WordSearch) -> str:
    wanted = [f"{TEXT_COLUMN} LIKE '%{words}%'" for words in search.required]
    return " AND ".join([*wanted, *(f"{TEXT_COLUMN} NOT LIKE '%{words}%'" for words in search.excluded)])
