"""A command as a plain value: what was asked for, of which table, and the statement that said so."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The table that a command is about: a path or URL, or a name to be looked up. `place` is where it stands in the
    statement."""

    text: str
    is_path: bool
    place: int


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """One of `COMMANDS` by name, with the arguments that the method of the same name takes."""

    name: str
    target: Target | None
    arguments: Mapping[str, Any]
    text: str
