"""Snippets: the best fragment of a text, with the words of a query marked.

Words are found with the column's tokenizer, like in the index, so that `ran` marks `running` in a stemmed column. Words
under NOT are not marked.
"""

from __future__ import annotations

import dataclasses
import functools
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from indextables.errors import ConfigError
from indextables.split.index.analyzers import make_analyzer
from indextables.split.index.fields import IndexField, Kind
from indextables.split.index.tokenizers import gram_lengths
from indextables.split.query.tree import Node
from indextables.split.query.wanted_words import WantedWords
from indextables.split.search.searchable import SearchableFields

_JOINER = "\u200d"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Snippet:
    """Settings of a snippet: column, maximum length, and the marks around each word.

    The text is cut between words, and is not escaped.
    """

    column: str = dataclasses.field(kw_only=False)
    max_chars: int = 150
    before: str = "<b>"
    after: str = "</b>"

    def __post_init__(self) -> None:
        if isinstance(self.max_chars, bool) or not isinstance(self.max_chars, int) or self.max_chars < 1:
            raise ConfigError(f"cannot make snippets of `{self.max_chars!r}` characters: expected at least 1")


class _Mark(NamedTuple):
    """A part of a text to mark, and its word of the query."""

    start: int
    end: int
    word: str


class SnippetMaker:
    """Makes the snippets of one query for one split."""

    def __init__(self, wanted: Snippet, tree: Node | None, fields: SearchableFields) -> None:
        self._wanted = wanted
        field = fields.find(wanted.column)
        self._field = field if field is not None and field.kind is Kind.TEXT else None
        self._words = None if tree is None or self._field is None else WantedWords(tree, self._field, fields)

    def make(self, texts: Iterable[str | None]) -> list[str | None]:
        """Return a snippet of each text."""
        return [None if text is None else self._snippet(text) for text in texts]

    def _snippet(self, text: str) -> str:
        marks = self._marks(text)
        start, end = _fragment(text, marks, self._wanted.max_chars)
        pieces, place = [], start
        for mark in _merged(marks):
            low, high = max(mark[0], place), min(mark[1], end)
            if low < high:
                pieces += [text[place:low], self._wanted.before, text[low:high], self._wanted.after]
                place = high
        return "".join([*pieces, text[place:end]])

    def _marks(self, text: str) -> list[_Mark]:
        if self._words is None or self._field is None:
            return []
        if gram_lengths(self._field.tokenizer) is not None:
            return _occurrences(text, self._words.texts)
        return _found_words(text, self._field, self._words.choose)


def _found_words(text: str, field: IndexField, choose: Callable[[Sequence[str]], set[str]]) -> list[_Mark]:
    tokens = _analyzer(field.tokenizer, field.max_token_length).pre_tokenize(text).tokens
    chosen = choose(list(dict.fromkeys(token.text for token in tokens)))
    return [_Mark(token.char_offset_from, token.char_offset_to, token.text) for token in tokens if token.text in chosen]


_analyzer = functools.lru_cache(maxsize=64)(make_analyzer)


def _occurrences(text: str, wanted: Iterable[str]) -> list[_Mark]:
    """Find whole texts inside another, ignoring case, since n-grams mark too much."""
    lowered = "".join(_lower(character) for character in text)
    marks = []
    for word in {"".join(_lower(character) for character in word) for word in wanted if word}:
        place = lowered.find(word)
        while place >= 0:
            marks.append(_Mark(place, place + len(word), word))
            place = lowered.find(word, place + len(word))
    return sorted(marks)


def _lower(character: str) -> str:
    lowered = character.lower()
    return lowered if len(lowered) == 1 else character


def _merged(marks: Sequence[_Mark]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for mark in marks:
        if merged and mark.start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], mark.end)
        else:
            merged.append((mark.start, mark.end))
    return merged


def _fragment(text: str, marks: Sequence[_Mark], max_chars: int) -> tuple[int, int]:
    """Return start and end of the best fragment.

    The best one has the most different words, then the most words, then comes first. Half of the remaining space is
    before its first word.
    """
    if len(text) <= max_chars:
        return 0, len(text)
    first, last = _best_run(marks, max_chars)
    spare = max(0, max_chars - (last - first))
    start = min(max(0, first - spare // 2), len(text) - max_chars) if marks else 0
    start = _cut_after(text, start, first)
    return start, _cut_before(text, min(start + max_chars, len(text)), max(last, start + 1))


def _best_run(marks: Sequence[_Mark], max_chars: int) -> tuple[int, int]:
    best, run = (0, 0), (0, 0)
    inside: dict[str, int] = {}
    end = 0
    for position, mark in enumerate(marks):
        while end < len(marks) and marks[end].end - mark.start <= max_chars:
            inside[marks[end].word] = inside.get(marks[end].word, 0) + 1
            end += 1
        if (len(inside), end - position) > best:
            best, run = (len(inside), end - position), (mark.start, marks[end - 1].end)
        if end == position:  # a word longer than a fragment
            end += 1
        else:
            inside[mark.word] -= 1
            if not inside[mark.word]:
                del inside[mark.word]
    return run if best > (0, 0) or not marks else (marks[0].start, marks[0].start + max_chars)


def _cut_after(text: str, place: int, most: int) -> int:
    """Return the first position between two words from `place` on, else `place`."""
    for cut in range(place, most + 1):
        if _is_between_words(text, cut):
            while cut < most and text[cut].isspace():
                cut += 1
            return cut
    return _between_characters(text, place)


def _cut_before(text: str, place: int, least: int) -> int:
    """Return the last position between two words up to `place`, else `place`."""
    for cut in range(place, least - 1, -1):
        if _is_between_words(text, cut):
            while cut > least and text[cut - 1].isspace():
                cut -= 1
            return cut
    return _between_characters(text, place)


def _is_between_words(text: str, place: int) -> bool:
    if place in (0, len(text)):
        return True
    if _is_attached(text[place]) or text[place - 1] == _JOINER:
        return False
    return not (_is_inner(text[place - 1]) and _is_inner(text[place]))


def _is_inner(character: str) -> bool:
    """Return whether a character is part of a longer word.

    Characters of scripts without blanks are words of their own.
    """
    is_letter = character.isalnum() and unicodedata.east_asian_width(character) not in {"W", "F"}
    return is_letter or character == "_" or _is_attached(character)


def _is_attached(character: str) -> bool:
    """Return whether a code point belongs to the character before it, or joins two."""
    return character == _JOINER or unicodedata.category(character)[0] == "M"


def _between_characters(text: str, place: int) -> int:
    """Return the position, or the start of the character around it."""
    while 0 < place < len(text) and (_is_attached(text[place]) or text[place - 1] == _JOINER):
        place -= 1
    return place
