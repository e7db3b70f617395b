"""Search operators in SQL text, rewritten to function calls that Spark knows.

`message TEXTSEARCH 'q'` becomes `textsearch(message, 'q')`.

`TEXTSEARCH`, `FIELDMATCH` and `indexquery` are operators only between a column, or a star, and a string or a parameter.
Elsewhere they are ordinary names. The rest of the text stays unchanged, byte for byte.

A template is text with frames and values in braces, for `SparkSession.sql` with keyword arguments.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from indextables.errors import QueryError
from indextables.location import redact
from indextables.predicate.source import show_place
from indextables.predicate.words import Token, tokenize

OPERATORS = ("TEXTSEARCH", "FIELDMATCH", "INDEXQUERY")

_ANY_OPERATOR = re.compile("|".join(OPERATORS), re.IGNORECASE)
_CONDITION_STARTS = ("WHERE", "HAVING", "ON", "AND", "OR", "NOT", "WHEN")
# An operand starts after these words; none ends with them.
_NO_OPERANDS = (
    *_CONDITION_STARTS,
    *("SELECT", "DISTINCT", "ALL", "FROM", "JOIN", "USING", "BY", "AS", "VALUES", "LIMIT", "OFFSET", "QUALIFY"),
    *("CASE", "THEN", "ELSE", "IN", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "ESCAPE", "BETWEEN", "DIV", "EXISTS"),
    *("UNION", "EXCEPT", "INTERSECT", "MINUS"),
)
_VALUES = ("NULL", "TRUE", "FALSE", "END")
_ARITHMETIC = ("+", "-", "*", "/", "%", "||", "&", "|", "^", "~", "::", "?::", "[", ".")
_BINDS_TIGHTER = (*_ARITHMETIC, "=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", ":")
_TAKES_OPERANDS = ("DIV", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "FROM", "JOIN", "USING")
# Words that may follow the alias of a condition, as in `SELECT a AND b textsearch FROM t`.
_BEHIND_ALIASES = (
    *("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW"),
    *("UNION", "EXCEPT", "MINUS", "INTERSECT", "LATERAL", "QUALIFY", "IS"),
)


class Edit(NamedTuple):
    """A replacement of a part of a text."""

    start: int
    end: int
    text: str


def rewrite_condition(text: str) -> str:
    """Translate an expression for Spark.

    Text that cannot be split into words stays unchanged, for Spark to refuse.
    """
    if _ANY_OPERATOR.search(text) is None:
        return text
    tokens = split_words(text)
    return text if tokens is None else apply_edits(text, operator_edits(text, tokens, is_condition=True))


def split_words(text: str) -> list[Token] | None:
    """Return the words of a statement; None without words or with an open quote.

    An open comment counts as an open quote.
    """
    try:
        return tokenize(text)
    except QueryError:
        return None


def operator_edits(
    text: str, tokens: Sequence[Token], *, is_template: bool = False, is_condition: bool = False
) -> list[Edit]:
    """Return the edits that turn operators into calls.

    A `QueryError` shows the position of an operator without a valid operand on each side.
    """
    operators = _Operators(text, tokens, is_template, is_condition)
    return [
        edit
        for place, token in enumerate(tokens)
        if token.is_word(*OPERATORS) and not (place and tokens[place - 1].is_symbol("."))
        for edit in operators.edits_at(place)
    ]


def draw_place(text: str, offset: int) -> str:
    """Show a position in a statement; only line and column if the text holds secrets.

    An address in the text may contain a secret.
    """
    drawn = show_place(text, offset)
    return drawn if redact(text) == text else drawn.partition(":\n")[0]


def search_calls(tokens: Sequence[Token]) -> list[Token]:
    """Return the words that call a search function."""
    return [
        token
        for token, following in itertools.pairwise(tokens)
        if token.is_word(*OPERATORS) and following.is_symbol("(")
    ]


def apply_edits(text: str, edits: Iterable[Edit], *, doubles_braces: bool = False) -> str:
    """Apply edits, which do not overlap, to a text.

    With `doubles_braces`, the unchanged text is escaped for a template.
    """
    parts: list[str] = []
    place = 0
    for edit in [*sorted(edits), Edit(len(text), len(text), "")]:
        kept = text[place : edit.start]
        parts += [kept.replace("{", "{{").replace("}", "}}") if doubles_braces else kept, edit.text]
        place = edit.end
    return "".join(parts)


class _Operators:
    def __init__(self, text: str, tokens: Sequence[Token], is_template: bool, is_condition: bool) -> None:
        self._text = text
        self._tokens = tokens
        self._is_template = is_template
        self._is_condition = is_condition

    def edits_at(self, place: int) -> list[Edit]:
        """Return the edits for the word at a position; empty if it is a name."""
        is_negated = place > 0 and self._tokens[place - 1].is_word("NOT")
        last = place - 1 - is_negated
        end = self._end_of_right(place + 1)
        first = self._start_of_left(last)
        if end is None:
            self._check_name(place, first)
            return []
        if first is None:
            self._check_left(place, last)
            return []
        self._check_neighbours(place, first, end)
        operator, left = self._tokens[place], self._tokens[last]
        if left.is_symbol("*") and operator.is_word("FIELDMATCH"):
            self._fail(place, "`*` means all text columns, and `FIELDMATCH` is for columns that are not split")
        opening, closing = ("(NOT ", "))") if is_negated else ("", ")")
        return [
            Edit(self._tokens[first].start, self._tokens[first].start, f"{opening}{operator.text.lower()}("),
            *self._comma(left, self._tokens[place - 1] if is_negated else None, operator),
            Edit(self._tokens[end - 1].end, self._tokens[end - 1].end, closing),
        ]

    def _comma(self, left: Token, negation: Token | None, operator: Token) -> list[Edit]:
        """Replace the operator by a comma; comments around it stay."""
        words = [operator] if negation is None else [negation, operator]
        edits: list[Edit] = []
        place = left.end
        for word in words:
            blank = not self._text[place : word.start].strip()
            edits.append(Edit(place if blank else word.start, word.end, "," if word is operator else ""))
            place = word.end
        return edits

    def _end_of_right(self, place: int) -> int | None:
        """Return the position after strings or a parameter; None if there are none."""
        token = self._tokens[place]
        if token.is_string:
            while self._tokens[place].is_string:
                place += 1
            return place
        if token.is_symbol("?"):
            return place + 1
        if token.is_symbol(":") and self._tokens[place + 1].is_name:
            return place + 2
        if self._is_template and token.is_symbol("{"):
            closing = next((at for at in range(place, len(self._tokens)) if self._tokens[at].is_symbol("}")), None)
            return None if closing is None else closing + 1
        return None

    def _start_of_left(self, last: int) -> int | None:
        """Return the start of the name or star that ends at `last`; None if absent."""
        if last < 0:
            return None
        if self._tokens[last].is_symbol("*"):
            if last and self._tokens[last - 1].is_symbol("."):
                return self._start_of_name(last - 2)
            return None if self._ends_operand(last - 1) else last
        return self._start_of_name(last)

    def _start_of_name(self, last: int) -> int | None:
        token = self._tokens[last]
        first = last
        if self._is_template and token.is_symbol("}"):
            first = next((at for at in range(last, -1, -1) if self._tokens[at].is_symbol("{")), last)
        elif not token.is_name or token.is_word(*_NO_OPERANDS, *_VALUES):
            return None
        if first >= 2 and self._tokens[first - 1].is_symbol("."):
            longer = self._start_of_name(first - 2)
            return first if longer is None else longer
        return first

    def _ends_operand(self, place: int) -> bool:
        if place < 0:
            return False
        token = self._tokens[place]
        return (token.kind != "symbol" and not token.is_word(*_NO_OPERANDS)) or token.is_symbol(")", "]", "}")

    def _check_left(self, place: int, last: int) -> None:
        """Refuse an operator whose left side is no name.

        A word without a left side is left to Spark: it is the key of an option, or the column of a path such as
        `textsearch:price`.
        """
        is_marked = self._tokens[place + 1].is_symbol(":")
        is_alone = self._is_condition if last < 0 else self._tokens[last].is_word(*_CONDITION_STARTS)
        is_star = last >= 0 and self._tokens[last].is_symbol("*")
        if self._ends_operand(last) or is_star or (is_alone and not is_marked):
            self._fail(place, "expected the name of a column, or `*`, before it")

    def _check_name(self, place: int, first: int | None) -> None:
        """Refuse an operator without a string, where the word cannot be a name."""
        if first is None:
            return
        following = self._tokens[place + 1]
        before = self._tokens[first - 1] if first else None
        is_condition = self._is_condition if before is None else before.is_word(*_CONDITION_STARTS)
        may_be_alias = (
            following.is_end or following.is_symbol(",", ")", ";", "|>") or following.is_word(*_BEHIND_ALIASES)
        )
        if before is not None and before.is_word("WHERE", "HAVING"):
            may_be_alias = False
        if is_condition and not may_be_alias:
            self._fail(place, "expected a string or a parameter after it", following)

    def _check_neighbours(self, place: int, first: int, end: int) -> None:
        """Refuse an operator next to another one that would take a part of its operands."""
        before = self._tokens[first - 1] if first else None
        if before is not None and (before.symbol in _BINDS_TIGHTER or before.is_word(*_TAKES_OPERANDS)):
            self._fail(place, f"it searches a column, and `{before.text}` is before the column", before)
        if self._tokens[end].symbol in _ARITHMETIC:
            following = self._tokens[end]
            self._fail(place, f"it takes one string, and `{following.text}` is after the string", following)

    def _fail(self, place: int, reason: str, at: Token | None = None) -> NoReturn:
        operator = self._tokens[place]
        raise QueryError(
            f"cannot read the operator `{operator.text}`: {reason}, at "
            f"{draw_place(self._text, (at or operator).start)}",
            hint=f"write `message {operator.text} 'words'`, in parentheses within a larger expression",
        )
