"""The words of SQL text, each with its place: Spark's rules, in time proportional to the length."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from indextables.errors import QueryError
from indextables.predicate.source import check, show_place

# What ends a word, a number and what hangs on it: white space and every character that is a symbol or a quote.
_APART = r"""\s()\[\]{}<>=!+\-*/%&|^~?@#$:;,.\\'"`"""
_NEXT = re.compile(
    rf"""
      (?P<space>   \s+ | --(?:\\\n|[^\n\r])* )
    | (?P<comment> /\* )
    | (?P<quoted>  (?P<prefix> [rRnN](?=['"]) | [xX](?=') )? ['"`] )
    | (?P<hex>     0[xX][^{_APART}]* )
    | (?P<number>  (?P<digits> [0-9]+ (?:\.[0-9]*)? (?:[eE](?:[+-]?[0-9]+)?)? ) (?P<tail> [^{_APART}]* ) )
    | (?P<word>    [^{_APART}]+ )
    | (?P<symbol>  <<->> | <=> | <-> | ->> | -\|- | \#>> | \?:: | ~~[*~] | [<>!=:]= | <> | [-=\#&|]> | &[<&]
                 | :: | \|\| | \?\? | ~[*~] | [^\s'"`] )
    """,
    re.VERBOSE,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_SUFFIXES = frozenset({"L", "S", "Y", "D", "F", "BD"})

_HEX = "[0-9a-fA-F]"
_ESCAPE = rf"\\(?:u{_HEX}{{4}}|U(?:0010|000{_HEX}){_HEX}{{4}}|[01][0-7][0-7]|.)"
# What is special behind an open quote: escapes, and the quote, which closes unless it is doubled.
_INSIDE = {quote: re.compile(f"{_ESCAPE}|{quote}{quote}?", re.DOTALL) for quote in "'\""} | {"`": re.compile("``?")}
# Escapes of one character; any other stands for itself. `%` and `_` keep the backslash, for `LIKE`.
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A word, a symbol, a quoted name, a string or a number; `kind` says which. `end` is the place behind it."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def is_end(self) -> bool:
        return self.kind == "end"

    @property
    def is_string(self) -> bool:
        return self.kind == "string"

    @property
    def is_number(self) -> bool:
        return self.kind == "number"

    @property
    def is_name(self) -> bool:
        return self.kind in {"word", "name"}

    @property
    def symbol(self) -> str | None:
        return self.text if self.kind == "symbol" else None

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    def is_symbol(self, *symbols: str) -> bool:
        return self.kind == "symbol" and self.text in symbols


def tokenize(text: str, what: str = "predicate") -> list[Token]:
    """The words of `text`, and an end mark behind them. `what` is the text called in errors."""
    check(text, what)
    return [*iterate_tokens(text, what), Token("end", "", len(text), len(text))]


def iterate_tokens(text: str, what: str = "predicate") -> Iterator[Token]:
    """The words of `text` as they are asked for: those behind are not looked at."""
    place = 0
    while match := _NEXT.match(text, place):
        kind = str(match.lastgroup)
        start, place = match.span()
        if kind == "comment":
            place = _end_of_comment(text, start, what)
        elif kind == "quoted":
            token = _read_quoted(text, start, match["prefix"] or "", what)
            place = token.end
            yield token
        elif kind == "number":
            tokens = _read_number(match)
            place = tokens[-1].end
            yield from tokens
        elif kind == "hex":
            yield _read_hex(match.group(), start)
        elif kind != "space":
            yield Token(kind, match.group(), start, place)


def _end_of_comment(text: str, start: int, what: str) -> int:
    """The place behind a comment, which may hold comments."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise _left_open(text, start, what)


def _read_quoted(text: str, start: int, prefix: str, what: str) -> Token:
    """A string or a name."""
    place = start + len(prefix)
    quote = text[place]
    if not prefix:
        value, end = _read_quotes(text, place, what)
        return Token("name" if quote == "`" else "string", value, start, end)
    if prefix not in "rR":
        value, end = _read_quotes(text, place, what, doubled=False)
        return Token("other", value, start, end)
    close = text.find(quote, place + 1)
    if close < 0:
        raise _left_open(text, place, what)
    value, end = text[place + 1 : close], close + 1
    if text[end : end + 1] == quote:
        # A doubled quote. What is behind it is a plain string again.
        more, end = _read_quotes(text, end, what)
        value += quote + more
    return Token("string", value, start, end)


def _read_quotes(text: str, start: int, what: str, *, doubled: bool = True) -> tuple[str, int]:
    """What is between the quote at `start` and the one that closes it, and the place behind that."""
    quote = text[start]
    parts: list[str] = []
    place = start + 1
    for special in _INSIDE[quote].finditer(text, place):
        found = special.group()
        parts.append(text[place : special.start()])
        place = special.end()
        if found[0] == "\\":
            parts.append(_unescape(found))
        elif found == quote or not doubled:
            return _SURROGATES.sub(_join_surrogates, "".join(parts)), special.start() + 1
        else:
            parts.append(quote)
    raise _left_open(text, start, what)


def _unescape(escape: str) -> str:
    if len(escape) == 2:
        return _ESCAPES.get(escape[1], escape[1])
    return chr(int(escape[2:], 16) if escape[1] in "uU" else int(escape[1:], 8))


def _join_surrogates(match: re.Match[str]) -> str:
    """Two halves of a character as that character. Half a character is none, and Spark stores `?`."""
    return match.group().encode("utf-16", "surrogatepass").decode("utf-16") if len(match.group()) == 2 else "?"


def _read_number(match: re.Match[str]) -> list[Token]:
    """A number, with a suffix as the cast that it means, or a word that starts with digits."""
    start, digits, tail = match.start(), match["digits"], match["tail"]
    number = Token("number", digits, start, match.end("digits"))
    if not tail[:1].isidentifier():
        return [number]
    if tail.upper() in _SUFFIXES:
        return [number, Token("symbol", "::", start, match.end()), Token("word", tail, start, match.end())]
    return [Token("word", match.group(), start, match.end())]


def _read_hex(text: str, start: int) -> Token:
    end = start + len(text)
    try:
        int(text, 16)
    except ValueError:
        return Token("name", text, start, end)
    return Token("other", text[2:], start, end)


def _left_open(text: str, start: int, what: str) -> QueryError:
    left = "comment" if text[start] == "/" else "quote"
    return QueryError(
        f"cannot read the {what} because it cannot be split into words: a {left} is left open, "
        f"at {show_place(text, start)}"
    )
