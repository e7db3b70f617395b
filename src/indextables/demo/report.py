"""Output of the demo: titles, tables and timings, for terminals and pipes."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from indextables.clock import SYSTEM_CLOCK

_WIDTH_IN_A_PIPE = 100
_BAR_WIDTH = 30
_FOUND = re.compile(r"<b>(.*?)</b>")

_Answer = TypeVar("_Answer")


class Report:
    """The demo's output on standard output; only a terminal shows progress."""

    def __init__(self) -> None:
        self.is_live = sys.stdout.isatty()
        width = None if self.is_live or "COLUMNS" in os.environ else _WIDTH_IN_A_PIPE
        self.console = Console(highlight=False, markup=False, emoji=False, width=width)
        self._is_below_table = False

    def title(self, text: str) -> None:
        self._is_below_table = False
        self.console.print()
        self.console.rule(Text(text, style="bold"), align="left")

    def say(self, text: str, style: str = "") -> None:
        self._is_below_table = False
        self.console.print(Text(text, style=style))

    def code(self, *lines: str) -> None:
        """Print lines to copy; they are never folded."""
        self._leave_table()
        self.console.print(Text("\n".join(lines), style="green"), soft_wrap=True)

    def rows(self, table: pa.Table) -> None:
        """Print an Arrow table; found words in a `_snippet` are highlighted."""
        kinds = {field.name: field.type for field in table.schema}
        self.table(
            [(name, pa.types.is_integer(kind) or pa.types.is_floating(kind)) for name, kind in kinds.items()],
            [[_cell(name, value) for name, value in row.items()] for row in table.to_pylist()],
        )

    def table(self, columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str | Text]]) -> None:
        """Print a table; a column is its title, and whether it holds numbers."""
        shown = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for name, is_number in columns:
            shown.add_column(Text(name), justify="right" if is_number else "left", overflow="fold")
        for row in rows:
            shown.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
        self._leave_table()
        self.console.print(shown)
        self._is_below_table = True

    def _leave_table(self) -> None:
        """Print an empty line after a table."""
        if self._is_below_table:
            self.console.print()
        self._is_below_table = False

    def bar(self, value: int, greatest: int) -> str:
        """Return a bar whose length is proportional to the value."""
        mark = "#" if self.console.options.ascii_only else "█"
        return mark * round(_BAR_WIDTH * value / max(greatest, 1))

    def timed(self, done: str, work: Callable[[], _Answer]) -> _Answer:
        """Run some work, and print how long it took."""
        with self.busy(done):
            answer, seconds = timed(work)
        self._leave_table()
        self.say(f"{done} ({duration(seconds)})", style="cyan")
        return answer

    @contextlib.contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """Show that some work is running."""
        if not self.is_live:
            yield
            return
        with self.console.status(Text(text)):
            yield

    @contextlib.contextmanager
    def progress(self, total: int) -> Iterator[Callable[[str], None]]:
        """Yield a function that names each starting step; show a bar over `total` steps."""
        bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(_BAR_WIDTH),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.is_live,
        )
        task = bar.add_task("", total=total)
        begun = 0

        def begin(step: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=step)
            begun += 1

        with bar:
            yield begin


def timed(work: Callable[[], _Answer]) -> tuple[_Answer, float]:
    """Run some work, and return its result and its seconds."""
    started = SYSTEM_CLOCK.monotonic()
    answer = work()
    return answer, SYSTEM_CLOCK.monotonic() - started


def duration(seconds: float) -> str:
    """Return a duration such as `45 ms` or `2.1 s`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _cell(name: str, value: Any) -> Text:
    if value is None:
        return Text("-")
    if isinstance(value, bool | str):
        return _marked(str(value)) if name == "_snippet" else Text(str(value))
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.2f}")
    if isinstance(value, datetime.datetime):
        return Text(f"{value:%Y-%m-%d %H:%M:%S}")
    return Text(str(value))


def _marked(snippet: str) -> Text:
    parts = _FOUND.split(snippet)
    return Text.assemble(*((part, "bold red") if at % 2 else part for at, part in enumerate(parts)))
