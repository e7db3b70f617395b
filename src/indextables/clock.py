"""The only source of time and randomness, so that a test can be both the clock and the dice.

`Clock` is what the rest of the library sees; `SystemClock` is the real one. A simulator brings its own: virtual time,
and one seed for every choice.
"""

from __future__ import annotations

import datetime
import random
import time
import uuid
from typing import Protocol


class Clock(Protocol):
    """Time, sleep and chance."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back, for durations and times to live."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def uniform(self) -> float:
        """A number in [0, 1)."""

    def uuid(self) -> str:
        """A fresh UUID as text."""


class SystemClock:
    """The machine's time and randomness."""

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
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def parse_timestamp_ms(text: str) -> int:
    """`2026-01-01` or `2026-01-01T00:00:00+01:00` as milliseconds since 1970; UTC where no zone is given."""
    moment = datetime.datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH) // datetime.timedelta(milliseconds=1)


def format_timestamp_ms(milliseconds: int) -> str:
    """Milliseconds since 1970 as ISO-8601 in UTC, to the millisecond."""
    try:
        moment = _EPOCH + datetime.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms since 1970"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
