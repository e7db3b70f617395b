"""Parsing of a statement by the grammar, into a `Command`."""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Callable
from typing import Any, NoReturn

import lark

from indextables.clock import parse_timestamp_ms
from indextables.commands.lexer import Statement, StatementLexer
from indextables.commands.parse import Command, Target
from indextables.commands.syntax_errors import mistake, unexpected
from indextables.config.values import BadValueError, Size
from indextables.predicate.parse import parse_tokens
from indextables.predicate.words import Token

_Tree = lark.Tree[lark.Token]

_FORMAT = "INDEXTABLES"
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_DIGITS = 18
_SIZE = Size(low=1)


def read_statement(text: str, tokens: list[Token]) -> Command:
    """Parse a statement; a `QueryError` shows the position of a mistake."""
    statement = Statement(text, tokens)
    try:
        (tree,) = _grammar().parse(statement).children
    except lark.UnexpectedToken as error:
        raise unexpected(statement, error.token, error.accepts or set()) from None
    return _Reader(statement).command(tree)


@functools.cache
def _grammar() -> lark.Lark:
    text = importlib.resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return lark.Lark(text, parser="lalr", lexer=StatementLexer, propagate_positions=True)


class _Reader:
    """Reads the tree of one statement."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement

    def command(self, tree: Any) -> Command:
        target: Target | None = None
        arguments: dict[str, Any] = {}
        for part in tree.children:
            name = str(part.data)
            if name == "target":
                target = self._target(part)
            elif name in arguments:
                self._fail("this clause is given twice", part.meta.start_pos)
            else:
                arguments[name] = _CLAUSES[name](self, part)
        return Command(str(tree.data), target, arguments, self._statement.text)

    def _target(self, tree: _Tree) -> Target:
        parts = _tokens(tree)
        place = _start(parts[0])
        for part in parts:
            if not part:
                self._fail(f"{'the path' if part.type == 'PATH' else 'a name'} is empty", _start(part))
        if parts[0].type == "PATH":
            return Target(str(parts[0]), is_path=True, place=place)
        first, last = parts[0], parts[-1]
        if len(parts) == 2 and first.upper() == _FORMAT and last.type == "QUOTED" and "/" in last:
            return Target(str(last), is_path=True, place=place)
        return Target(".".join(map(_spelled, parts)), is_path=False, place=place)

    def _age(self, tree: _Tree) -> str:
        number, unit = _tokens(tree)
        return f"{self._whole(number, 0)} {unit.type.lower()}"

    def _where(self, tree: _Tree) -> str:
        (predicate,) = _tokens(tree)
        start, end = _start(predicate), predicate.end_pos or 0
        inside = [token for token in self._statement.tokens if start <= token.start < end and not token.is_end]
        parse_tokens(self._statement.text, [*inside, Token("end", "", end, end)])
        return str(predicate)

    def _size(self, tree: _Tree) -> int:
        (token,) = _tokens(tree)
        try:
            return _SIZE.read(str(token))
        except BadValueError:
            self._fail(f"`{token}` is not {_SIZE.expected}", _start(token))

    def _moment(self, tree: _Tree) -> str:
        (token,) = _tokens(tree)
        try:
            parse_timestamp_ms(str(token))
        except ValueError as error:
            self._fail(f"`{token}` is not a timestamp ({error})", _start(token))
        return str(token)

    def _text(self, tree: _Tree) -> str:
        (token,) = _tokens(tree)
        if not token:
            self._fail("the path is empty", _start(token))
        return str(token)

    def _texts(self, tree: _Tree) -> list[str]:
        return [self._text(tree)]

    def _number(self, tree: _Tree, low: int) -> int:
        (token,) = _tokens(tree)
        return self._whole(token, low)

    def _whole(self, token: lark.Token, low: int) -> int:
        is_whole = token.isascii() and token.isdigit() and len(token) <= _MOST_DIGITS
        if not is_whole or int(token) < low:
            self._fail(f"`{token}` is not a whole number of at least {low}", _start(token))
        return int(token)

    def _fail(self, reason: str, place: int) -> NoReturn:
        raise mistake(self._statement, reason, place) from None


def _tokens(tree: _Tree) -> list[lark.Token]:
    return [child for child in tree.children if isinstance(child, lark.Token)]


def _start(token: lark.Token) -> int:
    return token.start_pos or 0


def _spelled(part: lark.Token) -> str:
    """Return a part of a name as Spark reads it."""
    if part.type == "NAME" or _PLAIN_NAME.fullmatch(part):
        return str(part)
    return "`" + part.replace("`", "``") + "`"


def _flag(reader: _Reader, tree: _Tree) -> bool:
    return True


_CLAUSES: dict[str, Callable[[_Reader, _Tree], Any]] = {
    "older_than": _Reader._age,
    "log_retention": _Reader._age,
    "dry_run": _flag,
    "include_all": _flag,
    "limit": functools.partial(_Reader._number, low=1),
    "target_url": _Reader._text,
    "where": _Reader._where,
    "splits": _Reader._texts,
    "target_size": _Reader._size,
    "max_dest_splits": functools.partial(_Reader._number, low=1),
    "max_source_splits_per_merge": functools.partial(_Reader._number, low=2),
    "version": functools.partial(_Reader._number, low=0),
    "timestamp": _Reader._moment,
}
