"""The files of the large tables, the same for every library: partitioned by date, statistics of four columns each.

A file is a pure function of its number. Names and values differ as those of real files do, so that they compress alike.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from collections.abc import Iterator, Mapping

import pyarrow as pa

NUM_PARTITIONS = 100
PARTITION_COLUMN = "date"
SCHEMA = pa.schema(
    [
        (PARTITION_COLUMN, pa.date32()),
        ("id", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("amount", pa.float64()),
        ("name", pa.string()),
    ]
)
STATISTICS_COLUMNS = ("id", "at", "amount", "name")
MODIFIED_MS = 1_790_000_000_000

_FIRST_DATE = datetime.date(2026, 1, 1)
_FIRST_MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_NUM_RECORDS = 1_000

Value = int | float | str | datetime.datetime


@dataclasses.dataclass(frozen=True)
class DataFile:
    """What a log holds of one file."""

    stem: str
    date: datetime.date
    num_records: int
    size_bytes: int
    minima: Mapping[str, Value]
    maxima: Mapping[str, Value]
    null_counts: Mapping[str, int]


def date_of(number: int) -> datetime.date:
    """The partition of a file: neighbours stand in different ones."""
    return _FIRST_DATE + datetime.timedelta(days=number % NUM_PARTITIONS)


def num_in_partition(count: int, number: int) -> int:
    """How many of the files below `count` stand in the partition of one of them."""
    return len(range(number % NUM_PARTITIONS, count, NUM_PARTITIONS))


def data_file(number: int) -> DataFile:
    digest = hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest()
    noise = int(digest[:12], 16)
    moment = _FIRST_MOMENT + datetime.timedelta(days=number % NUM_PARTITIONS, milliseconds=noise % 3_600_000)
    amount = noise % 100_000 / 100
    return DataFile(
        stem=f"part-{number:08d}-{digest}",
        date=date_of(number),
        num_records=_NUM_RECORDS,
        size_bytes=10_000_000 + noise % 1_000_000,
        minima={"id": number * _NUM_RECORDS, "at": moment, "amount": amount, "name": f"a{digest[12:20]}"},
        maxima={
            "id": (number + 1) * _NUM_RECORDS - 1,
            "at": moment + datetime.timedelta(minutes=10),
            "amount": round(amount + 500, 2),
            "name": f"z{digest[20:28]}",
        },
        null_counts={"id": 0, "at": 0, "amount": noise % 7, "name": noise % 11},
    )


def commits(count: int, size: int) -> Iterator[range]:
    """The numbers below `count` by commit: so many at once, and the last one alone, as commits of a live table are."""
    for start in range(0, count - 1, size):
        yield range(start, min(start + size, count - 1))
    yield range(count - 1, count)


def moment_text(moment: datetime.datetime) -> str:
    """A moment as statistics spell it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
