"""Tables with real splits, and ways to damage them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa

import indextables as it
from indextables.protocol.file_table import adds_of
from indextables.split.combine import combine_splits
from indextables.split.split_file import SplitFile
from indextables.split.writer import SplitWriter

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string()), ("score", pa.float64())])
PLACE = "t"


def rows(first: int, count: int = 4) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "message": [None if number % 5 == 4 else f"needle{number} " + "hay " * 12 for number in numbers],
            "day": [None if number % 3 == 2 else f"2026-01-0{number % 3 + 1}" for number in numbers],
            "score": [float("nan") if number % 7 == 6 else number / 2 for number in numbers],
        },
        schema=SCHEMA,
    )


def make_table(
    place, *, appends: int = 3, partition_by=("day",), properties=None, options=None, indexing=None
) -> it.Table:
    table = it.Table.create(
        str(place),
        SCHEMA,
        partition_by=partition_by,
        indexing={"message": "text"} if indexing is None else indexing,
        properties=properties,
        options=options,
    )
    for number in range(appends):
        table.append(rows(number * 10))
    return table


def merge_all(table: it.Table) -> None:
    """Combine the splits of each partition, as a merge does."""
    log, groups = table.log, {}
    for add in adds_of(table.refresh().files()):
        groups.setdefault(tuple(sorted(add.partition_values.items())), []).append(add)
    merged = [
        (
            [add.path for add in adds],
            [
                combine_splits(
                    log.reader.store,
                    adds,
                    table.schema,
                    log.config_in_force(),
                    partition_columns=table.partition_columns,
                    partition_values=dict(adds[0].partition_values),
                )
            ],
        )
        for adds in groups.values()
    ]
    log.replace_groups(merged)
    table.refresh()


def one_split(place, **changes) -> it.TransactionLog:
    """A table of one split, of which the log says something else than what is there."""
    log = it.TransactionLog(str(place))
    log.initialize(SCHEMA, partition_columns=["day"])
    data = pa.table(
        {"id": [1, 5, 9], "message": ["a", None, "zz"], "day": ["x"] * 3, "score": [0.5, 1.5, 2.5]}, schema=SCHEMA
    )
    with SplitWriter(
        log.reader.store, SCHEMA, log.config, partition_columns=["day"], partition_values={"day": "x"}
    ) as writer:
        writer.write(data.to_batches()[0])
        (add,) = writer.finish()
    log.add_files([msgspec.structs.replace(add, **changes)])
    return log


def the_split(table_or_log) -> Path:
    files = table_or_log.list_files() if isinstance(table_or_log, it.TransactionLog) else table_or_log.files()
    return Path(table_or_log.url) / files["path"][0].as_py()


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(bytes(data))


def directory_of(log: it.TransactionLog):
    return SplitFile.open(log.reader.store, log.list_files()["path"][0].as_py()).directory


def contents(place: Path) -> dict[str, bytes]:
    """Every file below a place, with its bytes."""
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def sorted_rows(table: it.Table) -> list[dict]:
    return table.search().select(["id", "message", "day"]).sort_by("id").to_pylist()
