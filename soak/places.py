"""Where a soak's table is and how its processes reach it: passed to them as one JSON argument."""

from __future__ import annotations

import sys
import time
from typing import Any, TypeVar

import msgspec


class Job(msgspec.Struct, frozen=True):
    """What a process of a soak is told."""

    url: str
    options: dict[str, Any]
    name: str
    directory: str
    seconds: float
    seed: int

    def as_argument(self) -> str:
        return msgspec.json.encode(self).decode()


def job_of_this_process(kind: type[_Job]) -> _Job:
    return msgspec.json.decode(sys.argv[1], type=kind)


_Job = TypeVar("_Job", bound=Job)


class Countdown:
    """Time that runs out."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def __bool__(self) -> bool:
        return time.monotonic() < self._end
