r"""Split a query's text into words with positions, in linear time.

The meaning of a character depends on its position: `-` is a sign before a word and a letter inside one, `:` ends a
field's name and is a letter in the value behind it, and inside `[ ]` only blanks and brackets separate words.
"""

from __future__ import annotations

import dataclasses
import re
from typing import NoReturn

from indextables.errors import QueryError
from indextables.predicate.source import show_place
from indextables.split.query.tree import ANY, ONE, Piece

MAX_LENGTH = 1_000_000
EXISTS = "_exists_"
ANY_FIELD = "*"

_UNREADABLE = re.compile("[\0\ud800-\udfff]")
_SPACE = re.compile(r"\s*+")
_ESCAPED = r"\\."
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_NAME = re.compile(r"`((?:[^`]|``)*+)`")
_REGEX = re.compile(r"/((?:[^/\\]|\\.)*+)/", re.DOTALL)
_SYMBOL = re.compile(r"&&|\|\||[()\[\]{}]|[<>]=?|[-+!]")
_SUFFIX = re.compile(r"([~^])([0-9A-Za-z.+-]*+)")

# A word at the start of a clause, behind a field's name, inside `[ ]`, and inside the set of an `IN`.
_WORD = re.compile(rf"""(?:[^\s()\[\]{{}}"`:^~\\&|]|&(?!&)|\|(?!\|)|{_ESCAPED})++""", re.DOTALL)
_VALUE = re.compile(rf"""(?:[^\s()\[\]{{}}"`^~\\&|]|&(?!&)|\|(?!\|)|{_ESCAPED})++""", re.DOTALL)
_BOUND = re.compile(rf"""(?:[^\s\[\]{{}}"`\\]|{_ESCAPED})++""", re.DOTALL)
_ITEM = re.compile(rf"""(?:[^\s\[\]{{}}"`\\,]|{_ESCAPED})++""", re.DOTALL)

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NAME_PART = re.compile(r"(?:[^.\\]|\\.)++", re.DOTALL)
_ODD_DOTS = "quote a name with odd dots"
_WILD = re.compile(r"\\(.)|([*?])|([^\\*?]++)", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A word, symbol, field name, quoted text, regex or suffix, by `kind`.

    `text` is the original text without its quotes; `parts` are the parts of a field's name. `spaced`: a blank or
    nothing is before it.
    """

    kind: str
    text: str
    start: int
    spaced: bool = True
    parts: tuple[str, ...] = ()

    def is_symbol(self, *symbols: str) -> bool:
        return self.kind == "symbol" and self.text in symbols

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text in words


def unescape(text: str) -> str:
    """Replace each backslash escape by its character."""
    return _ESCAPE.sub(r"\1", text)


def wild_pieces(text: str) -> tuple[Piece, ...]:
    """Split a word into plain text and wildcards; several `*` in a row are one."""
    found: list[Piece] = []
    for match in _WILD.finditer(text):
        escaped, wild, plain = match.groups()
        if wild is None:
            found.append(escaped or plain)
        elif wild == "?":
            found.append(ONE)
        elif not found or found[-1] is not ANY:
            found.append(ANY)
    return _join_texts(found)


def _join_texts(pieces: list[Piece]) -> tuple[Piece, ...]:
    joined: list[Piece] = []
    texts: list[str] = []
    for piece in [*pieces, ANY]:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        if texts:
            joined.append("".join(texts))
            texts = []
        joined.append(piece)
    return tuple(joined[:-1])


def fail(text: str, place: int, reason: str, hint: str | None = None) -> NoReturn:
    """Refuse the query, and show the position."""
    raise QueryError(f"cannot read the query because {reason}, at {show_place(text, place)}", hint=hint)


def tokenize(text: str) -> list[Token]:
    """Return the words of `text`, and an end mark behind them."""
    _check(text)
    return _Words(text).read()


def _check(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise QueryError(
            f"cannot read the query because it is {len(text):,} characters long, and the limit is {MAX_LENGTH:,}"
        )
    if not text.strip():
        raise QueryError("cannot read the query because it is empty", hint="`*` finds every row")
    if bad := _UNREADABLE.search(text):
        fail(text, bad.start(), f"of the character `U+{ord(bad.group()):04X}`")


class _Words:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._after_space = 0
        self._found: list[Token] = []

    def read(self) -> list[Token]:
        while not self._at_end():
            self._clause()
        self._add("end", "", len(self._text))
        return self._found

    def _at_end(self) -> bool:
        match = _SPACE.match(self._text, self._place)
        if match is not None and match.end() > self._place:
            self._place = self._after_space = match.end()
        return self._place >= len(self._text)

    def _clause(self) -> None:
        """Read a token that may start or end a clause."""
        start = self._place
        symbol = _SYMBOL.match(self._text, start)
        if symbol is not None:
            self._symbol(symbol)
        elif suffix := _SUFFIX.match(self._text, start):
            self._add("slop" if suffix[1] == "~" else "boost", suffix[2], suffix.end())
        elif self._text[start] == "/":
            self._regex()
        elif self._text[start] == ":":
            self._fail(start, "`:` has no field before it", "write `field:value`, and `\\:` for a colon")
        else:
            self._name_or_word()

    def _symbol(self, match: re.Match[str]) -> None:
        text = match.group()
        self._add("symbol", text, match.end())
        if text in "[{":
            self._brackets(_BOUND)
        elif text[0] in "<>" and not self._at_end():
            self._compared()

    def _compared(self) -> None:
        """Read the value behind a comparison."""
        if self._text[self._place] == '"':
            self._quoted()
        elif self._text[self._place] in "<>":
            self._refuse(self._place)
        else:
            self._word(_VALUE)

    def _brackets(self, word: re.Pattern[str]) -> None:
        """Read everything up to the closing bracket."""
        opening = self._found[-1].start
        while not self._at_end():
            character = self._text[self._place]
            if character in "]}":
                self._add("symbol", character, self._place + 1)
                return
            if character == "," and word is _ITEM:
                self._add("symbol", ",", self._place + 1)
            elif character == '"':
                self._quoted()
            else:
                self._word(word)
        self._fail(opening, f"`{self._text[opening]}` is not closed")

    def _name_or_word(self) -> None:
        """Read a field's name with its colon, or a word or a quoted text."""
        start = self._place
        part = self._part()
        following = self._text[self._place : self._place + 1]
        is_chain = following in {'"', "`"} if part.kind == "word" and part.text.endswith(".") else following == "."
        if following == ":" or is_chain:
            self._field(start, part)
        elif part.kind == "name":
            self._fail(start, "a name in back-quotes is not followed by `:`", 'write text in double quotes: `"..."`')
        else:
            self._found.append(part)

    def _part(self) -> Token:
        """Read a word, a quoted text or a quoted name without adding it."""
        start, spaced = self._place, self._is_spaced()
        character = self._text[start]
        pattern = {'"': _QUOTED, "`": _NAME}.get(character, _WORD)
        match = pattern.match(self._text, start)
        if match is None:
            self._refuse(start)
        self._place = match.end()
        kind = {'"': "quoted", "`": "name"}.get(character, "word")
        return Token(kind, match[1] if match.re.groups else match.group(), start, spaced)

    def _field(self, start: int, part: Token) -> None:
        """Read a field's name and, behind its colon, the first word of the value."""
        name = self._rest_of_name(start, part)
        if self._text[self._place : self._place + 1] != ":":
            self._fail(start, "a quote touches a word", "put a blank between them, or `:` behind the name of a field")
        self._place += 1
        self._found.append(name)
        if self._at_end():
            self._fail(start, f"there is no value behind `{'.'.join(name.parts)[:60]}:`")
        if name.text == EXISTS:
            place = self._place
            if self._text[place] in "()[]{}:^~":
                self._refuse(place)
            self._found.append(self._rest_of_name(place, self._part()))
        else:
            self._value()

    def _rest_of_name(self, start: int, part: Token) -> Token:
        """Read the whole name that starts with `part`: parts joined by dots."""
        first = part
        parts: list[str] = []
        expects_part = True
        while True:
            if part.kind == "word":
                expects_part = self._add_names(part, parts, after_dot=expects_part)
            else:
                parts.append(unescape(part.text) if part.kind == "quoted" else part.text.replace("``", "`"))
                expects_part = False
            following = self._text[self._place : self._place + 1]
            if not following or following not in ('"`' if expects_part else "."):
                break
            part = self._part()
        if expects_part:
            self._fail(self._place, "a part of the field's name is missing", _ODD_DOTS)
        return Token("field", self._text[start : self._place], start, first.spaced, tuple(parts))

    def _add_names(self, part: Token, parts: list[str], *, after_dot: bool) -> bool:
        """Take the names of a plain word; return whether it ends in a dot."""
        dots = _ESCAPE.sub("xx", part.text)
        names = _NAME_PART.findall(part.text)
        if ".." in dots or dots.startswith(".") == after_dot:
            self._fail(part.start, "a part of the field's name is missing", _ODD_DOTS)
        parts += map(unescape, names)
        return dots.endswith(".")

    def _value(self) -> None:
        """Read the token behind a colon."""
        start = self._place
        character = self._text[start]
        if character in "([{<>":
            self._clause()
        elif character == '"':
            self._quoted()
        elif character == "/":
            self._regex()
        else:
            self._word(_VALUE)
            if self._found[-1].is_word("IN") and not self._at_end() and self._text[self._place] == "[":
                self._add("symbol", "[", self._place + 1)
                self._brackets(_ITEM)

    def _word(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._place)
        if match is None:
            self._refuse(self._place)
        self._add("word", match.group(), match.end())

    def _quoted(self) -> None:
        match = _QUOTED.match(self._text, self._place)
        if match is None:
            self._refuse(self._place)
        self._add("quoted", match[1], match.end())

    def _regex(self) -> None:
        match = _REGEX.match(self._text, self._place)
        if match is None:
            self._refuse(self._place)
        self._add("regex", match[1], match.end())

    def _is_spaced(self) -> bool:
        return self._place in (0, self._after_space)

    def _add(self, kind: str, text: str, end: int) -> None:
        self._found.append(Token(kind, text, self._place, self._is_spaced()))
        self._place = end

    def _refuse(self, place: int) -> NoReturn:
        character = self._text[place]
        if character in '"`':
            self._fail(place, "a quote is left open", f"write `\\{character}` for a quote that is text")
        if character == "/":
            self._fail(
                place, "a regular expression is not closed", 'it starts and ends with `/`: quote a path, as in `"/var"`'
            )
        if character == "\\":
            self._fail(place, "a backslash is at the end", "write `\\\\` for a backslash that is text")
        self._fail(place, f"`{character}` is not understood here", f"write `\\{character}` where it is text")

    def _fail(self, place: int, reason: str, hint: str | None = None) -> NoReturn:
        fail(self._text, place, reason, hint)
