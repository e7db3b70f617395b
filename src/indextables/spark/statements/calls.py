"""Calls of table functions in SQL text: positions and values of arguments.

An argument is a literal, an array of literals, a name, or a parameter with its value; nothing is computed.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

from indextables.errors import QueryError
from indextables.predicate import literals
from indextables.predicate.words import Token
from indextables.spark.statements.operators import draw_place

_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
_IN_FROM = ("FROM", "JOIN", "USING", "TABLE")
_ELSEWHERE = ("SELECT", "WHERE", "HAVING", "BY", "VALUES", "SET", "LIMIT", "QUALIFY")
_FORMAT = "indextables"
_TAKE_NAMES = ("INTO", "OVERWRITE", "TABLE", "DESCRIBE", "DESC", "EXTENDED", "UPDATE", "EXISTS")
_TRAVELS = {
    "VERSION": "version",
    "SYSTEM_VERSION": "version",
    "TIMESTAMP": "timestamp",
    "SYSTEM_TIME": "timestamp",
}
_PLAIN = (str, bool, int, float, Decimal, datetime.date, list, tuple, type(None))


class Name(NamedTuple):
    """The name of a table, view or column: its parts and its text."""

    parts: tuple[str, ...]
    text: str


class Argument(NamedTuple):
    """An argument; `name` is None if positional, `start` is its offset in the text."""

    name: str | None
    value: Any
    start: int


class TableCall(NamedTuple):
    """A call, from `start` to `end` in the text."""

    function: str
    arguments: tuple[Argument, ...]
    start: int
    end: int


class Parameters:
    """The values of parameters: `:name`, `?`, and `{name}` in a template."""

    def __init__(self, args: Any = None, frames: Mapping[str, Any] | None = None) -> None:
        self._args = args
        self._frames = frames or {}
        self._taken: set[int] = set()

    @property
    def is_template(self) -> bool:
        return bool(self._frames)

    def named(self, name: str) -> Any:
        if not isinstance(self._args, Mapping):
            raise LookupError(name)
        return self._args[name]

    def take(self, number: int) -> Any:
        """Return the value of the `?` with this number, and do not pass it to Spark."""
        if not isinstance(self._args, Sequence):
            raise LookupError(number)
        value = self._args[number]
        self._taken.add(number)
        return value

    def framed(self, name: str) -> Any:
        return self._frames[name]

    def left(self) -> Any:
        """Return the values of the parameters that are still in the text, for Spark."""
        if not self._taken:
            return self._args
        return [value for number, value in enumerate(self._args) if number not in self._taken]


def find_calls(
    text: str, tokens: Sequence[Token], functions: Collection[str], parameters: Parameters
) -> list[TableCall]:
    """Return the calls of some functions; `functions` are in lower case."""
    found = []
    place = 0
    while not tokens[place].is_end:
        token = tokens[place]
        is_called = token.kind == "word" and token.text.lower() in functions and tokens[place + 1].is_symbol("(")
        if is_called and not (place and tokens[place - 1].is_symbol(".")):
            reader = _CallReader(text, tokens, place, parameters)
            found.append(reader.read())
            place = reader.place
        else:
            place += 1
    return found


def find_paths(text: str, tokens: Sequence[Token]) -> list[TableCall]:
    """Return tables that a statement reads by path, as calls of `indextables_table`.

    An example is ``FROM indextables.`/data/logs` VERSION AS OF 3``.
    """
    found = []
    for place, token in enumerate(tokens[:-2]):
        is_path = (
            tokens[place + 1].is_symbol(".") and tokens[place + 2].kind == "name" and "/" in tokens[place + 2].text
        )
        if is_path and token.is_name and token.text.lower() == _FORMAT and _stands_for_table(text, tokens, place):
            found.append(_path_call(tokens, place))
    return found


def _stands_for_table(text: str, tokens: Sequence[Token], place: int) -> bool:
    """Return whether a statement reads a path there; refuse any other use of a path."""
    before = tokens[place - 1] if place else tokens[-1]
    is_read = before.is_word("FROM", "JOIN") and not (place > 1 and tokens[place - 2].is_word("DELETE"))
    if not is_read and before.is_word(*_TAKE_NAMES, "FROM"):
        raise QueryError(
            f"cannot do this with a path because Spark reads tables by their paths alone, at "
            f"{draw_place(text, tokens[place].start)}",
            hint=f"name it first, as in `CREATE TABLE t USING {_FORMAT} LOCATION '...'`; save a DataFrame to a path "
            f'by `.write.format("{_FORMAT}").mode("append").save(...)`',
        )
    return is_read


def _path_call(tokens: Sequence[Token], place: int) -> TableCall:
    path, after = tokens[place + 2], place + 3
    arguments = [Argument(None, path.text, path.start)]
    at = after + tokens[after].is_word("FOR")
    kind = _TRAVELS.get(tokens[at].text.upper()) if tokens[at].kind == "word" else None
    is_travel = kind is not None and tokens[at + 1].is_word("AS") and tokens[at + 2].is_word("OF")
    if is_travel and (tokens[at + 3].is_number or tokens[at + 3].is_string):
        moment = tokens[at + 3]
        is_number = kind == "version" and moment.text.isascii() and moment.text.isdigit()
        arguments.append(Argument(kind, int(moment.text) if is_number else moment.text, moment.start))
        after = at + 4
    return TableCall(f"{_FORMAT}_table", tuple(arguments), tokens[place].start, tokens[after - 1].end)


class _CallReader:
    def __init__(self, text: str, tokens: Sequence[Token], place: int, parameters: Parameters) -> None:
        self._text = text
        self._tokens = tokens
        self._parameters = parameters
        self._function = tokens[place]
        self.place = place

    def read(self) -> TableCall:
        self._check_is_table()
        self.place += 2
        arguments: list[Argument] = []
        while not self._take(")"):
            if arguments and not self._take(","):
                self._fail("expected `,` or `)`")
            arguments.append(self._argument())
        return TableCall(
            self._function.text.lower(), tuple(arguments), self._function.start, self._tokens[self.place - 1].end
        )

    def _check_is_table(self) -> None:
        """Refuse a call if the nearest open clause before it takes no tables."""
        depth = 0
        for token in reversed(self._tokens[: self.place]):
            depth += token.is_symbol(")") - token.is_symbol("(")
            if depth <= 0 and token.is_word(*_IN_FROM):
                return
            if depth <= 0 and token.is_word(*_ELSEWHERE):
                break
            depth = max(depth, 0)
        self._fail(
            f"`{self._function.text}` returns a table, and no table is expected",
            hint=f"write it after `FROM` or `JOIN`, as in `FROM {self._function.text}(...)`",
        )

    def _argument(self) -> Argument:
        token, following = self._peek(), self._peek(1)
        if token.is_name and following.is_symbol("=>"):
            self.place += 2
            return Argument(token.text.lower(), self._value(), token.start)
        return Argument(None, self._value(), token.start)

    def _value(self) -> Any:
        token, following = self._peek(), self._peek(1)
        if token.is_string:
            return self._string()
        if token.is_number or token.is_symbol("-", "+", "."):
            return self._number()
        if token.is_symbol(":", "?", "{"):
            return self._parameter()
        if token.is_word(*_CONSTANTS) and not following.is_symbol(".", "("):
            self.place += 1
            return _CONSTANTS[token.text.upper()]
        if token.is_word(*_TIMES) and following.is_string:
            self.place += 1
            return self._time(token.text.upper())
        if token.is_word("ARRAY") and following.is_symbol("("):
            return self._array()
        if token.is_name:
            return self._name()
        return self._fail("expected a literal, a name or a parameter")

    def _string(self) -> str:
        """Read a string; adjacent strings are one, and a template doubles braces."""
        start, found = self.place, ""
        while self._peek().is_string:
            found += self._peek().text
            self.place += 1
        if not self._parameters.is_template:
            return found
        plain = found.replace("{{", "").replace("}}", "")
        if "{" in plain or "}" in plain:
            self.place = start
            self._fail("braces in the arguments of a table function must be doubled if frames are given")
        return found.replace("{{", "{").replace("}}", "}")

    def _number(self) -> Any:
        start, spelled = self.place, ""
        while self._peek().is_symbol("-", "+", "."):
            spelled += self._peek().text
            self.place += 1
        spelled += self._peek().text
        self.place += 1
        suffix = self._peek(1).text if self._peek().is_symbol("::") else None
        if suffix is not None:
            self.place += 2
        try:
            number = literals.parse_number(spelled)
            return number if suffix is None else literals.cast(number, suffix.upper(), ())
        except ValueError as error:
            self.place = start
            self._fail(str(error))

    def _time(self, kind: str) -> Any:
        start = self.place
        text = self._string()
        try:
            return literals.cast(text, kind, ())
        except ValueError as error:
            self.place = start
            self._fail(str(error))

    def _array(self) -> list[Any]:
        self.place += 2
        found: list[Any] = []
        while not self._take(")"):
            if found and not self._take(","):
                self._fail("expected `,` or `)`")
            found.append(self._value())
        return found

    def _name(self) -> Name:
        first = self._peek()
        parts = [first.text]
        self.place += 1
        while self._peek().is_symbol(".") and self._peek(1).is_name:
            parts.append(self._peek(1).text)
            self.place += 2
        if self._peek().is_symbol("("):
            self._fail("nothing is computed here: expected a literal, a name or a parameter", at=first)
        return Name(tuple(parts), self._text[first.start : self._tokens[self.place - 1].end])

    def _parameter(self) -> Any:
        marker, name = self._peek(), self._peek(1)
        try:
            if marker.is_symbol("?"):
                self.place += 1
                number = sum(token.is_symbol("?") for token in self._tokens[: self.place]) - 1
                value = self._parameters.take(number)
            elif marker.is_symbol(":"):
                self.place += 2
                value = self._parameters.named(name.text)
            else:
                self.place += 3
                value = self._parameters.framed(name.text)
        except LookupError:
            self._fail("no value is given for the parameter", at=marker)
        if not isinstance(value, _PLAIN):
            self._fail(f"the parameter is a `{type(value).__name__}`, and a plain value is needed", at=marker)
        return value

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self.place + ahead, len(self._tokens) - 1)]

    def _take(self, symbol: str) -> bool:
        is_there = self._peek().is_symbol(symbol)
        self.place += is_there
        return is_there

    def _fail(self, reason: str, *, at: Token | None = None, hint: str | None = None) -> NoReturn:
        place = (at or self._peek()).start
        raise QueryError(
            f"cannot read the call of `{self._function.text}` because {reason}, at {draw_place(self._text, place)}",
            hint=hint,
        ) from None
