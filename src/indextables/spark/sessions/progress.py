"""Progress of Spark jobs in a notebook.

Spark's own bar only reaches the kernel's terminal.
"""

from __future__ import annotations

import sys
import threading
from typing import Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext, StatusTracker

_SECONDS_BETWEEN_LOOKS = 0.5
_WIDTH = 30


class Shell(Protocol):
    """The used part of IPython's shell."""

    @property
    def events(self) -> Events: ...


class Events(Protocol):
    """The events of a shell."""

    def register(self, event: str, function: object) -> None: ...

    def unregister(self, event: str, function: object) -> None: ...


def notebook_shell() -> Shell | None:
    """Return the shell of this kernel's notebook; None outside of a notebook."""
    if "ipykernel" not in sys.modules:
        return None
    shell: Shell | None = sys.modules["IPython"].get_ipython()
    return shell if hasattr(shell, "kernel") else None


def describe(tracker: StatusTracker) -> str | None:
    """Return one line on the running stages; None if no stage runs."""
    stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
    total = sum(stage.numTasks for stage in stages)
    if not total:
        return None
    done, active = sum(stage.numCompletedTasks for stage in stages), sum(stage.numActiveTasks for stage in stages)
    filled = _WIDTH * done // total
    return f"Spark {'█' * filled}{'░' * (_WIDTH - filled)} {done} of {total} tasks done, {active} running"


class NotebookProgress:
    """A progress line below each cell that runs Spark jobs, until the session ends."""

    def __init__(self, shell: Shell, context: SparkContext) -> None:
        self._shell = shell
        self._context = context
        self._watch: _Watch | None = None

    def install(self) -> None:
        """Start with the running cell."""
        self._shell.events.register("pre_run_cell", self._begin)
        self._shell.events.register("post_run_cell", self._end)
        self._begin()

    def _begin(self, *_: object) -> None:
        if self._context is not SparkContext._active_spark_context:
            self._shell.events.unregister("pre_run_cell", self._begin)
            self._shell.events.unregister("post_run_cell", self._end)
            return
        self._watch = _Watch(self._context.statusTracker())
        self._watch.start()

    def _end(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.finish()
            self._watch = None


class _Watch(threading.Thread):
    """Thread that polls while one cell runs.

    A thread prints to the cell that started it.
    """

    def __init__(self, tracker: StatusTracker) -> None:
        super().__init__(name="indextables-progress", daemon=True)
        self._tracker = tracker
        self._finished = threading.Event()

    def finish(self) -> None:
        self._finished.set()
        self.join()

    def run(self) -> None:
        line = _Line()
        try:
            while not self._finished.wait(_SECONDS_BETWEEN_LOOKS):
                line.show(describe(self._tracker))
        except (Py4JError, OSError):  # the session has stopped or Java has ended; its users get the error
            return
        finally:
            line.show(None)


class _Line:
    """Output that is overwritten in place. A cell without Spark jobs prints nothing."""

    def __init__(self) -> None:
        self._shown: str | None = None
        self._handle: _Handle | None = None

    def show(self, text: str | None) -> None:
        if text == self._shown:
            return
        self._shown = text
        content = {"text/plain": text or ""}
        if self._handle is None:
            self._handle = sys.modules["IPython.display"].display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


class _Handle(Protocol):
    def update(self, content: dict[str, str], *, raw: bool) -> None: ...
