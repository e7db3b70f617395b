"""Kinds of values of a setting, and their parsers.

Every kind is a frozen value that reads a user's value (text from Spark, SQL or a table's properties, or a Python value)
and either returns one typed value inside its bounds or raises `BadValueError`. It neither guesses nor clips. A
`BadValueError` has no text of the value, so that it cannot reveal a secret.
"""

from __future__ import annotations

import datetime
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Literal, TypeVar

T_co = TypeVar("T_co", covariant=True)

DurationUnit = Literal["ms", "seconds", "hours"]


class BadValueError(ValueError):
    """A value is not of this kind, or is outside its bounds."""


class Kind(Generic[T_co]):
    """One kind of value.

    `read` parses a value, `expected` describes it for messages, `show` writes it as text.
    """

    @property
    def expected(self) -> str:
        """Description of a value, to follow the word *expected*."""
        raise NotImplementedError

    @property
    def unit(self) -> str | None:
        """Unit of a bare number."""
        return None

    def read(self, raw: object) -> T_co:
        """Return the typed value, or raise `BadValueError`."""
        raise NotImplementedError

    def show(self, value: object) -> str:
        """Return the value as a user writes it; `read` parses it to the same value."""
        return str(value)


@dataclass(frozen=True)
class Bool(Kind[bool]):
    """`true` or `false`, in the common spellings."""

    @property
    def expected(self) -> str:
        return "`true` or `false`"

    def read(self, raw: object) -> bool:
        word = raw.strip().lower() if isinstance(raw, str) else raw
        if isinstance(word, str | int) and word in (True, "true", "1", "yes"):
            return True
        if isinstance(word, str | int) and word in (False, "false", "0", "no"):
            return False
        raise BadValueError

    def show(self, value: object) -> str:
        return str(value).lower()


@dataclass(frozen=True)
class Int(Kind[int]):
    """A whole number."""

    low: int | None = None
    high: int | None = None

    @property
    def expected(self) -> str:
        return "a whole number" + _bounds(self.low, self.high)

    def read(self, raw: object) -> int:
        return _whole_within(_whole(raw), self.low, self.high)


@dataclass(frozen=True)
class Float(Kind[float]):
    """A finite number, in decimal notation."""

    low: float | None = None
    high: float | None = None

    @property
    def expected(self) -> str:
        return "a number" + _bounds(self.low, self.high)

    def read(self, raw: object) -> float:
        if isinstance(raw, str) and _NUMBER.fullmatch(raw.strip()):
            raw = float(raw.strip())
        # NaN, infinities and whole numbers too large for a float all fail the comparison.
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not abs(raw) <= sys.float_info.max:
            raise BadValueError
        if (self.low is not None and raw < self.low) or (self.high is not None and raw > self.high):
            raise BadValueError
        return float(raw)


@dataclass(frozen=True)
class Size(Kind[int]):
    """A number of bytes; units are binary, so `1K`, `1KB` and `1KiB` are all 1024."""

    low: int | None = None
    high: int | None = None

    @property
    def expected(self) -> str:
        low, high = (None if bound is None else self.show(bound) for bound in (self.low, self.high))
        return f"a size{_bounds(low, high)}, in bytes or such as `100M` or `1G`"

    @property
    def unit(self) -> str:
        return "bytes"

    def read(self, raw: object) -> int:
        if not isinstance(raw, str):
            return _whole_within(_whole(raw), self.low, self.high)
        match = _SIZE.fullmatch(raw.strip())
        if match is None:
            raise BadValueError
        whole, fraction, letter = match["whole"], match["fraction"] or "", (match["letter"] or "").upper()
        if fraction and not letter:
            raise BadValueError
        # A float is not exact above 2**53.
        exact = Fraction(f"{whole}.{fraction or 0}") * _SIZE_UNITS[letter]
        return _whole_within(math.floor(exact), self.low, self.high)

    def show(self, value: object) -> str:
        if isinstance(value, int) and value > 0:
            for letter, factor in reversed(_SIZE_UNITS.items()):
                if value % factor == 0:
                    return f"{value // factor}{letter}"
        return str(value)


