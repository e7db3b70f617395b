"""The guard against forks: a forked child that inherits a client in use hangs for ever at its first network call.

The client's runtime keeps threads, and a fork copies none of them; one call to any of its stores, even to memory,
starts it. So a process that has used it marks its forked children, and they get an error that says what to do.

Cached properties work in forked children, too, whatever the threads of the parent were doing.
"""

from __future__ import annotations

import functools
import os
import sys
import threading

from indextables.errors import StorageError

_used = False
_inherited = False


def enter_network(url: str) -> None:
    """Call before every use of the client."""
    global _used  # noqa: PLW0603 - one flag for the process, set once
    if _inherited:
        raise StorageError(
            f"cannot reach `{url}` because this process was forked from one that had used object storage already",
            hint="start workers with the `spawn` or `forkserver` method of multiprocessing",
        )
    _used = True


def _after_fork_in_child() -> None:
    global _inherited  # noqa: PLW0603 - one flag for the process, set once
    _inherited = _inherited or _used
    _renew_cached_properties()


def _renew_cached_properties() -> None:
    """Until Python 3.12 a cached property has one lock for all instances, which a thread that is gone may hold."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "indextables"]
    classes = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    for each in classes:
        for member in vars(each).values():
            if isinstance(member, functools.cached_property) and hasattr(member, "lock"):
                member.lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)
