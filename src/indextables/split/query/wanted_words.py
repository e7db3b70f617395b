"""Words of a column that a query's leaves find, except leaves under NOT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.split.query.catalog import Catalog, Field, resolve
from indextables.split.query.text_leaves import normal, pattern_of
from indextables.split.query.tree import (
    And,
    Boost,
    Fuzzy,
    InSet,
    Leaf,
    Node,
    Or,
    Phrase,
    Prefer,
    Prefix,
    Range,
    Regex,
    Term,
    Wildcard,
)


class WantedWords:
    """Chooses words of one text column; a pattern unknown to Arrow chooses none."""

    def __init__(self, tree: Node, field: Field, catalog: Catalog) -> None:
        self._field = field
        self._catalog = catalog
        self._exact: set[str] = set()
        self._patterns: list[str] = []
        self._tests: list[Callable[[str], bool]] = []
        self.texts: list[str] = []
        for leaf in _leaves(tree):
            if self._is_about_column(leaf):
                self._add(leaf)

    def choose(self, words: Sequence[str]) -> set[str]:
        """Return the words that the query finds."""
        chosen = {word for word in words if word in self._exact or any(test(word) for test in self._tests)}
        for pattern in self._patterns:
            chosen.update(_matching(words, pattern))
        return chosen

    def _is_about_column(self, leaf: Leaf) -> bool:
        if leaf.path is None:
            return True
        found = resolve(self._catalog, leaf.path)
        return found is not None and found[0] == self._field

    def _add(self, leaf: Leaf) -> None:
        if isinstance(leaf, Term | Phrase | InSet):
            texts = leaf.texts if isinstance(leaf, InSet) else (leaf.text,)
            self.texts += texts
            self._exact.update(word for text in texts for word in self._catalog.tokens(self._field.column, text))
        elif isinstance(leaf, Prefix | Wildcard | Regex):
            self._patterns.append(pattern_of(leaf, self._normal))
        elif isinstance(leaf, Fuzzy):
            self._tests += [_close_to(word, leaf) for word in self._catalog.tokens(self._field.column, leaf.text)]
        elif isinstance(leaf, Range):
            self._tests.append(self._between(leaf))

    def _between(self, leaf: Range) -> Callable[[str], bool]:
        low = None if leaf.low is None else self._normal(leaf.low)
        high = None if leaf.high is None else self._normal(leaf.high)

        def holds(word: str) -> bool:
            above = low is None or word > low or (leaf.includes_low and word == low)
            return above and (high is None or word < high or (leaf.includes_high and word == high))

        return holds

    def _normal(self, text: str) -> str:
        return normal(self._catalog, self._field, text)


def _leaves(tree: Node) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    elif isinstance(tree, And | Or):
        for part in tree.parts:
            yield from _leaves(part)
    elif isinstance(tree, Boost):
        yield from _leaves(tree.part)
    elif isinstance(tree, Prefer):
        yield from _leaves(tree.required)
        yield from _leaves(tree.optional)


def _matching(words: Sequence[str], pattern: str) -> list[str]:
    try:
        mask = pc.match_substring_regex(to_array(words, pa.string()), f"^(?:{pattern})$")
    except pa.ArrowInvalid:
        return []
    return [word for word, matches in zip(words, mask.to_pylist(), strict=True) if matches]


def _close_to(wanted: str, leaf: Fuzzy) -> Callable[[str], bool]:
    def holds(word: str) -> bool:
        near = abs(len(word) - len(wanted)) <= leaf.distance
        return near and _distance(wanted, word, transposition=leaf.transposition) <= leaf.distance

    return holds


def _distance(left: str, right: str, *, transposition: bool) -> int:
    """Return the edit distance of two words; a swap is one edit if `transposition`."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for here, character in enumerate(left, 1):
        before, above, row = row, before, [here]
        for there, other in enumerate(right, 1):
            cost = min(before[there] + 1, row[-1] + 1, before[there - 1] + (character != other))
            is_swapped = there > 1 and here > 1 and character == right[there - 2] and left[here - 2] == other
            if transposition and is_swapped:
                cost = min(cost, above[there - 2] + 1)
            row.append(cost)
    return row[-1]
