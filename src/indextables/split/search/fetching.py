"""Fetch whole indexes of splits in the background, for later questions.

Nothing depends on it: a question that comes meanwhile reads what it needs itself. One thread of a process fetches. It
stops between two splits when the interpreter exits, and each index appears in the cache as a whole.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from indextables.errors import IndexTablesError
from indextables.runtime.background import BACKGROUND
from indextables.runtime.cancellation import Cancellation
from indextables.split.search.searcher import SplitSearcher

_PURPOSE = "whole indexes"

logger = logging.getLogger(__name__)


class _Fetch(NamedTuple):
    searchers: Sequence[SplitSearcher]
    when_fetched: Callable[[], None]


_waiting: dict[str, _Fetch] = {}


def fetch_later(searchers: Sequence[SplitSearcher], when_fetched: Callable[[], None]) -> None:
    """Fetch indexes in the background, then call `when_fetched`; not if one fails."""
    _waiting[searchers[0].identity] = _Fetch(searchers, when_fetched)
    try:
        BACKGROUND.begin(_PURPOSE, _fetch_all, wait_seconds=0)
    except (RuntimeError, MemoryError) as error:  # no more threads, or the interpreter is exiting
        logger.info("cannot fetch %d indexes in the background: %s", len(searchers), error)
        _waiting.pop(searchers[0].identity, None)


def wait_for_fetches(timeout_seconds: float | None = None) -> bool:
    """Wait until nothing is fetched; return False after `timeout_seconds`."""
    return BACKGROUND.wait(_PURPOSE, timeout_seconds)


def _fetch_all(cancellation: Cancellation) -> None:
    while _waiting and not cancellation.is_cancelled:
        key, fetch = next(iter(_waiting.items()))
        try:
            if _fetched(fetch, cancellation):
                fetch.when_fetched()
        finally:
            if _waiting.get(key) is fetch:
                _waiting.pop(key, None)


def _fetched(fetch: _Fetch, cancellation: Cancellation) -> bool:
    """Fetch indexes one by one; return whether all are in the cache."""
    for searcher in fetch.searchers:
        if cancellation.is_cancelled:
            return False
        try:
            searcher.fetch_whole()
        except (IndexTablesError, OSError, MemoryError) as error:
            logger.info("cannot fetch the index of the split %s: %s", searcher.split.key, error)
            return False
    return True


os.register_at_fork(after_in_child=_waiting.clear)
