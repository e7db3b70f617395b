"""What is fuzzed: a target names itself, makes inputs and judges what became of one.

An input ends in one of three ways: an *answer*, which the target has checked; a *documented* error, one of those that
the target names; or a *violation*, which is anything else: another exception, a wrong answer, a crash, a hang, memory
without bounds. A `Wrong` answer is a violation that the target itself has found.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple


class WrongError(AssertionError):
    """An answer that is not right."""


class Target(NamedTuple):
    """`make` gives an input, `use` reads it as the product would, and raises nothing but `errors`. `weight` is how many
    inputs of it are worth one of others: those that start processes or write files are slow. `known` are words of a
    library that ends the process, by which the limits in SECURITY.md are told from crashes that nobody knows of."""

    name: str
    make: Callable[[random.Random], bytes]
    use: Callable[[bytes], None]
    errors: tuple[type[BaseException], ...]
    weight: float = 1.0
    known: tuple[str, ...] = ()


def input_of(target: Target, seed: int, number: int) -> bytes:
    """The input of that number, the same for the same seed for ever."""
    return target.make(random.Random(f"{seed}/{target.name}/{number}"))


def judge(target: Target, data: bytes) -> str:
    """`answer` or `documented`; everything else is raised."""
    try:
        target.use(data)
    except target.errors:
        return "documented"
    return "answer"


def need(condition: object, what: str) -> None:
    """Call an answer wrong unless something holds of it."""
    if not condition:
        raise WrongError(what)
