"""A table at one version: an immutable value. Time travel is just another snapshot."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import CorruptLogError, SchemaError
from indextables.log.files import LiveFiles
from indextables.log.metrics import REPLAY
from indextables.protocol.actions import Metadata, Protocol, Skip
from indextables.protocol.doc_mapping import registry_of
from indextables.protocol.schema import schema_from_json


@dataclasses.dataclass(frozen=True)
class Head:
    """What a commit needs to know of the newest version: never the files."""

    version: int
    timestamp_ms: int
    txn_id: str | None
    protocol: Protocol
    metadata: Metadata

    @property
    def mark(self) -> str | None:
        """By what the next version knows this one, if it can."""
        return mark_at(self.version, self.txn_id, self.metadata)

    @property
    def schema(self) -> pa.Schema:
        try:
            return schema_from_json(self.metadata.schema_string)
        except SchemaError as error:
            raise CorruptLogError(f"cannot read the schema at version {self.version}: {error.message}") from error

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns


def mark_at(version: int, txn_id: str | None, metadata: Metadata) -> str | None:
    """The transaction id of a version; of version 0, which has none, the id of the table."""
    return metadata.id if version == 0 else txn_id


@dataclasses.dataclass(frozen=True)
class Snapshot(Head):
    """A whole table at one version.

    `skips` holds the skip in force of each path; `transactions` the last batch of each streaming application and the
    version that holds it. `source` is where the reading of it began: at version 0, or at a checkpoint of some format.
    """

    live_files: LiveFiles
    skips: Mapping[str, Skip]
    transactions: Mapping[str, tuple[int, int]]
    source: str = REPLAY

    @property
    def files(self) -> pa.Table:
        """A row per live split."""
        return self.live_files.table

    @functools.cached_property
    def num_files(self) -> int:
        return int(self.files.num_rows)

    @functools.cached_property
    def num_records(self) -> int:
        """The records of all live splits; those of unknown count are left out."""
        return int(pc.sum(self.files["num_records"], min_count=0).as_py())

    @functools.cached_property
    def total_bytes(self) -> int:
        return int(pc.sum(self.files["size"], min_count=0).as_py())

    @property
    def doc_mappings(self) -> dict[str, str]:
        """The registry of doc mappings, by hash."""
        return registry_of(self.metadata.configuration)
