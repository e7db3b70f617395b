"""Private directories of the user, for caches that are trusted on reading."""

from __future__ import annotations

import os
import stat

from indextables.config import Config, settings


def cache_directory(config: Config, name: str) -> str:
    """Return the local directory of the cache with this name."""
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(config[settings.CACHE_DISK_PATH] or os.path.join(user_cache, "indextables"), name)


def make_private(directory: str) -> None:
    """Create a directory writable by this user only, or raise `PermissionError`."""
    if not os.path.isdir(directory):
        os.makedirs(directory, mode=0o700, exist_ok=True)
    if not is_private(directory):
        raise PermissionError(f"{directory} is owned by another user, or other users may write to it")


def is_private(directory: str) -> bool:
    """Return whether a directory is writable by this user only, and no link."""
    facts = os.lstat(directory)
    is_own = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
    return is_own and not stat.S_IMODE(facts.st_mode) & 0o022
