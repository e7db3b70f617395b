"""Parser of SQL conditions: Spark's words and literals, a small grammar.

Every text results in a predicate or a `QueryError` that shows the position of the error, in time proportional to its
length: length and nesting are limited, and the parser reads once from left to right.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn

from indextables.errors import QueryError
from indextables.predicate import literals
from indextables.predicate.source import show_place
from indextables.predicate.values import (
    FLIPPED,
    Always,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
)
from indextables.predicate.words import Token, tokenize

MAX_NESTING = 100

_SUPPORTED = (
    "a predicate compares columns with literals: `=`, `<>`, `<`, `<=`, `>`, `>=`, `<=>`, `IN`, `BETWEEN`, `LIKE`, "
    "`IS NULL`, joined by `AND`, `OR`, `NOT` and parentheses"
)
_COMPARISONS: dict[str, Operator] = {
    "=": "=",
    "==": "=",
    "<>": "<>",
    "!=": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "<=>": "<=>",
}
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "||", "&", "|", "^", "~", "DIV"})
_TEMPORAL = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"})
_RESERVED = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "ESCAPE", "SELECT", "FROM", "CASE", "EXISTS"})
_CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}


def parse_predicate(text: str) -> Predicate:
    """Parse `text` to a predicate, or raise `QueryError` with the position of a fault."""
    if not isinstance(text, str):
        raise QueryError(f"cannot read a predicate from a `{type(text).__name__}`: give SQL text")
    return parse_tokens(text, tokenize(text))


def parse_tokens(text: str, tokens: list[Token]) -> Predicate:
    """Parse tokens of a longer text to a predicate; the last token is an end mark."""
    try:
        return _Parser(text, tokens).parse()
    except RecursionError as error:  # the caller's stack may be deep
        raise QueryError("cannot read the predicate because it is nested too deeply", hint=_SUPPORTED) from error


@dataclasses.dataclass(frozen=True, slots=True)
class _Operand:
    """One side of a comparison: a column, or else a literal."""

    token: Token
    column: Column | None
    value: Value = None


class _Parser:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def parse(self) -> Predicate:
        predicate = self._condition(self._either())
        if not self._peek().is_end:
            self._refuse_rest()
        return predicate

    def _either(self) -> Predicate | _Operand:
        return self._chain("OR", self._both, Or)

    def _both(self) -> Predicate | _Operand:
        return self._chain("AND", self._negation, And)

    def _chain(self, word: str, part: Callable[[], Any], join: type[And | Or]) -> Predicate | _Operand:
        first = part()
        if not self._peek().is_word(word):
            return first  # type: ignore[no-any-return]
        terms = [self._condition(first)]
        while self._take(word):
            terms.append(self._condition(part()))
        return join(tuple(terms))

    def _negation(self) -> Predicate | _Operand:
        num_nots = 0
        while self._peek().is_word("NOT") or self._peek().is_symbol("!"):
            self._advance()
            num_nots += 1
        inner = self._test()
        if num_nots == 0:
            return inner
        condition = self._condition(inner)
        # NULL stays NULL under any number of negations, so only their parity counts.
        return Not(condition) if num_nots % 2 else condition

    def _test(self) -> Predicate | _Operand:
        operand = self._primary()
        token = self._peek()
        if not isinstance(operand, _Operand):
            if token.symbol in _COMPARISONS or token.is_word("IS"):
                self._fail("a condition in parentheses is compared with something", token)
            return operand
        if token.symbol in _COMPARISONS:
            self._advance()
            return self._comparison(operand, _COMPARISONS[token.symbol], self._operand())
        if self._take("IS"):
            return self._is(operand)
        negated = self._peek().is_word("NOT") and self._peek(1).is_word("IN", "BETWEEN", "LIKE")
        if negated:
            self._advance()
        found = self._list_range_or_pattern(operand)
        return Not(self._condition(found)) if negated else found

    def _list_range_or_pattern(self, operand: _Operand) -> Predicate | _Operand:
        if self._take("IN"):
            return self._in(operand)
        if self._take("BETWEEN"):
            low = self._operand()
            self._expect_word("AND")
            high = self._operand()
            return And((self._comparison(operand, ">=", low), self._comparison(operand, "<=", high)))
        if self._take("LIKE"):
            return self._like(operand)
        return operand

    def _comparison(self, left: _Operand, operator: Operator, right: _Operand) -> Predicate:
        if left.column is not None and right.column is not None:
            self._fail("two columns are compared", right.token)
        if left.column is not None:
            return Comparison(left.column, operator, right.value)
        if right.column is not None:
            return Comparison(right.column, FLIPPED[operator], left.value)
        try:
            return Always(literals.compare(left.value, operator, right.value))
        except ValueError as error:
            self._fail(str(error), right.token)

    def _is(self, operand: _Operand) -> Predicate:
        negated = self._take("NOT")
        token = self._peek()
        if self._take("DISTINCT"):
            self._expect_word("FROM")
            found: Predicate = Not(self._comparison(operand, "<=>", self._operand()))
        elif self._take("NULL") and operand.column is not None:
            found = IsNull(operand.column)
        elif token.is_word("NULL"):
            found = Always(operand.value is None)
        elif token.is_word("TRUE", "FALSE"):
            found = self._comparison(operand, "<=>", self._operand())
        else:
            self._fail("`IS` is followed by something other than `NULL`, `TRUE`, `FALSE` or `DISTINCT FROM`", token)
        return Not(found) if negated else found

    def _in(self, operand: _Operand) -> Predicate:
        self._expect("(")
        if self._peek().is_word("SELECT", "WITH"):
            self._fail("a subquery is not supported", self._peek())
        items = [self._operand()]
        while self._peek().is_symbol(","):
            self._advance()
            items.append(self._operand())
        self._expect(")")
        for item in items:
            if item.column is not None:
                self._fail("a list may contain only literals", item.token)
        if operand.column is None:
            return Or(tuple(self._comparison(operand, "=", item) for item in items))
        return In(operand.column, tuple(item.value for item in items))

    def _like(self, operand: _Operand) -> Predicate:
        if operand.column is None:
            self._fail("the left side of `LIKE` is not a column", operand.token)
        token = self._peek()
        pattern = self._operand().value
        if pattern is None:
            return Comparison(operand.column, "=", None)
        if not isinstance(pattern, str):
            self._fail("the pattern of `LIKE` is not a string", token)
        escape: Value = "\\"
        if self._take("ESCAPE"):
            token = self._peek()
            escape = self._operand().value
        if not isinstance(escape, str) or len(escape) != 1:
            self._fail("`ESCAPE` is not followed by one character", token)
        return Like(operand.column, pattern, escape)

    def _operand(self) -> _Operand:
        token = self._peek()
        found = self._primary()
        if not isinstance(found, _Operand):
            self._fail("a condition is found where a column or a literal is expected", token)
        return found

    def _primary(self) -> Predicate | _Operand:
        token = self._peek()
        if token.is_symbol("("):
            return self._parentheses()
        operand = self._literal()
        if operand is None:
            return self._column()
        while self._peek().is_symbol("::"):
            self._advance()
            operand = self._cast(operand)
        return operand

    def _parentheses(self) -> Predicate | _Operand:
        opening = self._advance()
        if self._peek().is_word("SELECT", "WITH"):
            self._fail("a subquery is not supported", self._peek())
        self._descend(opening)
        found = self._either()
        self._expect(")")
        self._depth -= 1
        return found

    def _descend(self, token: Token) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._fail(f"it is nested deeper than {MAX_NESTING} levels", token)

    def _literal(self) -> _Operand | None:
        token = self._peek()
        if token.is_string:
            return _Operand(self._advance(), None, token.text)
        if token.is_number or (token.is_symbol("-", "+", ".") and self._number_follows(token)):
            return self._number(token)
        if token.is_word(*_TEMPORAL) and self._peek(1).is_string:
            self._advance()
            return self._cast(_Operand(self._peek(), None, self._advance().text), token.text.upper())
        if token.is_word("CAST") and self._peek(1).is_symbol("("):
            return self._cast_call()
        if token.is_word(*_CONSTANTS) and not self._peek(1).is_symbol(".", "("):
            return _Operand(self._advance(), None, _CONSTANTS[token.text.upper()])
        return None

    def _number_follows(self, token: Token) -> bool:
        following = self._peek(1)
        if not token.is_symbol(".") and following.is_symbol("."):
            following = self._peek(2)
        return following.is_number

    def _number(self, token: Token) -> _Operand:
        spelled = ""
        while not self._peek().is_number:
            spelled += self._advance().text
        try:
            return _Operand(token, None, literals.parse_number(spelled + self._advance().text))
        except ValueError as error:
            self._fail(str(error), token)

    def _cast_call(self) -> _Operand:
        token = self._advance()
        self._descend(token)
        self._expect("(")
        inner = self._operand()
        self._expect_word("AS")
        found = self._cast(inner)
        self._expect(")")
        self._depth -= 1
        return found

    def _cast(self, operand: _Operand, kind: str | None = None) -> _Operand:
        if operand.column is not None:
            self._fail("a column is cast", operand.token)
        arguments: tuple[int, ...] = ()
        if kind is None:
            token = self._advance()
            if token.kind != "word":
                self._fail("expected the name of a type", token)
            kind = token.text.upper()
            arguments = self._type_arguments()
        try:
            return _Operand(operand.token, None, literals.cast(operand.value, kind, arguments))
        except ValueError as error:
            self._fail(str(error), operand.token)

    def _type_arguments(self) -> tuple[int, ...]:
        if not self._peek().is_symbol("("):
            return ()
        found: list[int] = []
        while not found or self._peek().is_symbol(","):
            self._advance()
            token = self._advance()
            if not (token.is_number and token.text.isascii() and token.text.isdigit() and len(token.text) < 10):
                self._fail("a type's argument is not a whole number", token)
            found.append(int(token.text))
        self._expect(")")
        return tuple(found)

    def _column(self) -> _Operand:
        token = self._peek()
        parts = [self._name()]
        while self._peek().is_symbol("."):
            self._advance()
            parts.append(self._name())
        if self._peek().is_symbol("("):
            self._fail(f"functions such as `{'.'.join(parts)[:60]}(...)` are not supported", token)
        return _Operand(token, Column(tuple(parts)))

    def _name(self) -> str:
        token = self._peek()
        if token.is_end:
            self._fail("it ends where a column or a literal is expected", token)
        if token.is_word(*_RESERVED) or not token.is_name:
            self._fail(f"`{token.text[:60]}` is found where a column or a literal is expected", token)
        return self._advance().text

    def _condition(self, found: Predicate | _Operand) -> Predicate:
        if not isinstance(found, _Operand):
            return found
        if found.column is not None:
            if not (self._peek().is_end or self._peek().is_symbol(")") or self._peek().is_word("AND", "OR")):
                self._refuse_rest()
            return Comparison(found.column, "=", value=True)
        if not (found.value is None or isinstance(found.value, bool)):
            self._fail("a literal is found where a condition is expected", found.token)
        return Always(found.value)

    def _refuse_rest(self) -> NoReturn:
        token = self._peek()
        if token.symbol in _ARITHMETIC or token.is_word("DIV"):
            self._fail("arithmetic is not supported", token)
        self._fail(f"`{token.text[:60]}` is not understood here", token)

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def _advance(self) -> Token:
        token = self._peek()
        self._next += 1
        return token

    def _take(self, word: str) -> bool:
        if not self._peek().is_word(word):
            return False
        self._next += 1
        return True

    def _expect_word(self, word: str) -> None:
        if not self._take(word):
            self._fail(f"`{word}` is missing", self._peek())

    def _expect(self, symbol: str) -> None:
        token = self._peek()
        if token.is_symbol(symbol):
            self._advance()
        elif token.is_end:
            self._fail(f"`{symbol}` is missing at the end", token)
        else:
            self._refuse_rest()

    def _fail(self, reason: str, token: Token) -> NoReturn:
        raise QueryError(
            f"cannot read the predicate because {reason}, at {show_place(self._text, token.start)}", hint=_SUPPORTED
        ) from None
