"""Tree of a query, as frozen values.

A leaf has a `path`: the parts of the field's name in their original spelling, or None for the default fields. Its
`place` is its position in the text, and `path_place` the position of the name. Positions do not count for equality.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from indextables.predicate.bound import BoundLeaf

Path = tuple[str, ...] | None

# The pieces of a wildcard pattern other than plain text.
ANY = None
ONE = 1
Piece = str | int | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """A condition on one field."""

    path: Path = None
    place: int = dataclasses.field(default=0, compare=False, repr=False)
    path_place: int = dataclasses.field(default=0, compare=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Term(Leaf):
    """A word in the field, or the whole value of a field that is not split into words."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Phrase(Leaf):
    """The words of the text next to each other, moved by at most `slop` positions."""

    text: str
    slop: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Prefix(Leaf):
    """A word that starts with the text."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Wildcard(Leaf):
    """A word that matches a pattern.

    The pieces are plain text, `ANY` for any characters or none, and `ONE` for one character.
    """

    pieces: tuple[Piece, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Fuzzy(Leaf):
    """A word at most `distance` edits away from the text."""

    text: str
    distance: int = 2
    transposition: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Regex(Leaf):
    """A whole word that matches the regular expression."""

    pattern: str


@dataclasses.dataclass(frozen=True, slots=True)
class Range(Leaf):
    """A value between two bounds; a bound of None is open."""

    low: str | None
    high: str | None
    includes_low: bool = True
    includes_high: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Exists(Leaf):
    """Any value in the field."""


@dataclasses.dataclass(frozen=True, slots=True)
class InSet(Leaf):
    """One of the texts in the field, each as a phrase."""

    texts: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Holds(Leaf):
    """A condition of a predicate on the value of a column."""

    test: BoundLeaf


@dataclasses.dataclass(frozen=True, slots=True)
class All:
    """Every row."""


@dataclasses.dataclass(frozen=True, slots=True)
class And:
    """All parts match."""

    parts: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Or:
    """At least one part matches."""

    parts: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Not:
    """The part does not match."""

    part: Node


@dataclasses.dataclass(frozen=True, slots=True)
class Prefer:
    """The rows of `required`; rows that also match `optional` score higher."""

    required: Node
    optional: Node


@dataclasses.dataclass(frozen=True, slots=True)
class Boost:
    """The rows of the part, with a multiplied score."""

    part: Node
    factor: float


Node = (
    Term
    | Phrase
    | Prefix
    | Wildcard
    | Fuzzy
    | Regex
    | Range
    | Exists
    | InSet
    | Holds
    | All
    | And
    | Or
    | Not
    | Prefer
    | Boost
)


def both(parts: Iterable[Node]) -> Node:
    """Join parts by AND, without an AND directly inside another or an AND of one part."""
    flat = tuple(_flat(parts, And))
    return flat[0] if len(flat) == 1 else And(flat)


def either(parts: Iterable[Node]) -> Node:
    """Join parts by OR, without an OR directly inside another or an OR of one part."""
    flat = tuple(_flat(parts, Or))
    return flat[0] if len(flat) == 1 else Or(flat)


def negate(part: Node) -> Node:
    """Negate a node; two negations cancel out."""
    return part.part if isinstance(part, Not) else Not(part)


def leaves(tree: Node) -> Iterable[Leaf]:
    """Yield the leaves from left to right."""
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
