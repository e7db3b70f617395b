"""`many-splits`: questions to a table of many small, warm splits, beside Lance with the same rows in one dataset.

Splits are searched one by one (`search.combined=off`) and together (`on`), and rows are read from decoded copies or by
pages. Each side is a process of its own, so that none closes the files of another. Every question has a word of its
own, which no side has seen: words with no, ten and a thousand hits are planted for this. A side asks for some words in
a row, then the next side does. All sides are open, and all indexes are on local disk. A partition leaves half of the
splits. Every figure is given in time that passes and in time of the processor. Then new processes with an empty index
cache show the costs of the links.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import itertools
import multiprocessing
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import lance
import lance.query as lance_query
import pyarrow as pa
import pyarrow.compute as pc

import indextables as it
from bench.harness import OURS, Figure, Goal, Setting, Unit, alternate, checked_count, timed_cpu_ms, timed_ms
from bench.log_places import BYTES_PER_MB, shared_rows
from bench.log_rows import FEW_COLUMNS, MANY, RARE, SCHEMA, TEXT_COLUMN
from bench.our_files import NEVER
from bench.processes import in_new_process
from bench.search_peers import LANCE, build_lance
from indextables.split.search.fetching import wait_for_fetches
from indextables.split.search.split_rows import wait_for_copies

OFF, ON, PAGES = "one by one", "together", "together, by pages"
UNPRUNED = "ours, all splits"
_OPTIONS = {
    OFF: {"search.combined": "off"},
    ON: {"search.combined": "on"},
    PAGES: {"search.combined": "on", "search.rows": "pages"},
}
_WAYS = (OFF, ON)
_NO_CHECKPOINT = {"checkpoint.interval": NEVER}

_PART = "part"
_PARTS_PER_APPEND = 50
_NUM_WORDS = 240
_FEW_HITS, _MANY_HITS = 10, 1_000
_LIMIT = 10
_NUM_WARM = 4
_MOST_READS = 12
_MOST_QUESTIONS = 300
_COST_QUESTIONS = 6
_SEED = 2_500

_ONE_MS = Goal(below_ms=1.0)
_HALF = Goal(max_ratio=0.5)
_AS_FAST = Goal(max_ratio=1.0)
_PRUNED = Goal(max_ratio=3.0)


class _Question(NamedTuple):
    name: str
    num_hits: int
    columns: Sequence[str] | None
    """Columns of the first ten rows; empty for a count, None for all."""
    is_pruned: bool = False

    @property
    def goal(self) -> Goal:
        return _AS_FAST if self.is_search else _HALF

    @property
    def is_search(self) -> bool:
        return self.columns is None or bool(self.columns)


_QUESTIONS = (
    _Question("count, 0 hits", 0, ()),
    _Question(f"count, {_FEW_HITS} hits", _FEW_HITS, (), is_pruned=True),
    _Question(f"count, {_MANY_HITS} hits", _MANY_HITS, ()),
    _Question(f"10 rows of {_FEW_HITS}, 3 columns", _FEW_HITS, FEW_COLUMNS, is_pruned=True),
    _Question(f"10 rows of {_FEW_HITS}, all columns", _FEW_HITS, None),
    _Question(f"10 rows of {_MANY_HITS}, 3 columns", _MANY_HITS, FEW_COLUMNS),
    _Question(f"10 rows of {_MANY_HITS}, all columns", _MANY_HITS, None),
)


def run(setting: Setting) -> list[Figure]:
    figures = []
    for num_splits in setting.sizes.num_small_splits:
        figures += _run_one(setting, num_splits)
    return figures


def _run_one(setting: Setting, num_splits: int) -> list[Figure]:
    path, lance_path = _built(setting, num_splits)
    words = _Words()
    figures = []
    with contextlib.ExitStack() as at_end:
        opened: dict[str, Callable[[], _Side]] = {
            way: functools.partial(_OurSide, path, _cache(setting, num_splits, way), options, num_splits)
            for way, options in _OPTIONS.items()
        }
        opened[LANCE] = functools.partial(_LanceSide, lance_path)
        sides = {name: _Process(at_end, open_side) for name, open_side in opened.items()}
        warm = words.take_warm()
        for name, side in sides.items():
            setting.say(f"{num_splits} splits: warming, {name}")
            side.warm(warm)
        for question in _QUESTIONS:
            figures += _ask(setting, num_splits, sides, question, words)
    return figures + _costs(setting, num_splits, path)


def _cache(setting: Setting, num_splits: int, way: str) -> Path:
    return setting.directory / f"cache-{num_splits}-{list(_OPTIONS).index(way)}"


def _ask(
    setting: Setting, num_splits: int, sides: Mapping[str, _Process], question: _Question, words: _Words
) -> list[Figure]:
    num_words = setting.sizes.num_rounds * setting.sizes.num_searches
    name = f"many-splits: {num_splits} splits, {question.name}"
    ways = _WAYS if not question.is_search else tuple(_OPTIONS)
    asked = {way: sides[way] for way in (*ways, LANCE)}
    figures = []
    wall, cpu = _timed(setting, asked, question, words.take(question.num_hits, num_words))
    for unit, times in (("", wall), (", CPU", cpu)):
        goal = question.goal if num_splits < _ONE_MS_SPLITS or question.is_search else _AS_FAST
        figures += [Figure(f"{name}, {way}{unit}", times[way], times[LANCE], goal, yardstick=LANCE) for way in ways]
    if not question.is_search and num_splits >= _ONE_MS_SPLITS:
        figures += [Figure(f"{name}, {way}, at most", wall[way], [], _ONE_MS) for way in ways]
    if not question.is_pruned:
        return figures
    ours = {way: sides[way] for way in _WAYS}
    pruned = _timed(setting, ours, question, words.take(question.num_hits, num_words), is_pruned=True)
    for unit, times, all_times in (("", pruned[0], wall), (", CPU", pruned[1], cpu)):
        figures += [
            Figure(f"{name}, half by partition, {way}{unit}", times[way], all_times[way], _PRUNED, yardstick=UNPRUNED)
            for way in _WAYS
        ]
    return figures


_ONE_MS_SPLITS = 1_000


def _timed(
    setting: Setting,
    sides: Mapping[str, _Process],
    question: _Question,
    words: Sequence[str],
    *,
    is_pruned: bool = False,
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Time that passes and time of the processor, by side; all sides answer alike."""
    wall: dict[str, list[float]] = {name: [] for name in sides}
    found: dict[str, list[int]] = {name: [] for name in sides}

    num_rounds = setting.sizes.num_rounds

    def ask(name: str, number: int) -> list[float]:
        answers = sides[name].ask(words[number::num_rounds], question, is_pruned=is_pruned)
        found[name] += [answer.num_found for answer in answers]
        wall[name] += [answer.wall_ms for answer in answers]
        return [answer.cpu_ms for answer in answers]

    cpu = alternate({name: functools.partial(ask, name) for name in sides}, num_rounds, setting.say)
    if len({tuple(counts) for counts in found.values()}) > 1:
        raise AssertionError(f"sides differ in {question}: {found}")
    if not is_pruned:
        expected = min(question.num_hits, _LIMIT) if question.is_search else question.num_hits
        for count in next(iter(found.values())):
            checked_count(count, expected)
    return wall, cpu


