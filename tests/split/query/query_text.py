"""Random trees as the parser makes them, and the text of a tree."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from indextables.split.query import tree as t

KEYWORDS = {"AND", "OR", "NOT", "IN", "TO"}


def to_text(node: t.Node) -> str:
    match node:
        case t.All():
            return "*"
        case t.And(parts):
            return " AND ".join(map(_group, parts))
        case t.Or(parts):
            return " OR ".join(map(_group, parts))
        case t.Not(part):
            return f"NOT {_group(part)}"
        case t.Prefer(required, optional):
            return f"+{_group(required)} {_group(optional)}"
        case t.Boost(part, factor):
            return f"{_group(part)}^{factor:f}"
    path = "" if node.path is None else ".".join(f"`{part.replace('`', '``')}`" for part in node.path) + ":"
    return path + _leaf(node)


def _group(node: t.Node) -> str:
    return f"({to_text(node)})"


def _leaf(leaf: t.Leaf) -> str:
    match leaf:
        case t.Term(text):
            return word(text)
        case t.Phrase(text, slop):
            return quoted(text) + (f"~{slop}" if slop else "")
        case t.Prefix(text):
            return word(text) + "*"
        case t.Wildcard(pieces):
            return "".join(word(one) if isinstance(one, str) else "*" if one is t.ANY else "?" for one in pieces)
        case t.Fuzzy(text, distance):
            return f"{word(text)}~{distance}"
        case t.Regex(pattern):
            return f"/{pattern.replace('/', chr(92) + '/')}/"
        case t.Range(low, high):
            opening, closing = "[" if leaf.includes_low else "{", "]" if leaf.includes_high else "}"
            ends = ["*" if end is None else quoted(end) for end in (low, high)]
            return f"{opening}{ends[0]} TO {ends[1]}{closing}"
        case t.Exists():
            return "*"
        case t.InSet(texts):
            return f"IN [{' '.join(map(quoted, texts))}]"
    raise AssertionError(leaf)


def word(text: str) -> str:
    if text in KEYWORDS:
        return f"\\{text}"
    return "".join(character if character.isalnum() else f"\\{character}" for character in text)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


SOME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
FILLED = st.one_of(SOME.filter(bool), st.sampled_from(sorted(KEYWORDS)))
PATHS = st.one_of(st.none(), st.lists(SOME, min_size=1, max_size=3).map(tuple))
NAMES = PATHS.filter(bool)


def _normal_pieces(pieces: list[t.Piece]) -> bool:
    wild = [piece for piece in pieces if not isinstance(piece, str)]
    touching = any(
        (a is t.ANY and b is t.ANY) or (isinstance(a, str) and isinstance(b, str))
        for a, b in itertools.pairwise(pieces)
    )
    is_prefix = len(pieces) <= 2 and pieces[-1:] == [t.ANY] and isinstance(pieces[0], str | None)
    return bool(wild) and not touching and not is_prefix


def _range(low, high, includes_low, includes_high, path) -> t.Range:
    return t.Range(low, high, includes_low or low is None, includes_high or high is None, path=path)


PIECES = st.lists(st.one_of(FILLED, st.sampled_from([t.ANY, t.ONE])), min_size=1, max_size=5)
ENDS = st.one_of(st.none(), SOME)
LEAVES = st.one_of(
    st.just(t.All()),
    st.builds(t.Term, FILLED, path=PATHS),
    st.builds(t.Phrase, SOME, st.integers(0, 9), path=PATHS),
    st.builds(t.Prefix, FILLED, path=PATHS),
    st.builds(t.Wildcard, PIECES.filter(_normal_pieces).map(tuple), path=PATHS),
    st.builds(t.Fuzzy, FILLED, st.integers(1, 2), path=PATHS),
    st.builds(t.Regex, st.text("ab/.*[ ]():", max_size=6), path=PATHS),
    st.builds(t.Exists, path=NAMES),
    st.builds(t.InSet, st.lists(SOME, max_size=3, unique=True).map(tuple), path=NAMES),
    st.builds(_range, ENDS, ENDS, st.booleans(), st.booleans(), NAMES).filter(
        lambda it: (it.low, it.high) != (None,) * 2
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(t.both, st.lists(inner, min_size=2, max_size=3)),
        st.builds(t.either, st.lists(inner, min_size=2, max_size=3)),
        st.builds(t.negate, inner),
        st.builds(t.Prefer, inner, inner),
        st.builds(t.Boost, inner, st.sampled_from([0.0, 0.5, 2.0])),
    ),
    max_leaves=8,
)
