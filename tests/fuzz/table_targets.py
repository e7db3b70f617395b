"""Whole tables of which some file is not what it was: opened, listed, searched and checked as people would."""

from __future__ import annotations

import functools
import os
import random
import shutil
from collections.abc import Sequence

import msgspec
import pyarrow as pa
from tests.fuzz.engine import Target, need
from tests.fuzz.mutate import FRAGMENTS, damage_bytes

import indextables as it
from indextables.errors import IndexTablesError
from indextables.runtime.scratch import directory_until_exit

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string()), ("day", pa.string())])


class Change(msgspec.Struct, array_like=True):
    """Which example table, which of its files, and what stands there now."""

    table: int
    key: str
    data: bytes


def rows(start: int) -> pa.Table:
    values = [
        {"id": start + number, "message": f"word{number} of {start}", "day": f"d{number % 2}"} for number in range(6)
    ]
    return pa.Table.from_pylist(values, schema=SCHEMA)


@functools.cache
def examples() -> tuple[str, ...]:
    """Tables with a state, and with nothing but version files."""
    found = []
    for options in (
        {"checkpoint.interval": "3"},
        {"checkpoint.enabled": "false", "transaction.compression.enabled": "no"},
    ):
        place = os.path.join(directory_until_exit(), "table")
        table = it.Table.create(place, SCHEMA, partition_by=("day",), options={**options, **_caches(place)})
        for number in range(4):
            table.append(rows(number * 10))
        if table.log.checkpointer is not None:
            table.log.checkpointer.wait()
        _unseal(place)
        found.append(place)
    return tuple(found)


def _unseal(place: str) -> None:
    """Take the checksums away from plain version files, as other writers leave them: damage gets further then."""
    for key in keys(place):
        data = read(place, key)
        if key.startswith("_transaction_log") and data.startswith(b"{") and b'\n{"checksum":' in data:
            with open(os.path.join(place, key), "wb") as file:
                file.write(data[: data.rindex(b'{"checksum":')])


def _caches(place: str) -> dict[str, str]:
    return {"cache.disk.path": os.path.join(os.path.dirname(place), "cache")}


@functools.cache
def keys(place: str) -> tuple[str, ...]:
    found = [os.path.join(directory, name) for directory, _, names in os.walk(place) for name in names]
    return tuple(sorted(os.path.relpath(path, place) for path in found))


def read(place: str, key: str) -> bytes:
    with open(os.path.join(place, key), "rb") as file:
        return file.read()


def table_bytes(rng: random.Random) -> bytes:
    number = rng.randrange(len(examples()))
    place = examples()[number]
    in_log = [key for key in keys(place) if key.startswith("_transaction_log")]
    key = rng.choice(in_log if rng.random() < 0.8 else keys(place))
    data = damage_bytes(rng, read(place, key), [read(place, other) for other in in_log[:4]])
    if rng.random() < 0.05:
        key, data = (
            f"_transaction_log/{rng.choice(('x', '9' * 20 + '.json', '_last_checkpoint'))}",
            rng.choice(FRAGMENTS),
        )
    return msgspec.msgpack.encode(Change(number, key, data))


def use_table(data: bytes) -> None:
    """An answer is right where it has the rows of a version that was committed."""
    change = msgspec.msgpack.decode(data, type=Change)
    home = directory_until_exit()
    place = os.path.join(home, "table")
    try:
        shutil.copytree(examples()[change.table], place)
        with open(os.path.join(place, change.key), "wb") as file:
            file.write(change.data)
        _use(place)
        need(sorted(os.listdir(home)) in (["cache", "table"], ["table"]), "something was written beside the table")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _use(place: str) -> None:
    table = it.Table.open(place, options=_caches(place))
    found = table.search("*").num_rows
    counted = table.count("message:word3")
    need(found % 6 == 0, f"{found} rows are those of no version")
    need(counted <= found, "more rows are counted than there are")
    table.fsck()


TARGETS: Sequence[Target] = (Target("table", table_bytes, use_table, (IndexTablesError,), 0.1),)