class _Words:
    """Words that no question has had, by their number of hits."""

    def __init__(self) -> None:
        self._next: dict[int, Iterator[int]] = {}

    def take(self, num_hits: int, count: int) -> list[str]:
        numbers = list(itertools.islice(self._next.setdefault(num_hits, itertools.count()), count))
        if num_hits and numbers and numbers[-1] >= _NUM_WORDS:
            raise AssertionError(f"no words with {num_hits} hits are left")
        return [_word(num_hits, number) for number in numbers]

    def take_warm(self) -> list[tuple[_Question, list[str]]]:
        return [(question, self.take(question.num_hits, _NUM_WARM)) for question in _QUESTIONS]


def _word(num_hits: int, number: int) -> str:
    return f"planted{num_hits}x{number}q"


class _Answer(NamedTuple):
    num_found: int
    wall_ms: float
    cpu_ms: float


class _Side:
    """Rows that are asked for a word."""

    def ask(self, word: str, question: _Question, *, is_pruned: bool) -> int:
        """The number of hits, or of the rows that come."""
        raise NotImplementedError

    def settle(self) -> None:
        """Do what later questions gain from."""


class _Process:
    """A side in a process of its own."""

    def __init__(self, at_end: contextlib.ExitStack, open_side: Callable[[], _Side]) -> None:
        context = multiprocessing.get_context("spawn")
        self._executor = at_end.enter_context(
            concurrent.futures.ProcessPoolExecutor(
                max_workers=1, mp_context=context, initializer=_open_in_process, initargs=(open_side,)
            )
        )

    def ask(self, words: Sequence[str], question: _Question, *, is_pruned: bool) -> list[_Answer]:
        """Ask for some words in a row."""
        return self._executor.submit(_ask_in_process, words, question, is_pruned=is_pruned).result()

    def warm(self, asked: Sequence[tuple[_Question, Sequence[str]]]) -> None:
        """Ask until nothing is fetched, opened or decoded any more."""
        self._executor.submit(_warm_in_process, asked).result()


_OPEN_SIDES: list[_Side] = []
"""The side of this process."""


def _open_in_process(open_side: Callable[[], _Side]) -> None:
    _OPEN_SIDES.append(open_side())


