"""Version 0: the protocol and the metadata of a new table, put if absent.

The table's id resolves a lost response.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import pyarrow as pa

from indextables.clock import Clock
from indextables.config import Config, settings
from indextables.errors import ObjectExistsError, ObjectNotFoundError, SchemaError, StorageError, TableNotFoundError
from indextables.log.base import BaseSource
from indextables.log.commit.checks import checked
from indextables.log.commit.put import Attempt, Committer, Outcome
from indextables.log.segment import whole_segment
from indextables.log.snapshot import Head
from indextables.protocol.actions import Metadata
from indextables.protocol.features import NEW_TABLE_PROTOCOL, declaring
from indextables.protocol.names import LOG_DIRECTORY
from indextables.protocol.schema import check_partition_columns, same_columns, schema_from_json, schema_to_json
from indextables.protocol.version_file import seal_lines
from indextables.store import ObjectStore

_FIRST_ATTEMPTS = 5


def new_metadata(
    schema: pa.Schema | str,
    partition_columns: Sequence[str],
    configuration: Mapping[str, str],
    name: str | None,
    description: str | None,
    clock: Clock,
) -> Metadata:
    """Return the checked metadata of a new table."""
    schema_string = schema_to_json(schema)
    check_partition_columns(schema_from_json(schema_string), partition_columns)
    Config.resolve(properties=configuration)
    return Metadata(
        id=clock.uuid(),
        schema_string=schema_string,
        partition_columns=tuple(partition_columns),
        configuration=dict(configuration),
        name=name,
        description=description,
        created_time=clock.now_ms(),
    )


def create_table(
    store: ObjectStore,
    metadata: Metadata,
    config: Config,
    clock: Clock,
    bases: BaseSource,
    features: Sequence[str] = (),
) -> bool:
    """Put version 0; return False, and change nothing, if there is a table already."""
    compress = config[settings.TRANSACTION_COMPRESSION_ENABLED]
    protocol = functools.reduce(declaring, features, NEW_TABLE_PROTOCOL)
    payload = seal_lines(checked((protocol, metadata), 0, store.location).lines, compress=compress)
    if is_table(store):
        return False
    probe_conditional_put(store, clock)
    outcome, _ = Committer(store, config, clock, bases).put(Attempt(0, payload, metadata.id), None)
    return outcome is Outcome.WON


def is_table(store: ObjectStore) -> bool:
    """Return True if there is a log."""
    try:
        whole_segment(store)
    except TableNotFoundError:
        return False
    return True


def check_same_table(existing: Head, wanted: Metadata, url: str) -> None:
    """Refuse to initialise an existing table with another schema or partitioning."""
    if not same_columns(existing.schema, schema_from_json(wanted.schema_string)):
        raise SchemaError(
            f"cannot initialise `{url}` because there is a table with another schema: {_columns(existing.schema)}",
            hint="open the existing table, or choose another address",
        )
    if existing.partition_columns != wanted.partition_columns:
        raise SchemaError(
            f"cannot initialise `{url}` because the table there is partitioned by "
            f"({', '.join(existing.partition_columns)}), not by ({', '.join(wanted.partition_columns)})",
        )


def probe_conditional_put(store: ObjectStore, clock: Clock) -> None:
    """Refuse a store that lets a second create succeed.

    On such a store two writers would overwrite each other's commits.
    """
    key = f"{LOG_DIRECTORY}/_probe-{clock.uuid()}"
    _put_first(store, key)
    try:
        store.put_if_absent(key, b"second")
    except ObjectExistsError:
        return
    finally:
        store.delete(key)
    raise StorageError(
        f"cannot keep a table at `{store.location.url}` because the store ignores put-if-absent: it let a second "
        "create overwrite the first",
        hint="use a store that honours conditional writes (`If-None-Match: *`), or upgrade its server",
    )


def _put_first(store: ObjectStore, key: str) -> None:
    """Put the object that the probe must not overwrite, and confirm it."""
    for attempt in range(1, _FIRST_ATTEMPTS + 1):
        try:
            store.put_if_absent(key, b"first")
            break
        except ObjectExistsError:
            if _is_there(store, key):  # the client's own retry found its first attempt
                break
            # The store reported a conflict without an object: a second create would rightly succeed.
            if attempt == _FIRST_ATTEMPTS:
                raise


def _is_there(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFoundError:
        return False
    return True


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
