"""Changes by chance between reads, on tables that are cached or not: ours answers as a table of Parquet does."""

from __future__ import annotations

import random
import shutil
from typing import Any

import pytest

import indextables as it

NUM_STEPS = 10
COLUMNS = "id BIGINT, message STRING, day INT"


class Pair:
    """One history of changes, made to a table of each format; the names of everything end with the format."""

    FORMATS = ("indextables", "parquet")

    def __init__(self, session: Any, place: str, seed: int) -> None:
        self._session = session
        self._place = place
        self._random = random.Random(seed)
        self._next_id = 0
        self._frames: dict[str, list[Any]] = {form: [] for form in self.FORMATS}
        for form in self.FORMATS:
            where = f"USING {form} PARTITIONED BY (day) LOCATION '{place}/{form}'"
            session.sql(f"CREATE TABLE t_{form} ({COLUMNS}) {where}")
            session.sql(f"CREATE VIEW v_{form} AS SELECT id, day FROM t_{form} WHERE id % 3 <> 1")

    def step(self) -> str:
        """One change or another, and what it was."""
        steps = [self._insert, self._insert, self._overwrite, self._save, self._drop, self._cache, self._uncache]
        steps += [self._keep, self._keep, self._give_up]
        return self._random.choice(steps)()

    def answers(self, form: str) -> list[Any]:
        """What everything that reads a table says."""
        text = "SELECT count(*), sum(id), max(id), count_if(day = 1) FROM {}_{}"
        named = [tuple(self._session.sql(text.format(name, form)).first()) for name in "tv"]
        return [*named, *(frame.count() for frame in self._frames[form][-2:])]

    def _rows(self) -> str:
        count, first = self._random.randint(1, 4), self._next_id
        self._next_id += count
        days = [self._random.randint(0, 2) for _ in range(count)]
        values = ", ".join(f"({first + number}L, 'word {number}', {day})" for number, day in enumerate(days))
        return f"SELECT * FROM VALUES {values} AS given(id, message, day)"

    def _each(self, text: str) -> str:
        for form in self.FORMATS:
            self._session.sql(text.replace("{form}", form))
        return text

    def _insert(self) -> str:
        return self._each(f"INSERT INTO t_{{form}} {self._rows()}")

    def _overwrite(self) -> str:
        day, rows = self._random.randint(0, 2), f"SELECT id, message FROM ({self._rows()})"
        return self._each(f"INSERT OVERWRITE t_{{form}} PARTITION (day = {day}) {rows}")

    def _save(self) -> str:
        """By path; of the other format only what it does by itself."""
        text = self._rows()
        for form in self.FORMATS:
            writer = self._session.sql(text).write.format(form).mode("append").partitionBy("day")
            writer.save(f"{self._place}/{form}")
        self._session.sql("MSCK REPAIR TABLE t_parquet")
        self._session.sql("REFRESH TABLE t_parquet")
        return f"save {text}"

    def _drop(self) -> str:
        day = self._random.randint(0, 2)
        it.sql(self._session, f"DROP INDEXTABLES PARTITIONS FROM t_indextables WHERE day = {day}")
        self._session.sql(f"ALTER TABLE t_parquet DROP IF EXISTS PARTITION (day = {day})")
        # The files of an external table stay, and the next `MSCK REPAIR TABLE` would bring the partition back.
        shutil.rmtree(f"{self._place}/parquet/day={day}", ignore_errors=True)
        self._session.sql("REFRESH TABLE t_parquet")
        return f"drop {day}"

    def _cache(self) -> str:
        return self._each(f"CACHE TABLE {self._random.choice('tv')}_{{form}}")

    def _uncache(self) -> str:
        return self._each(f"UNCACHE TABLE IF EXISTS {self._random.choice('tv')}_{{form}}")

    def _keep(self) -> str:
        text = self._random.choice(["SELECT * FROM t_{}", "SELECT day, count(*) FROM v_{} GROUP BY day"])
        for form in self.FORMATS:
            frame = self._session.sql(text.format(form)).cache()
            frame.count()
            self._frames[form].append(frame)
        return f"keep {text}"

    def _give_up(self) -> str:
        if not self._frames["parquet"]:
            return "nothing"
        number = self._random.randrange(len(self._frames["parquet"]))
        for form in self.FORMATS:
            self._frames[form].pop(number).unpersist()
        return f"give up {number}"


@pytest.mark.slow
def test_changes_by_chance_are_seen_as_those_of_parquet(enabled, tmp_path, one_seed) -> None:
    enabled.sql("CREATE DATABASE changes")
    enabled.sql("USE changes")
    try:
        pair, told = Pair(enabled, str(tmp_path), one_seed), [f"--all --seed {one_seed}"]
        for _ in range(NUM_STEPS):
            told.append(pair.step())
            assert pair.answers("indextables") == pair.answers("parquet"), told
    finally:
        enabled.sql("CLEAR CACHE")
        enabled.sql("DROP DATABASE changes CASCADE")
