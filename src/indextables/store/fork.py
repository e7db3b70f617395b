"""The guard against networks and forks: a forked child that inherits a used network client hangs for ever.

The client's runtime keeps threads, and a fork copies none of them. So a process that has used the network marks its
forked children, and they get an error that says what to do instead of a hang.
"""

from __future__ import annotations

import os

from indextables.errors import StorageError

_used = False
_inherited = False


def enter_network(url: str) -> None:
    """Call before every use of the network."""
    global _used  # noqa: PLW0603 - one flag for the process, set once
    if _inherited:
        raise StorageError(
            f"cannot reach `{url}` because this process was forked from one that had used the network already",
            hint="start workers with the `spawn` or `forkserver` method of multiprocessing",
        )
    _used = True


def _after_fork_in_child() -> None:
    global _inherited  # noqa: PLW0603 - one flag for the process, set once
    _inherited = _inherited or _used


os.register_at_fork(after_in_child=_after_fork_in_child)
