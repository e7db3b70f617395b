"""What other processes do in the tests of HDFS. It stands apart so that a spawned process imports little."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import indextables as it
from indextables.config import Config
from indextables.errors import StorageError
from indextables.store import open_store

SCHEMA = pa.schema([("id", pa.int64()), ("message", pa.string())])
ROWS_PER_APPEND = 5
Options = dict[str, Any]


def rows_from(first: int) -> pa.Table:
    """Rows that follow from their number."""
    numbers = range(first, first + ROWS_PER_APPEND)
    return pa.table({"id": list(numbers), "message": [f"word{number}" for number in numbers]}, schema=SCHEMA)


def append_many(url: str, options: Options, who: int, num_appends: int) -> list[int]:
    """Append rows that nobody else has, and answer with the versions."""
    table = it.Table.open(url, options=options)
    first = who * num_appends * ROWS_PER_APPEND
    return [table.append(rows_from(first + number * ROWS_PER_APPEND)) for number in range(num_appends)]


def upload(url: str, options: Options, key: str, path: str) -> None:
    """Upload a file."""
    open_store(url, Config.resolve(options=options)).put_file(key, path)


def put_as(url: str, options: Options, user: str, key: str) -> tuple[str, str]:
    """Put something as another user, and answer with the kind of error and what it says."""
    store = open_store(url, Config.resolve(options={**options, "hdfs.user": user}))
    try:
        store.put(key, user.encode())
    except StorageError as error:
        return type(error).__name__, str(error)
    return "", str(store.get(key))
