"""Answers to repeated questions: counts, aggregations and small searches.

A snapshot never changes, so an answer stays right as long as the handle stays at it. Answers are immutable: numbers and
Arrow tables. A question is a method and its arguments with their types, since `1` and `True` are equal to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from indextables.log.snapshot import Snapshot

_T = TypeVar("_T")
Question = tuple[Any, ...]

_LEAST_BYTES = 512
# One large answer must not drop all others.
_SHARE_OF_ONE = 8


class AnswerStats(NamedTuple):
    """Repeated and new questions since the handle was opened."""

    hits: int
    misses: int


class Answers:
    """Answers of one handle, at most `max_bytes` of them; threads may share them."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._known: tuple[Snapshot | None, _RecentAnswers] = (None, self._empty())
        self.hits = 0
        self.misses = 0

    def get(self, snapshot: Snapshot, question: Question, find: Callable[[], _T]) -> _T:
        """Return a known answer, or find it and keep it."""
        key = _key(question)
        if not self._max_bytes or key is None:
            return find()
        of, answers = self._known
        if of is not snapshot:
            answers = self._empty()
            self._known = (snapshot, answers)
        known = answers.get(key)
        if known is not None:
            self.hits += 1
            return known[0]  # type: ignore[no-any-return]
        self.misses += 1
        found = find()
        if _num_bytes((found,)) <= self._max_bytes // _SHARE_OF_ONE:
            answers.put(key, (found,))
        return found

    def clear(self) -> None:
        """Drop all answers."""
        self._known = (None, self._empty())

    def stats(self) -> AnswerStats:
        return AnswerStats(self.hits, self.misses)

    def _empty(self) -> _RecentAnswers:
        return _RecentAnswers(self._max_bytes)


class _RecentAnswers:
    """Answers in two generations; the older one is dropped as a whole.

    Each has half of the room. So keeping an answer takes the same time for any number of them. Each step is one
    operation on a dictionary or a tuple. A sum that lost a number to another thread is forgotten with its generation.
    """

    def __init__(self, max_bytes: int) -> None:
        self._most_bytes = max_bytes // 2
        self._generations: tuple[dict[Hashable, Any], dict[Hashable, Any]] = ({}, {})
        self._num_bytes = 0

    def __len__(self) -> int:
        return len(self.values())

    def values(self) -> list[Any]:
        young, old = self._generations
        return list({**old, **young}.values())

    def get(self, key: Hashable) -> Any:
        """Return an answer and count it as used; None if there is none."""
        young, old = self._generations
        found = young.get(key)
        if found is None:
            found = old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Hashable, answer: tuple[Any]) -> None:
        """Keep an answer; drop the older generation if the younger one is full."""
        num_bytes = _num_bytes(answer)
        young, _ = self._generations
        if young and self._num_bytes + num_bytes > self._most_bytes:
            self._generations, self._num_bytes = ({}, young), 0
            young, _ = self._generations
        young[key] = answer
        self._num_bytes += num_bytes


def _key(question: Question) -> Hashable | None:
    """Return a question with the types of its parts; None if it cannot be compared."""
    parts = tuple(tuple(part) if isinstance(part, list) else part for part in question)
    try:
        hash(parts)
    except TypeError:
        return None
    return parts, tuple(_type(part) for part in parts)


def _type(part: Any) -> Any:
    return tuple(type(item) for item in part) if isinstance(part, tuple) else type(part)


def _num_bytes(answer: tuple[Any]) -> int:
    """Return the memory of an answer, with all of the buffers that it refers to."""
    size = getattr(answer[0], "get_total_buffer_size", None)
    return _LEAST_BYTES + (0 if size is None else int(size()))