def _ask_in_process(words: Sequence[str], question: _Question, *, is_pruned: bool) -> list[_Answer]:
    side = _OPEN_SIDES[0]
    answers = []
    for word in words:
        found: list[int] = []
        wall: list[float] = []
        work = functools.partial(_note, found, side, word, question, is_pruned=is_pruned)
        cpu = timed_cpu_ms(functools.partial(_note_ms, wall, work))
        answers.append(_Answer(found[0], wall[0], cpu))
    return answers


def _note(found: list[int], side: _Side, word: str, question: _Question, *, is_pruned: bool) -> None:
    found.append(side.ask(word, question, is_pruned=is_pruned))


def _note_ms(wall: list[float], work: Callable[[], None]) -> None:
    wall.append(timed_ms(work))


def _warm_in_process(asked: Sequence[tuple[_Question, Sequence[str]]]) -> None:
    side = _OPEN_SIDES[0]
    for question, words in asked:
        for word in words:
            side.ask(word, question, is_pruned=False)
            if question.is_pruned:
                side.ask(word, question, is_pruned=True)
    side.settle()
    for question, words in asked:
        side.ask(words[0], question, is_pruned=False)
        side.ask(words[-1], question, is_pruned=question.is_pruned)


class _OurSide(_Side):
    def __init__(self, path: Path, cache: Path, options: Mapping[str, str], num_splits: int) -> None:
        # Indexes are fetched whole: these splits are warm.
        given = {"cache.disk.path": str(cache), "search.cold": "whole", **options}
        self._table = it.Table.open(path, options=given)
        self._cache = cache
        self._copies = options.get("search.rows") != "pages"
        self._num_splits = num_splits
        self._half = f"{_PART} < '{num_splits // 2:05d}'"

    def ask(self, word: str, question: _Question, *, is_pruned: bool) -> int:
        where = self._half if is_pruned else None
        if not question.is_search:
            return self._table.count(word, where=where)
        return int(self._table.search(word, where=where, columns=question.columns, limit=_LIMIT).num_rows)

    def settle(self) -> None:
        """Open a decoded copy of every split, if copies are made, and make all combined indexes."""
        for _ in range(_MOST_READS if self._copies else 0):
            is_copied = len(list((self._cache / "rows").glob("*.rows"))) == self._num_splits
            self._table.search(MANY)
            wait_for_copies()
            if is_copied:
                break
        for where in (None, self._half):
            for number in range(_MOST_QUESTIONS):
                if self._is_combined(where):
                    break
                self._table.count(f"settling{number}", where=where)
                wait_for_fetches()

    def _is_combined(self, where: str | None) -> bool:
        scan = self._table._ask("settled", where, "fail")
        return not scan._combines or all(group._index is not None for group in scan._groups())


class _LanceSide(_Side):
    def __init__(self, path: Path) -> None:
        self._dataset = lance.dataset(str(path))

    def ask(self, word: str, question: _Question, *, is_pruned: bool) -> int:
        query = lance_query.MatchQuery(word, TEXT_COLUMN)
        if not question.is_search:
            return int(self._dataset.scanner(columns=[], with_row_id=True, full_text_query=query).count_rows())
        columns = None if question.columns is None else list(question.columns)
        scanner = self._dataset.scanner(
            columns=columns, full_text_query=query, limit=_LIMIT, disable_scoring_autoprojection=columns is not None
        )
        return int(scanner.to_table().num_rows)


def _built(setting: Setting, num_splits: int) -> tuple[Path, Path]:
    """Build both tables where they are not there yet."""
    ours, other = (setting.shared / f"many-splits-{num_splits}{end}" for end in ("", ".lance"))
    if not (ours.exists() and other.exists()):
        rows = _planted_rows(setting, num_splits)
        for path, build in ((ours, _build_ours), (other, build_lance)):
            if not path.exists():
                setting.say(f"building {path.name}")
                unfinished = path.with_name(f"unfinished-{path.name}")
                build(unfinished, rows)
                unfinished.rename(path)
    checked_count(it.Table.open(ours).num_files, num_splits)
    return ours, other


def _build_ours(path: Path, rows: pa.Table) -> None:
    """One split for each part."""
    table = it.Table.create(
        path, rows.schema, indexing={TEXT_COLUMN: "text"}, partition_by=[_PART], options=_NO_CHECKPOINT
    )
    parts = pc.unique(rows[_PART]).to_pylist()
    num_rows = rows.num_rows // len(parts)
    for start in range(0, len(parts), _PARTS_PER_APPEND):
        table.append(rows.slice(start * num_rows, _PARTS_PER_APPEND * num_rows))


