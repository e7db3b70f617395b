"""`start`: CPU time from the start of a process to its end, imports included.

Each sample is a process of its own, and its user and system time. Byte code is cached by a first run of each side.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import indextables as it
from bench import delta_files, our_files
from bench.harness import THEIRS, Figure, Goal, Setting, Side, alternate

_ENGINES = "import pyarrow, tantivy"
_IMPORT, _HELP, _COUNT, _COLD, _WARM = "import", "--help", "count", "cold", "warm"


def run(setting: Setting) -> list[Figure]:
    programs = _programs(setting)
    sides: dict[str, Side] = {name: _side(program, setting.directory) for name, program in programs.items()}
    setting.say("a first run of each")
    for side in sides.values():
        side(0)
    times = alternate(sides, setting.sizes.num_rounds, setting.say)
    count = setting.sizes.num_files
    listed = f"start: process, import, open and list {count} files"
    theirs, imported = times[THEIRS], times[f"{THEIRS}, {_IMPORT}"]
    return [
        Figure("start: import, CPU", times[_IMPORT], imported, Goal(max_ratio=1.5)),
        Figure("start: `indextables --help`, CPU", times[_HELP], [], Goal(below_ms=250)),
        Figure(
            "start: `indextables count`, CPU", times[_COUNT], times[_ENGINES], Goal(max_ratio=2), yardstick=_ENGINES
        ),
        Figure(f"{listed}, no local cache, CPU", times[_COLD], theirs, Goal(max_ratio=1.2)),
        Figure(f"{listed}, local cache warm, CPU", times[_WARM], theirs, Goal(max_ratio=0.8)),
    ]


def _programs(setting: Setting) -> dict[str, str]:
    count = setting.sizes.num_files
    setting.say(f"building tables of {count} files")
    ours, delta = our_files.shared_table(setting.shared, count), delta_files.shared_table(setting.shared, count)
    small = setting.directory / "small"
    it.write(small, [{"id": 1, "message": "disk full"}], text=["message"])
    command = "import sys; sys.argv[1:] = {!r}; from indextables_start import main; main()"
    listing = "import indextables as it; assert it.open({!r}, options={!r}).files().num_rows == {}"
    cache = our_files.with_cache(setting.directory / "cache")
    return {
        _IMPORT: "import indextables",
        f"{THEIRS}, {_IMPORT}": "import deltalake",
        _HELP: command.format(["--help"]),
        _COUNT: command.format([_COUNT, str(small)]),
        _ENGINES: _ENGINES,
        _COLD: listing.format(str(ours), dict(our_files.WITHOUT_CACHE), count),
        _WARM: listing.format(str(ours), dict(cache), count),
        THEIRS: (
            f"import deltalake; added = deltalake.DeltaTable({str(delta)!r}).get_add_actions(flatten=True); "
            f"assert added.num_rows == {count}"
        ),
    }


def _side(program: str, directory: Path) -> Side:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(directory / "byte-code")

    def measure(_: int) -> list[float]:
        before = _spent_ms()
        subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, env=environment)
        return [_spent_ms() - before]

    return measure


def _spent_ms() -> float:
    """CPU time of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000
