"""Tokenizer of SQL text by Spark's rules, in time proportional to the length."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from indextables.errors import QueryError
from indextables.predicate.source import check, show_place

# Characters that end a word or a number with its suffix: white space, symbols and quotes.
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
# Special text inside quotes: escapes, and the quote, which ends the text unless it is doubled.
_INSIDE = {quote: re.compile(f"{_ESCAPE}|{quote}{quote}?", re.DOTALL) for quote in "'\""} | {"`": re.compile("``?")}
# Escapes of one character; any other character means itself. `%` and `_` keep the backslash, for `LIKE`.
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """Word, symbol, quoted name, string or number, by `kind`; `end` is exclusive."""

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
    """Return the tokens of `text` and an end mark. Errors call the text `what`."""
    check(text, what)
    return [*iterate_tokens(text, what), Token("end", "", len(text), len(text))]


def iterate_tokens(text: str, what: str = "predicate") -> Iterator[Token]:
    """Yield the tokens of `text` lazily: later text is not read."""
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
    """Return the offset after a comment, which may contain comments."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise _left_open(text, start, what)


def _read_quoted(text: str, start: int, prefix: str, what: str) -> Token:
    """Read a string or a quoted name."""
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
        # A doubled quote. The text after it is a plain string again.
        more, end = _read_quotes(text, end, what)
        value += quote + more
    return Token("string", value, start, end)


def _read_quotes(text: str, start: int, what: str, *, doubled: bool = True) -> tuple[str, int]:
    """Return the text between the quote at `start` and its closing quote, and the end."""
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
    """Join two surrogates to one character; replace a lone one by `?`, as Spark does."""
    return match.group().encode("utf-16", "surrogatepass").decode("utf-16") if len(match.group()) == 2 else "?"


def _read_number(match: re.Match[str]) -> list[Token]:
    """Read a number, a number with a suffix as a cast, or a word with leading digits."""
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
