"""Where the demo puts its table. What it did not make itself is never removed."""

from __future__ import annotations

import os
import shutil

from indextables.errors import ConfigError, IndexTablesError
from indextables.protocol.names import LOG_DIRECTORY
from indextables.store.url import parse_location
from indextables.transaction_log import TransactionLog

NAME = "indextables demo"
"""The name of the table, by which a later demo knows that it may make it anew."""


def make_room(place: str) -> str:
    """The path of a directory for the table, with an earlier demo's removed. A `ConfigError` where anything else is."""
    location = parse_location(place)
    if location.family != "file":
        raise ConfigError(
            f"cannot put the demo at `{location.url}` because its table is made on this machine",
            hint="name a directory, as in `indextables demo /tmp/logs`",
        )
    path = location.path
    if not os.path.lexists(path) or _holds_no_file(path):
        return path
    if not _is_of_demo(path):
        raise ConfigError(
            f"cannot put the demo at `{path}` because something is there that it did not make",
            hint="name another directory, as in `indextables demo /tmp/logs`",
        )
    # The log last: until it goes, what is left is known as the demo's.
    for name in sorted(os.listdir(path), key=lambda name: name == LOG_DIRECTORY):
        shutil.rmtree(os.path.join(path, name))
    return path


def _holds_no_file(path: str) -> bool:
    """Whether a directory has nothing in it but directories, as where somebody made it for the demo."""
    return os.path.isdir(path) and not any(files for _, _, files in os.walk(path))


def _is_of_demo(path: str) -> bool:
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    with os.scandir(path) as entries:
        if not all(entry.is_dir(follow_symlinks=False) and _is_name_of_demo(entry.name) for entry in entries):
            return False
    try:
        return TransactionLog(path).metadata().name == NAME
    except IndexTablesError:
        return False


def _is_name_of_demo(name: str) -> bool:
    return name == LOG_DIRECTORY or name.startswith("day=")
