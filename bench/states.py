"""`state`: writing the state after a few files were added, against writing it whole.

Each state is written right after the commit that added the files. Writers differ in what they hold of the files that
were there: a handle that stays open has them in memory once it has written a state on them, a new one finds decoded
manifests in a local cache or has none. So the first state after a compaction, whose manifests are all new, is measured
apart from those that follow it. Bytes are those of the files that appear in the log. delta-rs has no incremental
checkpoint; the one that it writes of as many files is measured beside ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import indextables as it
from bench import delta_files, our_files
from bench.harness import THEIRS, Figure, Goal, Setting, Unit, timed_ms

_WHOLE = "ours, written whole"
_THEIR_CHECKPOINT = f"{THEIRS}, its checkpoint"
_OPEN = "handle stays open"
_BYTES_PER_KB = 1_000
_ALWAYS = "1"
_TIME_GOAL = Goal(max_ratio=0.1)
_BYTES_GOAL = Goal(max_ratio=0.02)


class Write(NamedTuple):
    """What writing a checkpoint took."""

    elapsed_ms: float
    num_kb: float


class Writes(NamedTuple):
    """Every checkpoint of a run: ours by writer, those of the open handle that follow its first, and theirs."""

    wholes: dict[str, list[Write]]
    parts: dict[str, list[Write]]
    next_parts: list[Write]
    theirs: list[Write]


class Grower:
    """A copy of a table to which files are added. `stays_open`: by handles that stay open, not by new ones."""

    def __init__(
        self, source: Path, target: Path, num_files: int, options: Mapping[str, str], *, stays_open: bool = False
    ) -> None:
        self._path = our_files.copy_table(source, target)
        self._next = num_files
        self._options = options
        self._stays_open = stays_open
        self._handles: dict[str, it.TransactionLog] = {}

    def incremental(self, num_added: int) -> Write:
        """Add files, and write the state on the one before it, in the background as every handle does."""
        before = self._states()
        return _measured(self._commit(num_added, _ALWAYS).wait_for_checkpoint, before, self._states)

    def whole(self, num_added: int) -> Write:
        """Add files, and write a compacted state."""
        log = self._commit(num_added, our_files.NEVER)
        return _measured(log.checkpoint, self._states(), self._states)

    def list_files(self) -> None:
        """List the files, so that what may be kept of them is kept."""
        self._log(_ALWAYS).list_files()

    def _commit(self, num_added: int, interval: str) -> it.TransactionLog:
        log = self._log(interval)
        log.add_files(map(our_files.add, range(self._next, self._next + num_added)))
        self._next += num_added
        return log

    def _states(self) -> set[Path]:
        log = self._path / "_transaction_log"
        return {*log.glob("manifests/*"), *log.glob("state-v*/*")}

    def _log(self, interval: str) -> it.TransactionLog:
        known = self._handles.get(interval)
        log = known or it.TransactionLog(self._path, options={**self._options, "checkpoint.interval": interval})
        if self._stays_open:
            self._handles[interval] = log
        return log


def _measured(write: Callable[[], object], before: set[Path], list_checkpoints: Callable[[], set[Path]]) -> Write:
    """The time of a call, and the size of the files that were not there before."""
    elapsed_ms = timed_ms(write)
    appeared = list_checkpoints() - before
    if not appeared:
        raise AssertionError("no checkpoint was written")
    return Write(elapsed_ms, sum(path.stat().st_size for path in appeared) / _BYTES_PER_KB)


def run(setting: Setting) -> list[Figure]:
    count, num_added = setting.sizes.num_files, setting.sizes.num_files_added
    setting.say(f"building tables of {count} files")
    source = our_files.shared_table(setting.shared, count)
    cached = our_files.with_cache(setting.directory / "cache")
    growers = {
        _OPEN: Grower(source, setting.directory / "open", count, our_files.WITHOUT_CACHE, stays_open=True),
        "new handle, local cache warm": Grower(source, setting.directory / "warm", count, cached),
        "new handle, no local cache": Grower(source, setting.directory / "cold", count, our_files.WITHOUT_CACHE),
    }
    delta = delta_files.copy_table(delta_files.shared_table(setting.shared, count), setting.directory / "delta")
    writes = Writes({name: [] for name in growers}, {name: [] for name in growers}, [], [])
    for number in range(setting.sizes.num_rounds):
        for name, grower in growers.items():
            setting.say(f"round {number + 1} of {setting.sizes.num_rounds}: {name}")
            writes.wholes[name].append(grower.whole(num_added))
            grower.list_files()
            writes.parts[name].append(grower.incremental(num_added))
        writes.next_parts.append(growers[_OPEN].incremental(num_added))
        numbers = range(count + number * num_added, count + (number + 1) * num_added)
        writes.theirs.append(_their_checkpoint(delta, numbers))
    return _figures(f"state: {num_added} files added to {count}", writes)


def _their_checkpoint(path: Path, numbers: range) -> Write:
    table = delta_files.open_table(path)
    delta_files.commit(table, numbers)

    def checkpoints() -> set[Path]:
        return set((path / "_delta_log").glob("*.checkpoint*"))

    return _measured(table.create_checkpoint, checkpoints(), checkpoints)


def _figures(title: str, writes: Writes) -> list[Figure]:
    ours = {
        f"{_OPEN}, one after another": (writes.next_parts, writes.wholes[_OPEN]),
        **{f"{name}, after a compaction": (writes.parts[name], writes.wholes[name]) for name in writes.parts},
    }
    times = [
        Figure(f"{title}, {name}", _times(parts), _times(wholes), _TIME_GOAL, yardstick=_WHOLE)
        for name, (parts, wholes) in ours.items()
    ]
    name, (parts, wholes) = next(iter(ours.items()))
    sizes, theirs = f"{title}, bytes", writes.theirs
    return [
        *times,
        Figure(f"{title}, {name}", _times(parts), _times(theirs), Goal(), yardstick=_THEIR_CHECKPOINT),
        Figure(sizes, _sizes(parts), _sizes(wholes), _BYTES_GOAL, yardstick=_WHOLE, unit=Unit.KB),
        Figure(sizes, _sizes(parts), _sizes(theirs), Goal(), yardstick=_THEIR_CHECKPOINT, unit=Unit.KB),
    ]


def _times(writes: list[Write]) -> list[float]:
    return [write.elapsed_ms for write in writes]


def _sizes(writes: list[Write]) -> list[float]:
    return [write.num_kb for write in writes]
