"""Definition of a setting: a frozen value with key, kind, default and meaning.

The type of a setting is the type of its value: `config[setting]` of a `Setting[int]` is an `int`. A bad value raises a
`ConfigError` with the key and the expected form; it shows the value unless the setting is a secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from indextables.config.values import (
    BadValueError,
    Bool,
    Choice,
    Duration,
    DurationUnit,
    Float,
    Int,
    Kind,
    Size,
    Text,
)
from indextables.errors import ConfigError

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Setting(Generic[T_co]):
    """One key, without the prefix.

    A `host_only` setting is never read from a table's properties.
    """

    key: str
    kind: Kind[T_co]
    default: T_co
    meaning: str
    aliases: tuple[str, ...] = ()
    secret: bool = False
    host_only: bool = False

    @property
    def unit(self) -> str | None:
        """Unit of a bare number: bytes, ms, seconds, hours."""
        return self.kind.unit

    def parse(self, raw: object, *, given_as: str | None = None) -> T_co:
        """Convert a user's value to the typed value; errors name its place, `given_as`."""
        try:
            return self.kind.read(raw)
        except BadValueError:
            raise _refusal(self.key, self.kind.expected, None if self.secret else raw, given_as) from None


@dataclass(frozen=True)
class Family:
    """Settings of one kind with a key for each field.

    The key is `<key>.<field>`, or `<short>.<field>` if there is a short form.
    """

    key: str
    kind: Kind[str]
    default: str
    meaning: str
    short: str | None = None

    def parse(self, field: str, raw: object, *, given_as: str | None = None) -> str:
        """Convert a user's value for one field."""
        try:
            return self.kind.read(raw)
        except BadValueError:
            raise _refusal(f"{self.key}.{field}", self.kind.expected, raw, given_as) from None


def switch(
    key: str, meaning: str, *, default: bool, aliases: tuple[str, ...] = (), host_only: bool = False
) -> Setting[bool]:
    """Define a setting that is on or off."""
    return Setting(key, Bool(), default, meaning, aliases, host_only=host_only)


def whole(
    key: str, meaning: str, *, default: int, low: int = 1, high: int | None = None, host_only: bool = False
) -> Setting[int]:
    """Define a setting that is a count."""
    return Setting(key, Int(low, high), default, meaning, host_only=host_only)


def ratio(key: str, meaning: str, *, default: float) -> Setting[float]:
    """Define a setting between 0 and 1."""
    return Setting(key, Float(0, 1), default, meaning)


def size(
    key: str, meaning: str, *, default: str, low: str = "1", high: str | None = None, host_only: bool = False
) -> Setting[int]:
    """Define a setting in bytes; the default and bounds are written as sizes."""
    parse = Size().read
    return Setting(
        key, Size(parse(low), None if high is None else parse(high)), parse(default), meaning, host_only=host_only
    )


def duration(
    key: str, meaning: str, *, default: int, unit: DurationUnit, low: int = 0, host_only: bool = False
) -> Setting[int]:
    """Define a setting that is a span of time, as a number of `unit`."""
    return Setting(key, Duration(unit, low), default, meaning, host_only=host_only)


def choice(key: str, meaning: str, *, default: str, others: tuple[str, ...]) -> Setting[str]:
    """Define a setting with a few possible words."""
    return Setting(key, Choice((default, *others)), default, meaning)


def place(key: str, meaning: str, *aliases: str) -> Setting[str | None]:
    """Define a text about storage or credentials.

    None leaves it to the environment and the cloud's own credential chain.
    """
    return Setting(key, Text(), None, meaning, aliases, host_only=True)


def secret(key: str, meaning: str, *aliases: str) -> Setting[str | None]:
    """Define a text that no message, log line or repr may show."""
    return Setting(key, Text(), None, meaning, aliases, secret=True, host_only=True)


def _refusal(key: str, expected: str, raw: object | None, given_as: str | None) -> ConfigError:
    shown = "the given value" if raw is None else f"`{_shown(raw)}`"
    where = "" if given_as is None else f" ({given_as})"
    return ConfigError(f"cannot use {shown} for `{key}`{where}: expected {expected}")


def _shown(raw: object) -> str:
    if isinstance(raw, int) and abs(raw) > _SHOWN_NUMBER:
        return "a very large number"  # Python refuses to format some of them
    text = raw if isinstance(raw, str) and raw.isprintable() else repr(raw)
    return text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "..."


_SHOWN_LENGTH = 80
_SHOWN_NUMBER = 1 << 128
