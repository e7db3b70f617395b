"""What a query asks for, as a tree of frozen values.

A leaf has a `path`: the parts of the field's name as they were written, or None for the fields that are searched when
no field is named. Its `place` is where it stands in the text, and `path_place` where that name stands. Two trees are
equal when they ask for the same, wherever it stood.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

Path = tuple[str, ...] | None

# The pieces of a wildcard pattern that are no plain text.
ANY = None
ONE = 1
Piece = str | int | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """A question about one field."""

    path: Path = None
    place: int = dataclasses.field(default=0, compare=False, repr=False)
    path_place: int = dataclasses.field(default=0, compare=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Term(Leaf):
    """The word stands in the field. Where the field is not split into words, its value is this."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Phrase(Leaf):
    """The words of the text stand in the field side by side, moved by `slop` places at most."""

    text: str
    slop: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Prefix(Leaf):
    """A word starts with the text."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Wildcard(Leaf):
    """A word fits the pattern: plain text, `ANY` for any characters or none, `ONE` for one character."""

    pieces: tuple[Piece, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Fuzzy(Leaf):
    """A word is at most `distance` edits away from the text."""

    text: str
    distance: int = 2
    transposition: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Regex(Leaf):
    """A whole word fits the regular expression."""

    pattern: str


@dataclasses.dataclass(frozen=True, slots=True)
class Range(Leaf):
    """The value lies between two bounds; a bound that is None is open."""

    low: str | None
    high: str | None
    includes_low: bool = True
    includes_high: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Exists(Leaf):
    """The field has a value."""


@dataclasses.dataclass(frozen=True, slots=True)
class InSet(Leaf):
    """One of the texts is in the field, each as a phrase of its own."""

    texts: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class All:
    """Every row."""


@dataclasses.dataclass(frozen=True, slots=True)
class And:
    """Every part holds."""

    parts: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds."""

    parts: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Node


@dataclasses.dataclass(frozen=True, slots=True)
class Prefer:
    """The rows of `required`; a row that `optional` fits as well scores higher."""

    required: Node
    optional: Node


@dataclasses.dataclass(frozen=True, slots=True)
class Boost:
    """The rows of the part, with its score multiplied."""

    part: Node
    factor: float


Node = (
    Term | Phrase | Prefix | Wildcard | Fuzzy | Regex | Range | Exists | InSet | All | And | Or | Not | Prefer | Boost
)


def both(parts: Iterable[Node]) -> Node:
    """The parts joined by AND: no AND directly inside another, and no AND of one."""
    flat = tuple(_flat(parts, And))
    return flat[0] if len(flat) == 1 else And(flat)


def either(parts: Iterable[Node]) -> Node:
    """The parts joined by OR: no OR directly inside another, and no OR of one."""
    flat = tuple(_flat(parts, Or))
    return flat[0] if len(flat) == 1 else Or(flat)


def negate(part: Node) -> Node:
    """The opposite; two negations are none."""
    return part.part if isinstance(part, Not) else Not(part)


def leaves(tree: Node) -> Iterable[Leaf]:
    """The leaves from left to right."""
    waiting: list[Node] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Leaf):
            yield node
        elif isinstance(node, And | Or):
            waiting += reversed(node.parts)
        elif isinstance(node, Not | Boost):
            waiting.append(node.part)
        elif isinstance(node, Prefer):
            waiting += (node.optional, node.required)


def _flat(parts: Iterable[Node], kind: type[And | Or]) -> Iterable[Node]:
    for part in parts:
        if isinstance(part, kind):
            yield from part.parts
        else:
            yield part
