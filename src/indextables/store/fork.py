"""The guard against forks: a forked child that inherits a client in use hangs for ever at its first network call.

The client's runtime keeps threads, and a fork copies none of them; one call to any of its stores, even to memory,
starts it. So a process that has used it marks its forked children, and they get an error that says what to do.
"""

from __future__ import annotations

import os

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


os.register_at_fork(after_in_child=_after_fork_in_child)
