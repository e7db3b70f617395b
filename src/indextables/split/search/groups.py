"""Groups of consecutive small splits that one combined index may answer for.

The splits of a scan are cut into groups where the name of a split says so, not by its place: after an append, a merge
or another predicate most groups are the same as before, and so are their combined indexes. A combined index is made
when a group was asked before, and all indexes of its splits are on local disk. Those that are missing are fetched in
the background, once they are few for the number of requests.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from indextables.errors import IndexTablesError
from indextables.split.search.combined import MOST_ROWS_OF_A_SPLIT, CannotCombineError, CombinedIndex

_LEAST = 4
_LEAST_TO_CUT = 48
_LEAST_ALONE = 16
_ONE_IN = 64
_MOST = 256

logger = logging.getLogger(__name__)


class ListedSplit(Protocol):
    """A split with the facts of the log."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def num_records(self) -> int | None: ...


_S = TypeVar("_S", bound=ListedSplit)


class Combiner(Protocol):
    """Makes combined indexes."""

    def combine_warm(
        self, splits: Sequence[ListedSplit], num_asked: int, when_fetched: Callable[[], None]
    ) -> CombinedIndex | None:
        """Combine splits; None if their indexes are not on local disk yet.

        They may be fetched meanwhile: `when_fetched` is called afterwards.
        """


class SplitGroup(Generic[_S]):
    """Consecutive splits, and their combined index once there is one."""

    def __init__(self, splits: Sequence[_S]) -> None:
        self.splits = tuple(splits)
        self._num_asked = 0
        self._is_refused = len(splits) < _LEAST
        self._is_fetched = False
        self._index: CombinedIndex | None = None

    def index(self, combiner: Combiner) -> CombinedIndex | None:
        """Return the combined index.

        It is made at the second, fourth, eighth ... request, or once the indexes of its splits were fetched.
        """
        if self._index is not None or self._is_refused:
            return self._index
        self._num_asked += 1
        is_due = self._num_asked > 1 and not self._num_asked & (self._num_asked - 1)
        if not (is_due or self._is_fetched):
            return None
        self._is_fetched = False
        try:
            self._index = combiner.combine_warm(self.splits, self._num_asked, self._note_fetched)
        except (CannotCombineError, IndexTablesError, OSError) as error:
            self.refuse(error)
        return self._index

    def _note_fetched(self) -> None:
        self._is_fetched = True

    def refuse(self, reason: BaseException) -> None:
        """Answer by the splits from now on."""
        logger.info("%d splits are searched one by one: %s", len(self.splits), reason)
        self._index, self._is_refused = None, True


def grouped(splits: Sequence[_S]) -> list[SplitGroup[_S]]:
    """Cut splits into groups, in order; a large split is a group of its own."""
    groups: list[SplitGroup[_S]] = []
    waiting: list[_S] = []

    def end() -> None:
        """End a group; a short one joins the group before it."""
        before = groups[-1].splits if groups else ()
        if waiting and len(waiting) < _LEAST_ALONE and len(before) >= _LEAST_TO_CUT:
            groups.pop()
            waiting[:0] = before
        if waiting:
            groups.append(SplitGroup(waiting))
            waiting.clear()

    for split in splits:
        if not is_small(split):
            end()
            groups.append(SplitGroup([split]))
            continue
        if len(waiting) >= _MOST or (len(waiting) >= _LEAST_TO_CUT and _starts_group(split)):
            end()
        waiting.append(split)
    end()
    return groups


def is_small(split: ListedSplit) -> bool:
    """Return whether a split may be part of a combined index."""
    return split.num_records is not None and 0 < split.num_records < MOST_ROWS_OF_A_SPLIT


def _starts_group(split: ListedSplit) -> bool:
    return zlib.crc32(split.path.encode("utf-8", "surrogatepass")) % _ONE_IN == 0
