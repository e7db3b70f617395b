"""Targets that go wrong on purpose: what the engine must notice."""

from __future__ import annotations

import os
import random
import sys
import time

from tests.fuzz.engine import Target, WrongError


def _bytes(rng: random.Random) -> bytes:
    return bytes([rng.randrange(256)])


def _fail_sometimes(data: bytes) -> None:
    if data[0] % 8 == 0:
        raise KeyError("planted")
    if data[0] % 8 == 1:
        raise ValueError("documented")


def _wrong(data: bytes) -> None:
    raise WrongError("planted")


def _crash(data: bytes) -> None:
    os.abort()


def _hang(data: bytes) -> None:
    time.sleep(1000)


def _eat(data: bytes) -> None:
    bytes(1) + os.urandom(1) * (500 << 20)


def _known_abort(data: bytes) -> None:
    sys.stderr.write("a limit that is known\n")
    sys.stderr.flush()
    os.abort()


TARGETS = (
    Target("planted-error", _bytes, _fail_sometimes, (ValueError,)),
    Target("planted-wrong", _bytes, _wrong, (ValueError,)),
    Target("planted-crash", _bytes, _crash, ()),
    Target("planted-hang", _bytes, _hang, ()),
    Target("planted-memory", _bytes, _eat, ()),
    Target("planted-known", _bytes, _known_abort, (), known=("a limit that is known",)),
)
