"""The same flips, read through Spark: its own scan of Parquet, searches by the driver, and tasks of Python."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from tests.flips.counting import Report, largest_of_each, longest_split
from tests.flips.flipping import Region, flips_of, regions_of, toggle
from tests.flips.reading import Answers
from tests.flips.tables import LONG, build
from tests.spark.spark_sessions import spark_session

import indextables as it

_WANTED = "id >= 2100 AND id < 2103 OR score > 24000"
_NATIVE = {"scan.mode": "native"}


def flip_in_spark(
    spark: Any,
    home: Path,
    *,
    most: int,
    regions: Collection[str] = (),
    ways: Collection[str] = (),
    one_of_each: bool = False,
    minutes: float | None = None,
) -> Report:
    """Flip bits of the longest split and of all files of a log, or of some regions of them by name, and read by every
    way of a classic session, or by some. With `one_of_each`, of one region of every name. After
    `minutes` the rest is left out.

    Every flip gets a copy of the table, since what was verified once in a process is trusted.
    """
    whole, spoilt = home / "whole", home / "spoilt"
    build(whole, "avro", longest=LONG)
    enabled = it.enable(spark.newSession())
    right = _ask(spark, enabled, whole, ways)
    refused = [answer for answer in right.values() if isinstance(answer, Exception)]
    if refused:
        raise AssertionError("the table cannot be read while it is whole") from refused[0]
    report = Report()
    chosen = _regions(whole, regions)
    ends = None if minutes is None else time.monotonic() + 60 * minutes
    for region in largest_of_each(chosen) if one_of_each else chosen:
        for flip in flips_of(region, most=most):
            if ends is not None and time.monotonic() > ends:
                return report
            place = spoilt / str(report.num_flips)
            shutil.copytree(whole, place)
            toggle(place, flip)
            report.note(flip, _ask(spark, enabled, place, ways), right)
            shutil.rmtree(place)
    return report


def flip_in_new_session(
    home: Path, *, most: int, regions: Collection[str] = (), ways: Collection[str] = (), minutes: float | None = None
) -> Report:
    """The same in a session that is made for it."""
    with spark_session(str(home / "session"), cores=2) as spark:
        spark.sparkContext.setLogLevel("OFF")
        return flip_in_spark(spark, home, most=most, regions=regions, ways=ways, minutes=minutes)


def _regions(whole: Path, names: Collection[str]) -> list[Region]:
    in_log = [region for region in regions_of(whole) if region.path.startswith("_transaction_log")]
    return [region for region in [*longest_split(whole), *in_log] if not names or region.name in names]


def _ask(spark: Any, enabled: Any, place: Path, names: Collection[str]) -> Answers:
    url = str(place)
    ways: dict[str, Callable[[], Any]] = {
        "native scan": lambda: it.Table.open(url).to_spark(spark),
        "native filter": lambda: it.Table.open(url, options=_NATIVE).to_spark(spark).filter(_WANTED),
        "native load": lambda: _load(enabled, url, **_NATIVE).filter("id = 4100").select("message"),
        "native count": lambda: _load(enabled, url, **_NATIVE).groupBy("day").count(),
        "indexed filter": lambda: _load(enabled, url).filter("id = 4100 OR message = 'none'").select("message"),
        "indexed count": lambda: _load(enabled, url).filter("id >= 4100").groupBy("day").count(),
        "driver search": lambda: it.read(enabled, url, search="needle2101 OR needle60003"),
        "task scan": lambda: spark.read.format("indextables").load(url).filter(_WANTED),
        "task search": lambda: it.read(spark, url, search="hay AND needle2101", columns=["id", "message"]),
    }
    return {name: _rows(way) for name, way in ways.items() if not names or name in names}


def _load(session: Any, url: str, **options: str) -> Any:
    return session.read.format("indextables").options(**options).load(url)


def _rows(way: Callable[[], Any]) -> Any:
    try:
        return sorted(map(repr, way().collect()))
    except Exception as error:  # Spark hands errors on as any of its own
        return error
