"""Parse the text of a query to its tree.

docs/query-language.md defines the operators.

Every text yields a tree or a `QueryError` that shows the position, in time proportional to its length: length and
nesting are limited, and the text is read once from left to right.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import Any, NoReturn

from indextables.errors import QueryError
from indextables.split.query.tree import (
    ANY,
    All,
    Boost,
    Exists,
    Fuzzy,
    InSet,
    Node,
    Path,
    Phrase,
    Prefer,
    Prefix,
    Range,
    Regex,
    Term,
    Wildcard,
    both,
    either,
    negate,
)
from indextables.split.query.words import ANY_FIELD, EXISTS, Token, fail, tokenize, unescape, wild_pieces

MAX_NESTING = 50
MAX_DISTANCE = 2
MAX_SLOP = 1_000_000

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_WHOLE = re.compile(r"[0-9]{1,9}")
_OPERANDS = frozenset({"word", "quoted", "regex", "field"})
_QUOTE_IT = 'quote it to search for the word: `"..."`'


def parse_query(text: str, within: Path = None) -> Node:
    """Parse `text` to a tree, or raise a `QueryError` that shows the position.

    `within` is the field to search if none is named.
    """
    if not isinstance(text, str):
        raise QueryError(f"cannot read a query from a `{type(text).__name__}`: give text")
    return _parse(text, within)


@functools.lru_cache(maxsize=256)
def _parse(text: str, within: Path) -> Node:
    return _Parser(text, tokenize(text)).parse(within)


@dataclasses.dataclass(frozen=True, slots=True)
class _Clause:
    """An item of a list: operands joined by AND, its sign, and how it is joined.

    The sign of a single operand is not yet applied to the node: `+`, `-`, `!` for NOT, or empty.
    """

    node: Node
    sign: str
    after_or: bool
    token: Token
    is_chain: bool


def _apply(sign: str, node: Node) -> Node:
    return negate(node) if sign in {"-", "!"} else node


class _Parser:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0
        self._depth = 0
        self._path_place = 0

    def parse(self, within: Path) -> Node:
        found = self._list(within)
        if self._peek().kind != "end":
            self._refuse(self._peek())
        return found

    def _list(self, path: Path) -> Node:
        """Parse clauses side by side or joined by OR, up to a `)` or the end."""
        clauses = [self._clause(path, after_or=False)]
        while not self._at_close():
            after_or = self._take("OR", "||")
            clauses.append(self._clause(path, after_or=after_or))
        if len(clauses) == 1:
            return clauses[0].node if clauses[0].is_chain else _apply(clauses[0].sign, clauses[0].node)
        return self._join(clauses)

    def _join(self, clauses: list[_Clause]) -> Node:
        """Join the clauses of a list: `+` ones are required, `-` ones are excluded."""
        required: list[Node] = []
        excluded: list[Node] = []
        plain: list[Node] = []
        for number, clause in enumerate(clauses):
            beside_or = clause.after_or or (number + 1 < len(clauses) and clauses[number + 1].after_or)
            if clause.is_chain and clause.sign:
                reason = f"`{clause.sign}` is in an `AND` that is one clause of a list"
                self._fail(clause.token, reason, "put the `AND` in parentheses, or write `NOT`")
            if clause.sign == "+":
                required.append(clause.node)
            elif clause.sign == "-" or (clause.sign == "!" and not beside_or):
                excluded.append(negate(clause.node))
            else:
                plain.append(_apply(clause.sign, clause.node))
        found: list[Node] = []
        if required and plain:
            found.append(Prefer(both(required), either(plain)))
        elif required or plain:
            found.append(both(required) if required else either(plain))
        return both([*found, *excluded])

    def _clause(self, path: Path, *, after_or: bool) -> _Clause:
        """Parse operands joined by AND; `-` before an operand is NOT, `+` is ignored."""
        token = self._peek()
        sign, node = self._signed(path)
        if not self._take("AND", "&&"):
            return _Clause(node, sign, after_or, token, is_chain=False)
        signs = sign.strip("!")
        parts = [_apply(sign, node)]
        while True:
            sign, node = self._signed(path)
            signs = signs or sign.strip("!")
            parts.append(_apply(sign, node))
            if not self._take("AND", "&&"):
                return _Clause(both(parts), signs, after_or, token, is_chain=True)

    def _signed(self, path: Path) -> tuple[str, Node]:
        """Parse an operand with the sign before it."""
        token = self._peek()
        if not token.is_symbol("+", "-"):
            return self._negated(path)
        self._advance()
        following = self._peek()
        if following.kind == "end" or following.spaced:
            self._fail(token, f"`{token.text}` does not touch the text behind it", f"write `\\{token.text}` for text")
        if following.is_symbol("+", "-", "!"):
            self._fail(following, f"`{token.text}` is followed by another sign")
        return token.text, self._boosted(path)

    def _negated(self, path: Path) -> tuple[str, Node]:
        num_nots = 0
        while self._peek().is_word("NOT") or self._peek().is_symbol("!"):
            self._advance()
            num_nots += 1
        return "!" * (num_nots % 2), self._boosted(path)

    def _boosted(self, path: Path) -> Node:
        node = self._operand(path)
        token = self._peek()
        if token.kind != "boost":
            return node
        self._advance()
        if token.spaced or not _NUMBER.fullmatch(token.text) or not math.isfinite(float(token.text)):
            self._fail(token, "`^` is not between a clause and a number", "a boost looks like `error^2.5`")
        return Boost(node, float(token.text))

    def _operand(self, path: Path) -> Node:
        token = self._advance()
        before = self._tokens[self._next - 2] if self._next > 1 else token
        starts = token.kind in _OPERANDS or token.is_symbol("(")
        if starts and not token.spaced and before.kind in _OPERANDS | {"slop", "boost"}:
            self._fail(token, f"`{token.text[:60]}` touches the text before it", "put a blank between them")
        if token.kind == "field":
            return self._field(token)
        return self._value(token, path)

    def _field(self, token: Token) -> Node:
        if token.text == EXISTS:
            name = self._advance()
            return Exists(path=name.parts, place=name.start, path_place=name.start)
        if token.text == ANY_FIELD:
            if self._peek().is_word("*"):
                self._advance()
                return All()
            return self._value(self._advance(), None)
        value = self._advance()
        if value.is_word("IN") and self._peek().is_symbol("["):
            return self._set(token)
        outer, self._path_place = self._path_place, token.start
        found = self._value(value, token.parts)
        self._path_place = outer
        return found

    def _value(self, token: Token, path: Path) -> Node:
        if token.kind == "quoted":
            return Phrase(unescape(token.text), self._slop(), **self._at(path, token))
        if token.kind == "regex":
            return Regex(token.text.replace("\\/", "/"), **self._at(path, token))
        if token.is_symbol("("):
            return self._group(token, path)
        if token.is_symbol("[", "{"):
            return self._range(token, path)
        if token.is_symbol("<", "<=", ">", ">="):
            return self._comparison(token, path)
        if token.kind != "word":
            self._refuse(token)
        if token.text in {"AND", "OR", "NOT"}:
            self._fail(token, f"`{token.text}` is found where a word is expected", _QUOTE_IT)
        return self._word(token, path)

    def _group(self, opening: Token, path: Path) -> Node:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._fail(opening, f"it is nested deeper than {MAX_NESTING} levels")
        if self._peek().is_symbol(")"):
            self._fail(opening, "the parentheses are empty")
        found = self._list(path)
        if not self._peek().is_symbol(")"):
            self._fail(opening, "`(` is not closed")
        self._advance()
        self._depth -= 1
        return found

    def _word(self, token: Token, path: Path) -> Node:
        pieces = wild_pieces(token.text)
        if pieces == (ANY,):
            self._refuse_slop("a wildcard")
            return All() if path is None else Exists(**self._at(path, token))
        if all(isinstance(piece, str) for piece in pieces):
            return self._plain_word(token, path)
        self._refuse_slop("a wildcard")
        if len(pieces) == 2 and isinstance(pieces[0], str) and pieces[1] is ANY:
            return Prefix(pieces[0], **self._at(path, token))
        return Wildcard(pieces, **self._at(path, token))

    def _plain_word(self, token: Token, path: Path) -> Node:
        text = unescape(token.text)
        suffix = self._peek()
        if suffix.kind != "slop" or suffix.spaced:
            return Term(text, **self._at(path, token))
        self._advance()
        if suffix.text and (not _WHOLE.fullmatch(suffix.text) or int(suffix.text) > MAX_DISTANCE):
            self._fail(suffix, f"`~` is not followed by a number of edits from 0 to {MAX_DISTANCE}")
        distance = int(suffix.text or MAX_DISTANCE)
        if distance == 0:
            return Term(text, **self._at(path, token))
        return Fuzzy(text, distance, **self._at(path, token))

    def _slop(self) -> int:
        suffix = self._peek()
        if suffix.kind != "slop" or suffix.spaced:
            return 0
        self._advance()
        if not _WHOLE.fullmatch(suffix.text) or int(suffix.text) > MAX_SLOP:
            self._fail(suffix, "`~` behind a phrase is not followed by a number of places", 'as in `"disk full"~3`')
        return int(suffix.text)

    def _refuse_slop(self, what: str) -> None:
        if self._peek().kind == "slop":
            self._fail(self._peek(), f"`~` is behind {what}")

    def _range(self, opening: Token, path: Path) -> Node:
        self._need_field(opening, path)
        low = self._bound()
        if not self._peek().is_word("TO"):
            self._fail(self._peek(), "`TO` is missing in a range", "write `[a TO b]`, or `IN [a b]` for a set")
        self._advance()
        high = self._bound()
        closing = self._advance()
        if not closing.is_symbol("]", "}"):
            self._fail(closing, "a range holds more than two bounds", "quote a bound that has blanks")
        if low is None and high is None:
            return Exists(**self._at(path, opening))
        includes_low = low is None or opening.text == "["
        includes_high = high is None or closing.text == "]"
        return Range(low, high, includes_low, includes_high, **self._at(path, opening))

    def _bound(self) -> str | None:
        token = self._advance()
        if token.kind not in {"word", "quoted"} or token.is_word("TO"):
            self._fail(token, "a bound is missing in a range", "`*` is an open end, as in `[5 TO *]`")
        return None if token.is_word("*") else unescape(token.text)

    def _comparison(self, sign: Token, path: Path) -> Node:
        self._need_field(sign, path)
        token = self._advance()
        if token.kind not in {"word", "quoted"} or token.is_word("*"):
            self._fail(token, f"`{sign.text}` is not followed by a value")
        value, inclusive = unescape(token.text), sign.text.endswith("=")
        if sign.text[0] == ">":
            return Range(value, None, includes_low=inclusive, **self._at(path, sign))
        return Range(None, value, includes_high=inclusive, **self._at(path, sign))

    def _need_field(self, token: Token, path: Path) -> None:
        if path is None:
            self._fail(token, "a range has no field", f"write `field:{token.text}...`, and `\\{token.text}` for text")

    def _set(self, field: Token) -> Node:
        self._advance()
        texts: list[str] = []
        while not self._peek().is_symbol("]"):
            token = self._advance()
            if token.kind in {"word", "quoted"}:
                texts.append(unescape(token.text))
            elif not (token.is_symbol(",") and texts):
                self._refuse(token)
        self._advance()
        return InSet(tuple(dict.fromkeys(texts)), path=field.parts, place=field.start, path_place=field.start)

    def _take(self, word: str, symbol: str) -> bool:
        if not (self._peek().is_word(word) or self._peek().is_symbol(symbol)):
            return False
        token = self._advance()
        if self._at_close():
            self._fail(token, f"there is nothing behind `{token.text}`", _QUOTE_IT)
        return True

    def _at(self, path: Path, token: Token) -> dict[str, Any]:
        """Return the field of a leaf and its position in the text."""
        return {"path": path, "place": token.start, "path_place": self._path_place}

    def _at_close(self) -> bool:
        return self._peek().kind == "end" or self._peek().is_symbol(")")

    def _peek(self) -> Token:
        return self._tokens[min(self._next, len(self._tokens) - 1)]

    def _advance(self) -> Token:
        token = self._peek()
        self._next += 1
        return token

    def _refuse(self, token: Token) -> NoReturn:
        if token.kind == "end":
            self._fail(token, "it ends where a word is expected")
        if token.kind in {"slop", "boost"}:
            sign = "~" if token.kind == "slop" else "^"
            self._fail(token, f"`{sign}` does not touch a word before it", f"write `\\{sign}` for text")
        hint = None if len(token.text) > 2 else f"write `\\{token.text[:1]}` where it is text"
        self._fail(token, f"`{token.text[:60]}` is not understood here", hint)

    def _fail(self, token: Token, reason: str, hint: str | None = None) -> NoReturn:
        fail(self._text, token.start, reason, hint)
