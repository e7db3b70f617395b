"""Processes that work for this one."""

from __future__ import annotations

import os
import threading

from indextables.clock import SYSTEM_CLOCK

_SECONDS_BETWEEN_LOOKS = 1


def end_with(parent: int) -> None:
    """End this process soon after its parent.

    The parent may be killed without notice. Its child would wait for work without end.
    """

    def watch() -> None:
        while os.getppid() == parent:
            SYSTEM_CLOCK.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, name="indextables-parent", daemon=True).start()
