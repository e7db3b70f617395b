"""Flips, one after the other, and what became of each: an error, the right answer, or a wrong one."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from unittest import mock

from tests.flips.flipping import Flip, Region, flipped, flips_of, regions_of, sheet_regions, toggle
from tests.flips.reading import OF_LOG, OF_SPLITS, OPTIONS, Answers, ask
from tests.flips.tables import KINDS, LONG, build

import indextables as it
from indextables.filters import splits_left
from indextables.maintain.fsck.fsck import fsck
from indextables.split.index.cache_entries import PARTIAL
from indextables.split.partial import packing
from indextables.split.search import cold_indexes

_LOG = "_transaction_log/"
_MOST_READS = 10_000


class Report:
    """Counts by region; `wrong` names every answer that is not right."""

    def __init__(self) -> None:
        self.num_flips = 0
        self.right: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.mended: Counter[str] = Counter()
        self.wrong: list[str] = []

    def note(self, flip: Flip, found: Answers, right: Answers) -> None:
        """Judge what was answered while a bit was flipped."""
        self.num_flips += 1
        for way, answer in found.items():
            if isinstance(answer, Exception):
                self.refused[flip.region.name] += 1
            elif answer == right[way]:
                self.right[flip.region.name] += 1
            else:
                self.wrong.append(f"{way} after {flip}")

    def add(self, other: Report) -> None:
        self.num_flips += other.num_flips
        self.right += other.right
        self.refused += other.refused
        self.mended += other.mended
        self.wrong += other.wrong


def flip_log(home: Path, kind: str, *, most: int, truncated: bool = False) -> Report:
    """Flip bits of every file of a log; `most` is how many in each."""
    place = home / f"{kind}-truncated" if truncated else home / kind
    build(place, kind, truncated=truncated)
    ways = tuple(way for way in OF_LOG if not (truncated and way == "older"))
    regions = [region for region in regions_of(place) if region.path.startswith(_LOG)]
    return _flip_all(place, regions, lambda: ask(place, ways), most)


def flip_sheet(home: Path, *, most: int) -> Report:
    """Flip bits of the header and of every window of a filter sheet."""
    place = home / "sheets"
    build(place, "avro", sheets=True)
    regions = [part for region in regions_of(place) if region.name == "filter sheet" for part in sheet_regions(region)]
    with mock.patch.object(splits_left, "_TERMS_PER_SPLIT", 10):
        explained = it.Table.open(str(place)).explain("needle3 OR needle2101", run=True)
        stages = {row["stage"]: row for row in explained.to_pylist()}
        assert stages["sheets"]["left_out"] > 0
        return _flip_all(place, regions, lambda: ask(place, OF_SPLITS), most)


def flip_split(home: Path, *, most: int, only: str = "") -> Report:
    """Flip bits of every part of the longest split, or of those whose names start so."""
    place = home / "split"
    build(place, "avro", longest=LONG)
    regions = [region for region in longest_split(place) if region.name.startswith(only)]
    return _flip_all(place, regions, lambda: ask(place, OF_SPLITS), most)


def flip_cache(home: Path, *, most: int) -> Report:
    """Flip bits of every file that the local cache keeps of a table. What is damaged there is made again."""
    place, warm = home / "cached", home / "warm"
    build(place, "avro", longest=LONG)
    ways = (*OF_SPLITS, "files")
    right = ask(place, ways, cache=warm)
    _make_row_copies(place, warm)
    report = Report()
    for region in largest_of_each(regions_of(warm)):
        for flip in flips_of(region, most=most):
            spoilt = home / f"spoilt-{report.num_flips}"
            shutil.copytree(warm, spoilt)
            toggle(spoilt, flip)
            damaged = (spoilt / region.path).read_bytes()
            report.note(flip, ask(place, ways, cache=spoilt), right)
            if (spoilt / region.path).exists() and (spoilt / region.path).read_bytes() == damaged:
                report.wrong.append(f"nothing noticed {flip}")
            shutil.rmtree(spoilt, ignore_errors=True)  # a copy of rows may be made there meanwhile
    return report


def _make_row_copies(place: Path, cache: Path) -> None:
    """Read the rows of all splits so often that decoded copies of them pay."""
    for _ in range(_MOST_READS):
        ask(place, ("predicate", "search"), cache=cache)
        if len(list(cache.rglob("*.rows"))) > 1:
            return
    raise AssertionError("no search made row copies")


def flip_parts(home: Path, *, most: int) -> Report:
    """Flip bits of the sparse files and maps that the local cache keeps of partly fetched indexes.

    A bit in a place that was not fetched changes nothing. `mended` counts the files that were made right again.
    """
    place, warm = home / "parts", home / "warm"
    build(place, "avro", longest=LONG)
    right = ask(place, OF_SPLITS, cache=warm)
    report = Report()
    regions = [region for region in regions_of(warm) if region.path.startswith(PARTIAL)]
    for region in largest_of_each(regions):
        for flip in flips_of(region, most=most):
            spoilt = home / f"spoilt-{report.num_flips}"
            subprocess.run(["cp", "-r", "--sparse=always", str(warm), str(spoilt)], check=True)
            toggle(spoilt, flip)
            damaged = (spoilt / region.path).read_bytes()
            report.note(flip, ask(place, OF_SPLITS, cache=spoilt), right)
            report.mended[region.name] += (spoilt / region.path).read_bytes() != damaged
            shutil.rmtree(spoilt, ignore_errors=True)  # a copy of rows may be made there meanwhile
    return report


def flip_under_fsck(home: Path, *, most: int) -> Report:
    """Flip bits of a live split and of every file of the log that readers need; `wrong` is what fsck does not find."""
    place = home / "fsck"
    table = build(place, "plain", sheets=True)
    live = table.files()["path"][0].as_py()
    report = Report()
    for region in regions_of(place):
        if region.path != live and (region.name == "hint" or not region.path.startswith(_LOG)):
            continue
        for flip in flips_of(region, most=most):
            with flipped(place, flip):
                num_problems = fsck(it.TransactionLog(str(place), options={"cache.disk.enabled": "false"})).num_rows
            report.num_flips += 1
            if num_problems:
                report.refused[region.name] += 1
            else:
                report.wrong.append(f"fsck after {flip}")
    return report


def flip_everything(home: Path, *, most: int, say: Callable[[str], None]) -> Report:
    """All of the above."""
    report = Report()
    for kind in KINDS:
        for truncated in (False, True):
            say(f"log, {kind}{', truncated' if truncated else ''}")
            report.add(flip_log(home, kind, most=most, truncated=truncated))
    say("split")
    report.add(flip_split(home, most=most))
    say("fsck")
    report.add(flip_under_fsck(home, most=most))
    say("cache")
    report.add(flip_cache(home, most=most))
    with in_parts():
        say("split, in parts")
        report.add(flip_split(home / "in-parts", most=most, only="split index"))
        say("cache, in parts")
        report.add(flip_parts(home / "in-parts", most=most))
    return report


@contextlib.contextmanager
def in_parts() -> Iterator[None]:
    """Fetch the small indexes of these tables in parts, in pieces so small that every index has many.

    Indexes that are searched together are fetched whole.
    """
    small = mock.patch.multiple(packing, _SMALL_PIECE=512, _LARGE_PIECE=1_024)
    apart = mock.patch.dict(OPTIONS, {"search.combined": "off"})
    with small, apart, mock.patch.object(cold_indexes, "SMALL_INDEX_BYTES", 0):
        yield


def longest_split(place: Path) -> list[Region]:
    """The regions of the largest split of a table."""
    splits = [region for region in regions_of(place) if region.path.endswith(".split")]
    largest = max(splits, key=lambda region: region.end).path
    return [region for region in splits if region.path == largest]


def largest_of_each(regions: Iterable[Region]) -> list[Region]:
    """One region of every name, the largest."""
    return list({region.name: region for region in sorted(regions, key=lambda region: region.end)}.values())


def _flip_all(place: Path, regions: Sequence[Region], read: Callable[[], Answers], most: int) -> Report:
    right = read()
    refused = [way for way, answer in right.items() if isinstance(answer, Exception)]
    if refused:
        raise AssertionError(f"{refused} cannot be read while the table is whole: {right[refused[0]]}")
    report = Report()
    for region in regions:
        for flip in flips_of(region, most=most):
            with flipped(place, flip):
                found = read()
            report.note(flip, found, right)
    return report
