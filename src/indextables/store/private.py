"""Directories of the user's own, for caches that are trusted when they are read again."""

from __future__ import annotations

import os
import stat

from indextables.config import Config, settings


def cache_directory(config: Config, name: str) -> str:
    """Where a cache stands on local disk, by what it holds."""
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(config[settings.CACHE_DISK_PATH] or os.path.join(user_cache, "indextables"), name)


def make_private(directory: str) -> None:
    """Make a directory that nobody else may write; `PermissionError` where it is not so."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    facts = os.lstat(directory)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o022:
        raise PermissionError(f"{directory} belongs to somebody else, or others may write it")