@dataclass(frozen=True)
class Duration(Kind[int]):
    """A span of time as a whole number of the setting's own unit.

    A bare number is in the same unit.
    """

    own_unit: DurationUnit
    low: int | None = 0
    high: int | None = None

    @property
    def expected(self) -> str:
        example = {"ms": "500ms` or `30d", "seconds": "30s` or `5 minutes", "hours": "12h` or `7 days"}[self.own_unit]
        return f"a duration{_bounds(self.low, self.high)}, in whole {self._plural} or such as `{example}`"

    @property
    def unit(self) -> str:
        return self.own_unit

    def read(self, raw: object) -> int:
        if isinstance(raw, datetime.timedelta):
            return self._in_own_unit(raw // datetime.timedelta(microseconds=1), 1)
        if not isinstance(raw, str):
            return _whole_within(_whole(raw), self.low, self.high)
        match = _DURATION.fullmatch(raw.strip())
        if match is None:
            raise BadValueError
        word = match["unit"].lower() or self.own_unit
        if word not in _MICROSECONDS:
            raise BadValueError
        return self._in_own_unit(int(match["number"]), _MICROSECONDS[word])

    def _in_own_unit(self, number: int, microseconds: int) -> int:
        value, rest = divmod(number * microseconds, _MICROSECONDS[self.own_unit])
        # `90m` for a setting in hours: rounding a retention either way would be a guess.
        if rest:
            raise BadValueError
        return _whole_within(value, self.low, self.high)

    @property
    def _plural(self) -> str:
        return "milliseconds" if self.own_unit == "ms" else self.own_unit


@dataclass(frozen=True)
class Choice(Kind[str]):
    """One of a few words, converted to lower case."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(f"`{word}`" for word in self.words)

    def read(self, raw: object) -> str:
        word = raw.strip().lower() if isinstance(raw, str) else None
        if word not in self.words:
            raise BadValueError
        return word


@dataclass(frozen=True)
class Names(Kind[tuple[str, ...]]):
    """Names separated by commas, in order and without duplicates.

    A name with a comma or with white space around it needs a Python list or tuple.
    """

    @property
    def expected(self) -> str:
        return "names separated by commas"

    def read(self, raw: object) -> tuple[str, ...]:
        if isinstance(raw, str):
            names: Sequence[object] = [part.strip() for part in raw.split(",")] if raw.strip() else []
        elif isinstance(raw, list | tuple):
            names = raw
        else:
            raise BadValueError
        texts = [name for name in names if isinstance(name, str) and name]
        if len(texts) != len(names):
            raise BadValueError
        return tuple(dict.fromkeys(texts))

    def show(self, value: object) -> str:
        return ",".join(value) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class Text(Kind[str]):
    """Text that is not empty, without white space around it; also a path object."""

    @property
    def expected(self) -> str:
        return "text that is not empty"

    def read(self, raw: object) -> str:
        if isinstance(raw, os.PathLike):
            raw = os.fspath(raw)
        if not isinstance(raw, str) or not raw.strip():
            raise BadValueError
        return raw.strip()


@dataclass(frozen=True)
class Maybe(Kind[T_co | None]):
    """Another kind, or one word (`auto`, `all`, `none`) that means no value."""

    inner: Kind[T_co]
    word: str

    @property
    def expected(self) -> str:
        return f"{self.inner.expected}, or `{self.word}`"

    @property
    def unit(self) -> str | None:
        return self.inner.unit

    def read(self, raw: object) -> T_co | None:
        if isinstance(raw, str) and raw.strip().lower() == self.word:
            return None
        return self.inner.read(raw)

    def show(self, value: object) -> str:
        return self.word if value is None else self.inner.show(value)


# Longer digit strings are out of bounds, and int() raises its own error for very long ones.
_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d{1,300}(\.\d{0,300})?|\.\d{1,300})(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_SIZE = re.compile(
    r"(?P<whole>\d{1,19})(\.(?P<fraction>\d{1,9}))?\s*((?P<letter>[kmgt])(i?b)?|b)?", re.ASCII | re.IGNORECASE
)
_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DURATION = re.compile(r"(?P<number>\d{1,19})\s*(?P<unit>[a-z]*)", re.ASCII | re.IGNORECASE)
_MICROSECONDS = {
    spelling: factor
    for factor, spellings in {
        1_000: "ms milli millis millisecond milliseconds",
        1_000_000: "s sec secs second seconds",
        60_000_000: "m min mins minute minutes",
        3_600_000_000: "h hr hrs hour hours",
        86_400_000_000: "d day days",
        604_800_000_000: "w week weeks",
    }.items()
    for spelling in spellings.split()
}

# Spark, Arrow and the log store whole numbers in 64 bits.
_LARGEST = (1 << 63) - 1


def _whole(raw: object) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and _WHOLE.fullmatch(raw.strip()):
        return int(raw.strip())
    raise BadValueError


def _whole_within(value: int, low: int | None, high: int | None) -> int:
    if not (-_LARGEST if low is None else low) <= value <= (_LARGEST if high is None else high):
        raise BadValueError
    return value


def _bounds(low: object, high: object) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" of at least {low}"
    return "" if high is None else f" of at most {high}"
