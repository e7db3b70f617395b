"""The only source of time and randomness, so that tests can control both.

The library uses the protocol `Clock`. `SystemClock` is the real clock. The simulator has its own clock with virtual
time and one seed.
"""

from __future__ import annotations

import datetime
import random
import time
import uuid
from typing import Protocol


class Clock(Protocol):
    """Time, sleep and random values."""

    def now_ms(self) -> int:
        """Return the milliseconds since 1970 in UTC."""

    def monotonic(self) -> float:
        """Return seconds that never go back, for durations and times to live."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def uniform(self) -> float:
        """Return a random number in [0, 1)."""

    def uuid(self) -> str:
        """Return a new UUID as text."""


class SystemClock:
    """Time and randomness of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def uniform(self) -> float:
        return random.random()  # noqa: S311 - jitter, not a secret

    def uuid(self) -> str:
        return str(uuid.uuid4())


SYSTEM_CLOCK = SystemClock()


def timed_uuid(clock: Clock) -> str:
    """Return a new UUID of version 7, which begins with the time in milliseconds.

    Later ones are greater as text, so the bounds of some of them exclude all that are made after them.
    """
    digits = clock.uuid().replace("-", "")
    digits = f"{clock.now_ms() & _MOST_MS:012x}7{digits[13:16]}{int(digits[16], 16) & 3 | 8:x}{digits[17:]}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_MOST_MS = (1 << 48) - 1
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def parse_timestamp_ms(text: str) -> int:
    """Parse ISO-8601 text as milliseconds since 1970; UTC if it names no zone.

    Examples are `2026-01-01` and `2026-01-01T00:00:00+01:00`.
    """
    moment = datetime.datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH) // datetime.timedelta(milliseconds=1)


def format_timestamp_ms(milliseconds: int) -> str:
    """Format milliseconds since 1970 as ISO-8601 in UTC, to the millisecond."""
    try:
        moment = _EPOCH + datetime.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms since 1970"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
