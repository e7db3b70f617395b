"""The words of a statement as terminals of the grammar.

The kind of a word depends on the terminals that the parser accepts there: a keyword if one is expected, else a name. A
predicate is one terminal: it ends at the next clause. Two words start a clause, and no predicate has these two words
next to each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import lark
from lark.common import LexerConf
from lark.lexer import Lexer, PatternStr

from indextables.predicate.words import Token

_SAME = {"INDEXTABLE": "INDEXTABLES", "DAY": "DAYS", "HOUR": "HOURS", "DESC": "DESCRIBE"}
_SYMBOLS = {".": "DOT", ";": "SEMICOLON"}
_STRINGS = ("PATH", "BYTES", "URL", "MOMENT")
_CLAUSES = frozenset({("TARGET", "SIZE"), ("MAX", "DEST"), ("MAX", "SOURCE"), ("DRY", "RUN")})
_OTHER = "OTHER"


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """The text of a statement and its words; the last word is an end mark."""

    text: str
    tokens: Sequence[Token]

    def written(self, start: int, end: int) -> str:
        """Return a part of the text."""
        return self.text[start:end]


class StatementLexer(Lexer):
    """Terminals of a `Statement`."""

    __future_interface__ = 2

    def __init__(self, conf: LexerConf) -> None:
        self._keywords = frozenset(item.name for item in conf.terminals if isinstance(item.pattern, PatternStr))

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[lark.Token]:
        """Yield terminals, each decided on demand by the current state of the parser."""
        statement: Statement = lexer_state.text
        tokens = statement.tokens
        place = 0
        while not tokens[place].is_end:
            expected = parser_state.parse_conf.states[parser_state.position]
            token = tokens[place]
            after = _end_of_predicate(tokens, place) if "PREDICATE" in expected else place
            if after > place:
                kind = "PREDICATE"
            else:
                kind, after = self._kind(token, expected), _end_of_word(tokens, place)
            start, end = token.start, tokens[after - 1].end
            is_one = after == place + 1 and kind != "PREDICATE"
            yield lark.Token(
                kind, token.text if is_one else statement.written(start, end), start_pos=start, end_pos=end
            )
            place = after

    def _kind(self, token: Token, expected: Collection[str]) -> str:
        if token.kind == "word":
            return self._kind_of_word(token.text, expected)
        if token.is_string:
            return next((name for name in _STRINGS if name in expected), _OTHER)
        if token.is_number:
            return "BYTES" if "BYTES" in expected else "NUMBER"
        if token.kind == "name":
            return "QUOTED"
        return _SYMBOLS.get(token.text, _OTHER) if token.kind == "symbol" else _OTHER

    def _kind_of_word(self, text: str, expected: Collection[str]) -> str:
        word = text.upper()
        word = _SAME.get(word, word)
        if word in expected and word in self._keywords:
            return word
        return "BYTES" if "BYTES" in expected and word[0].isdigit() else "NAME"


def _end_of_word(tokens: Sequence[Token], place: int) -> int:
    """Return the position after a word.

    A number with a suffix is several adjacent tokens.
    """
    after = place + 1
    while tokens[after].start == tokens[place].start:
        after += 1
    return after


def _end_of_predicate(tokens: Sequence[Token], place: int) -> int:
    """Return the position after the predicate at `place`; `place` if there is none."""
    depth = 0
    while not tokens[place].is_end:
        token, following = tokens[place], tokens[place + 1]
        if token.is_symbol("("):
            depth += 1
        elif token.is_symbol(")"):
            depth -= 1
        elif depth == 0 and (token.is_symbol(";") or _begins_clause(token, following)):
            break
        place += 1
    return place


def _begins_clause(token: Token, following: Token) -> bool:
    words = (token.text.upper(), following.text.upper())
    if token.is_word("SPLIT") and following.is_string:
        return True
    return token.kind == following.kind == "word" and words in _CLAUSES
