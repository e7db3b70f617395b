"""Ask the splits of a scan in groups: a combined index answers for its group.

A group without one is left to its splits. Only scans without a predicate on rows come here: what an index decides of a
predicate may differ from split to split.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import xxhash

from indextables.arrow_values import to_array
from indextables.clock import SYSTEM_CLOCK
from indextables.errors import ConfigError, IndexTablesError
from indextables.runtime.pools import SHARED_POOLS
from indextables.split.index.fields import FieldMap
from indextables.split.query.tree import All, Node
from indextables.split.search.combined import CannotCombineError, CombinedIndex, Together, check_number
from indextables.split.search.groups import ListedSplit, SplitGroup, is_small
from indextables.split.search.open_splits import OpenSplits
from indextables.split.search.searcher import Hits, SplitSearcher

SEARCHING = "searching"

_MOST_GROUPED = 50_000
_SHORT_SECONDS = 0.002
_MOST_TOGETHER = 100_000


class PlacedSplit(ListedSplit, Protocol):
    """A split with its place among the splits of a scan."""

    @property
    def position(self) -> int: ...


_S = TypeVar("_S", bound=PlacedSplit)
_T = TypeVar("_T")


class Question(NamedTuple):
    """A query, its text for errors, and the fields that define its meaning."""

    tree: Node | None
    text: str
    fields: FieldMap


class AskedGroups(Generic[_S]):
    """Asks one question of groups of splits, without scores."""

    def __init__(self, opened: OpenSplits, groups: Sequence[SplitGroup[_S]], question: Question) -> None:
        self._opened = opened
        self._groups = groups
        self._question = question
        self._numbers: dict[int, tuple[int | None, pa.Array[Any]]] = {}

    def ask(self, together: Callable[[Together], _T | None]) -> tuple[list[_T], list[_S]]:
        """Return the answers of combined indexes, and the splits that have to be asked.

        `together` returns None if the splits have to be asked.
        """
        answers = self._in_groups(together)
        left = [split for group, answer in answers if answer is None for split in group.splits]
        return [answer for _, answer in answers if answer is not None], left

    def found(self) -> list[_S]:
        """Return the splits that may have hits, in order."""
        answers = self._in_groups(functools.partial(self._row_numbers, limit=None))
        return [split for group, known in answers for split in self._with_hits(group, known, None)]

    def waves(self, limit: int | None, num_splits: int) -> Iterator[Sequence[_S]]:
        """Yield the splits that may have hits, in order.

        With a limit, those with known hits wait until there are enough of them: then their rows are read at once. The
        splits of a group without an index come in growing shares, first `num_splits`.
        """
        waiting: list[_S] = []
        num_hits = 0
        for group in self._groups:
            known = self._ask_group(functools.partial(self._row_numbers, limit=limit), group)
            splits = self._with_hits(group, known, limit)
            if known is not None:
                waiting += splits
                num_hits += sum(map(len, known.values()))
                if limit is not None and num_hits < limit:
                    continue
            yield from self._handed(waiting)
            num_hits = 0
            while known is None and splits:
                yield splits[:num_splits]
                splits = splits[num_splits:]
                num_splits = min(2 * num_splits, self._opened.at_once)
        yield from self._handed(waiting)

    def _handed(self, waiting: list[_S]) -> Iterator[Sequence[_S]]:
        """Yield the splits that wait, if any, and forget their row numbers afterwards."""
        if waiting:
            yield tuple(waiting)
            for split in waiting:
                self._numbers.pop(split.position, None)
            waiting.clear()

    def row_numbers(self, split: _S, limit: int | None) -> pa.Array[Any] | None:
        """Return the first row numbers of a split; None if no combined index gave them."""
        most, known = self._numbers.get(split.position, (None, None))
        if known is None or (most is not None and (limit is None or limit > most)):
            return None
        return known.slice(0, limit)

    def _in_groups(self, ask: Callable[[Together], _T | None]) -> list[tuple[SplitGroup[_S], _T | None]]:
        """Ask each combined index; most answers take less time than another thread."""
        groups, answers = self._groups, []
        started = SYSTEM_CLOCK.monotonic()
        for group in groups:
            if SYSTEM_CLOCK.monotonic() - started > _SHORT_SECONDS:
                break
            answers.append(self._ask_group(ask, group))
        rest = groups[len(answers) :]
        work = functools.partial(self._ask_group, ask)
        answers += SHARED_POOLS.map(SEARCHING, work, rest, workers=self._opened.at_once)
        return list(zip(groups, answers, strict=True))

    def _ask_group(self, ask: Callable[[Together], _T | None], group: SplitGroup[_S]) -> _T | None:
        """Ask the combined index of a group; None if there is none, or it fails."""
        index = group.index(self._opened)
        if index is None:
            return None
        try:
            return ask(index.for_fields(self._question.fields)) if index.answers(*self._question) else None
        except (CannotCombineError, IndexTablesError, OSError) as error:
            group.refuse(error)
            return None

    def _row_numbers(self, index: Together, limit: int | None) -> dict[int, pa.Array[Any]] | None:
        """Return row numbers by the place of the split; None if there are too many."""
        tree, text, _ = self._question
        if tree is None:
            return None
        if limit is None:
            num_hits = index.count(tree, text, is_answer=False)
            if not 0 < num_hits <= _MOST_TOGETHER:
                return None if num_hits else {}
        return index.row_numbers(tree, text, limit)

    def _with_hits(
        self, group: SplitGroup[_S], known: dict[int, pa.Array[Any]] | None, limit: int | None
    ) -> Sequence[_S]:
        """Keep the row numbers of a group; return the splits that may have hits."""
        if known is None:
            return group.splits
        for place, numbers in known.items():
            self._numbers[group.splits[place].position] = (limit, numbers)
        return [group.splits[place] for place in sorted(known)]


def can_group(files: pa.Table) -> bool:
    """Return whether files are few enough to be cut into groups, and have a key."""
    return files.num_rows <= _MOST_GROUPED and files.schema.field("path").type in (pa.string(), pa.large_string())


def key_of(files: pa.Table, columns: Sequence[str]) -> bytes:
    """Hash some facts of files, column by column."""
    hashed = xxhash.xxh3_128()
    for name in columns:
        for chunk in files[name].chunks:
            hashed.update(f"{name}:{chunk.type}:{chunk.offset}:{len(chunk)};".encode())
            for buffer in chunk.buffers():
                hashed.update(b"" if buffer is None else buffer)
    return hashed.digest()


def table_scores(
    opened: OpenSplits,
    splits: Sequence[_S],
    open_all: Callable[[Sequence[_S]], Sequence[SplitSearcher]],
    question: Question,
    limit: int | None,
) -> dict[str, Hits]:
    """Return hits with scores by the statistics of all live splits, by path.

    Raises a `ConfigError` if no index can hold them.
    """
    try:
        together = _whole_table(opened, splits, open_all, question)
        found = together.best(All() if question.tree is None else question.tree, question.text, limit)
    except (CannotCombineError, OSError) as error:
        raise ConfigError(
            f"cannot score by the statistics of the table because no index can hold its {len(splits)} splits: {error}",
            hint="set `score.scope` to `split`, or merge the splits",
        ) from error
    nothing = Hits(to_array([], pa.uint64()), to_array([], pa.float32()))
    return {split.path: found.get(place, nothing) for place, split in enumerate(splits)}


def _whole_table(
    opened: OpenSplits,
    splits: Sequence[_S],
    open_all: Callable[[Sequence[_S]], Sequence[SplitSearcher]],
    question: Question,
) -> Together:
    check_number(len(splits))
    if not all(is_small(split) for split in splits):
        raise CannotCombineError("one of them has 100,000 rows or more, or its number of rows is unknown")
    key = ("table", tuple(splits))
    index: CombinedIndex | None = opened.groups.get(key)
    if index is None:
        searchers = open_all(splits)
        if len(searchers) < len(splits):
            raise CannotCombineError("one of them cannot be read")
        index = opened.combine(searchers)
        opened.groups.put(key, index)
    if not index.answers(*question):
        raise CannotCombineError("they are indexed differently, or the query may find NaN")
    return index.for_fields(question.fields)