def _planted_rows(setting: Setting, num_splits: int) -> pa.Table:
    """Log rows, repeated if there are too few of them, with words and the number of a part."""
    num_rows = num_splits * setting.sizes.num_rows_of_small_splits
    setting.say(f"planting words in {num_rows} rows")
    given = shared_rows(setting.sizes.num_rows)
    rows = pa.concat_tables([given] * -(-num_rows // given.num_rows)).slice(0, num_rows)
    choose = random.Random(_SEED)
    ends = [""] * num_rows
    for num_hits in (_FEW_HITS, _MANY_HITS):
        for number in range(_NUM_WORDS):
            word = _word(num_hits, number)
            for row in choose.sample(range(num_rows), num_hits):
                ends[row] += f" {word}"
    column = SCHEMA.get_field_index(TEXT_COLUMN)
    texts = pc.binary_join_element_wise(rows[column], pa.array(ends), "")
    parts = [f"{split:05d}" for split in range(num_splits) for _ in range(setting.sizes.num_rows_of_small_splits)]
    return rows.set_column(column, SCHEMA[column], texts).append_column(_PART, pa.array(parts))


class _Cost(NamedTuple):
    """What questions of a new process take, and what it holds afterwards."""

    cold_ms: float
    first_ms: float
    second_ms: float
    later_ms: float
    descriptors: int
    threads: int
    mappings: int
    cache_mb: float


def _costs(setting: Setting, num_splits: int, path: Path) -> list[Figure]:
    found: dict[str, list[_Cost]] = {way: [] for way in _WAYS}
    for number in range(setting.sizes.num_slow_rounds):
        for way in _WAYS:
            setting.say(f"{num_splits} splits: cost of the first questions, {way}, round {number + 1}")
            cache = setting.directory / f"cost-{num_splits}-{way.replace(' ', '-')}-{number}"
            found[way].append(in_new_process(_cost, path, cache, _OPTIONS[way]))
    name = f"many-splits: {num_splits} splits, new process"
    on, off = (found[way] for way in (ON, OFF))
    facts: Sequence[tuple[str, Callable[[_Cost], float], Unit]] = (
        (f"first {_COST_QUESTIONS} questions, empty cache", lambda cost: cost.cold_ms, Unit.MS),
        ("first question, indexes on disk", lambda cost: cost.first_ms, Unit.MS),
        ("second question, which makes the links", lambda cost: cost.second_ms, Unit.MS),
        (f"{_COST_QUESTIONS} questions after it", lambda cost: cost.later_ms, Unit.MS),
        ("open files", lambda cost: cost.descriptors, Unit.COUNT),
        ("threads", lambda cost: cost.threads, Unit.COUNT),
        ("mappings", lambda cost: cost.mappings, Unit.COUNT),
        ("disk cache", lambda cost: cost.cache_mb, Unit.MB),
    )
    return [
        Figure(f"{name}, {what}, {ON}", [*map(of, on)], [*map(of, off)], Goal(), yardstick=f"{OURS}, {OFF}", unit=unit)
        for what, of, unit in facts
    ]


def _cost(path: Path, cache: Path, options: Mapping[str, str]) -> _Cost:
    words = [_word(_FEW_HITS, number) for number in range(2 * _COST_QUESTIONS + 2)]
    given = {"cache.disk.path": str(cache), **options}

    def count_all(table: it.Table, words: Sequence[str]) -> None:
        for word in words:
            table.count(word)

    def asked_ms(table: it.Table, first: int, last: int) -> float:
        return timed_ms(functools.partial(count_all, table, words[first:last]))

    cold_ms = asked_ms(it.Table.open(path, options=given), 0, _COST_QUESTIONS)
    it.Table.open(path, options={**given, "search.cold": "whole", "search.combined": "off"}).count(f"{MANY} OR {RARE}")
    table, last = it.Table.open(path, options=given), _COST_QUESTIONS
    first_ms, second_ms = asked_ms(table, last, last + 1), asked_ms(table, last + 1, last + 2)
    later_ms = asked_ms(table, last + 2, len(words))
    descriptors, threads, mappings = _held()
    cache_mb = _unique_bytes(cache) / BYTES_PER_MB
    return _Cost(cold_ms, first_ms, second_ms, later_ms, descriptors, threads, mappings, cache_mb)


def _held() -> tuple[int, int, int]:
    """The open files, threads and mappings of this process; 1 where the system does not say."""
    process = Path("/proc/self")
    if not process.exists():
        return 1, 1, 1
    return (
        len(os.listdir(process / "fd")),
        len(os.listdir(process / "task")),
        len((process / "maps").read_text().splitlines()),
    )


def _unique_bytes(place: Path) -> int:
    """The bytes that files take on disk, each file once, however many links it has."""
    found = {(stat.st_dev, stat.st_ino): stat.st_blocks for stat in (file.lstat() for file in place.rglob("*"))}
    return sum(found.values()) * 512
