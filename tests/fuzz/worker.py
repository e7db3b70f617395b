"""The process that uses inputs, so that one which crashes it, hangs it or eats its memory costs nothing but itself.

It notes in a shared file which input it is about to use, and keeps that input beside it: whoever watches it can so tell
which one was the last. Some examples hold ids and times of their own, so that no other process could make it again.

    python -m tests.fuzz.worker <work as JSON> <progress file>
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import resource
import struct
import sys
import time
import traceback
import warnings

from bench.processes import peak_bytes
from tests.fuzz.engine import Target, input_of, judge

PLACE = struct.Struct("<QQ")
INPUT = "-input"
MOST_DATA_BYTES = 6 << 30


def main() -> None:
    work, path = json.loads(sys.argv[1]), sys.argv[2]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_DATA_BYTES, MOST_DATA_BYTES))
    warnings.simplefilter("ignore")
    targets = {target.name: target for name in work["modules"] for target in importlib.import_module(name).TARGETS}
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), PLACE.size) as progress:
        for place, step in enumerate(work["steps"]):
            notes = _Notes(path, progress, place)
            run_step(targets[step["target"]], step, work["seed"], notes, work["most_resident_bytes"])


class _Notes:
    """Which input is used now."""

    def __init__(self, path: str, progress: mmap.mmap, place: int) -> None:
        self._path = path
        self._progress = progress
        self._place = place

    def begin(self, number: int, data: bytes) -> None:
        with open(f"{self._path}{INPUT}", "wb") as file:
            file.write(data)
        self._progress[:] = PLACE.pack(self._place, number)

    def keep(self, target: Target, number: int, kind: str, what: str) -> None:
        kept = f"{self._path}-{target.name}-{number}"
        os.replace(f"{self._path}{INPUT}", kept)
        said = {"target": target.name, "number": number, "violation": kind, "what": what, "kept": kept}
        print(json.dumps(said), flush=True)


def run_step(target: Target, step: dict[str, int], seed: int, notes: _Notes, most_resident_bytes: int) -> None:
    """Use the inputs of a target from one number on, as many as asked for or until the time is over."""
    counts = {"answer": 0, "documented": 0}
    number, ends = step["first"], time.monotonic() + step["seconds"]
    while number < step["end"] and time.monotonic() < ends:
        data = input_of(target, seed, number)
        notes.begin(number, data)
        try:
            counts[judge(target, data)] += 1
            if peak_bytes() > most_resident_bytes:
                notes.keep(target, number, "memory", f"over {most_resident_bytes >> 20} MiB are resident")
                sys.exit(3)  # the peak would be held against every input that follows
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic of a library is no Exception
            if isinstance(error, SystemExit):
                raise
            lines = traceback.format_exception(error, limit=-6)
            notes.keep(target, number, type(error).__name__, "".join(lines)[-3000:])
        number += 1
    print(json.dumps({"target": target.name, "next": number, **counts}), flush=True)


if __name__ == "__main__":
    main()
