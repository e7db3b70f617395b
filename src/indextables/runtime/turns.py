"""Turns of many writers that contend for the next version of one log.

A commit names the version on which its writer began. The versions in between are commits of other writers, so their
number is the number of writers that contend, and every writer reads the same number from the log. A turn is the time
from the look at the newest version to the answer of a put, or the time between two commits if that is longer. A writer
waits until as many turns have passed as writers contend, counted from its own last commit: the writer that waits
longest goes first, and no writer starves.

A writer that has waited for its turn and lost tries again at once, because only few others have their turn. After more
losses there are more writers than estimated: it waits for a random part of a growing number of turns. After many
losses, that number shrinks again, so that the writer that lost most is the next.

Nothing here decides a race: a wrong estimate costs time or a lost put.
"""

from __future__ import annotations

import statistics
import threading
from collections import deque

from indextables.clock import Clock

_REQUESTS_OF_A_TURN = 3
_SHARE_OF_A_TURN = 1.0
_NUM_SAMPLES = 11
_NUM_RATES = 3
_AT_WORK = 2
_LOSSES_WITHOUT_PAUSE = 2
_LEAST_CROWD = 8.0
_PATIENT_FACTOR = 4.0
_JITTER = 0.04


class Turns:
    """Estimates of one open log; threads may share them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waits: deque[int] = deque(maxlen=_NUM_SAMPLES)
        self._turn_seconds: deque[float] = deque(maxlen=_NUM_SAMPLES)
        self._commits_per_second: deque[float] = deque(maxlen=_NUM_RATES)
        self._newest: tuple[int, float] | None = None
        self._own: tuple[int, float] | None = None
        self._others_per_second = 0.0

    def began(self, version: int, began_on: int) -> None:
        """Record a commit of another writer, and the version on which it began.

        Own commits say nothing: a writer that is always faster than the others would take itself for the only one.
        """
        if version > began_on:
            with self._lock:
                self._waits.append(version - began_on)

    def took(self, look_seconds: float | None, put_seconds: float) -> None:
        """Record the duration of a put, and of the look before it if there was one."""
        with self._lock:
            if look_seconds is not None:
                self._turn_seconds.append(look_seconds + put_seconds)
            elif not self._turn_seconds:
                self._turn_seconds.append(_REQUESTS_OF_A_TURN * put_seconds)

    def seen(self, version: int, *, own: bool = False) -> None:
        """Record the newest version; it is `own` if this log has just committed it."""
        now = self._clock.monotonic()
        with self._lock:
            if self._newest is not None and version >= self._newest[0] and now > self._newest[1]:
                others = max(version - self._newest[0] - own, 0)
                self._others_per_second = others / (now - self._newest[1])
                if self._are_gone(others, now - self._newest[1]):
                    self._waits.clear()
            if self._newest is None or version >= self._newest[0]:
                self._newest = (version, now)
            if own:
                if self._own is not None and now > self._own[1]:
                    self._commits_per_second.append((version - self._own[0]) / (now - self._own[1]))
                self._own = (version, now)

    def _are_gone(self, num_commits: int, seconds: float) -> bool:
        """Return True if others commit far less than writers that contend."""
        if not self._waits or not self._turn_seconds:
            return False
        others = statistics.median_low(self._waits) - 1
        expected = min(seconds / max(statistics.median_low(self._turn_seconds), 1e-9), others)
        return others > 0 and expected >= others / 2 and num_commits < expected / 4

    @property
    def contenders(self) -> int:
        """Number of writers that contend, this one included."""
        with self._lock:
            return statistics.median_low(self._waits) if self._waits else 1

    @property
    def is_crowded(self) -> bool:
        """True if a put probably loses, so that further requests beside it pay off."""
        return self.contenders > _AT_WORK

    @property
    def turn_seconds(self) -> float:
        """Duration of one turn; 0 before the first put."""
        with self._lock:
            return _SHARE_OF_A_TURN * statistics.median_low(self._turn_seconds) if self._turn_seconds else 0.0

    def known_since(self, version: int) -> float:
        """Return the time at which a version was seen as the newest; now if it was not."""
        with self._lock:
            newest = self._newest
        return newest[1] if newest is not None and newest[0] == version else self._clock.monotonic()

    def until_turn(self, since: float) -> float:
        """Return the seconds until the turn of a writer that began at `since`."""
        contenders = self.contenders
        seconds = (contenders - 1) * self.turn_seconds
        with self._lock:
            rate = max(self._commits_per_second, default=0.0)
        if rate > 0 and contenders > _AT_WORK:
            seconds = max(seconds, (contenders - _AT_WORK) / rate)
        seconds *= 1 + _JITTER * (self._clock.uniform() - 0.5)
        return max(since + seconds - self._clock.monotonic(), 0.0)

    def is_stale(self, version: int) -> bool:
        """Return True if others have probably committed since a version was the newest."""
        if self.contenders > 1:
            return True
        seconds = self._clock.monotonic() - self.known_since(version)
        return seconds * self._others_per_second > 0.5

    def after_loss(self, num_losses: int) -> float:
        """Return the seconds to wait after so many lost puts of one commit."""
        if num_losses <= _LOSSES_WITHOUT_PAUSE:
            return 0.0
        crowd = max(_LEAST_CROWD, self.contenders / 2)
        grown = 2.0 ** min(num_losses - _LOSSES_WITHOUT_PAUSE - 1, 30)
        turns = min(grown, crowd)
        if grown > _PATIENT_FACTOR * crowd:
            turns = max(crowd * _PATIENT_FACTOR * crowd / grown, 1.0)
        return turns * self.turn_seconds * self._clock.uniform()
