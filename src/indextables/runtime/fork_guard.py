"""Guard against forks: a forked child that uses an inherited client would hang.

The client's runtime has threads, and a fork copies none of them; the first call to any of its stores, even to memory,
starts it. A process that has used the client marks its forked children, and they raise an error with a hint.
"""

from __future__ import annotations

import os

from indextables.errors import StorageError

_used = False
_inherited = False


def enter_network(url: str) -> None:
    """Refuse network use in a forked child; call before every use of the client."""
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
