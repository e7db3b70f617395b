"""A table at one version: an immutable value. Time travel is just another snapshot."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from indextables.caching import lazy_property
from indextables.errors import CorruptLogError, SchemaError
from indextables.log.files import LiveFiles, exact_sum
from indextables.log.metrics import REPLAY
from indextables.protocol.actions import Metadata, Protocol, Skip
from indextables.protocol.doc_mapping import registry_of, restore_doc_mappings
from indextables.protocol.schema import schema_from_json

NAMELESS = ""
"""The transaction id of a version whose file names none: another writer's."""


@dataclasses.dataclass(frozen=True)
class Head:
    """What a commit needs to know of the newest version: never the files.

    `txn_id` is `NAMELESS` where the version file is known to name no transaction, and None where the file is not known.
    """

    version: int
    timestamp_ms: int
    txn_id: str | None
    protocol: Protocol
    metadata: Metadata

    @property
    def mark(self) -> str | None:
        """Name by which the next version knows this one; `NAMELESS` if it has none, None if that is not known."""
        return mark_at(self.version, self.txn_id, self.metadata)

    @property
    def schema(self) -> pa.Schema:
        try:
            return schema_from_json(self.metadata.schema_string)
        except SchemaError as error:
            raise CorruptLogError(
                f"cannot read the schema at version {self.version}: {error.message}", version=self.version
            ) from error

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns


def mark_at(version: int, txn_id: str | None, metadata: Metadata) -> str | None:
    """The transaction id of a version; of version 0, which has none, the id of the table."""
    return metadata.id if version == 0 else txn_id


class _Totals(NamedTuple):
    num_files: int
    num_records: int
    num_bytes: int


@dataclasses.dataclass(frozen=True)
class Snapshot(Head):
    """A whole table at one version.

    `skips` holds the skip in force of each path; `transactions` the last batch of each streaming application and the
    version that holds it. `source` is where the reading of it began: at version 0, or at a checkpoint of some format.
    `dropped_mappings` are doc mappings that a later version has dropped from the registry, by hash: files that earlier
    versions added may name them still.
    """

    live_files: LiveFiles
    skips: Mapping[str, Skip]
    transactions: Mapping[str, tuple[int, int]]
    source: str = REPLAY
    dropped_mappings: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def files(self) -> pa.Table:
        """A row per live split."""
        return self.live_files.table

    @lazy_property
    def described_files(self) -> pa.Table:
        """The same with the text of the doc mappings that they name by reference."""
        return self.describe(self.files)

    def describe(self, files: pa.Table) -> pa.Table:
        """Some of the files with the text of the doc mappings that they name by reference."""
        return restore_doc_mappings(files, self.doc_mappings)

    @property
    def num_files(self) -> int:
        return self._totals.num_files

    @property
    def num_records(self) -> int:
        """The records of all live splits; those of unknown count are left out."""
        return self._totals.num_records

    @property
    def total_bytes(self) -> int:
        return self._totals.num_bytes

    @lazy_property
    def _totals(self) -> _Totals:
        """Summed up part by part: to count the files is no reason to hold them all."""
        totals = _Totals(0, 0, 0)
        for table in self.live_files.tables(columns=["num_records", "size"]):
            totals = _Totals(
                totals.num_files + table.num_rows,
                totals.num_records + exact_sum(table["num_records"]),
                totals.num_bytes + exact_sum(table["size"]),
            )
        return totals

    @property
    def doc_mappings(self) -> dict[str, str]:
        """The registry of doc mappings, by hash."""
        return {**self.dropped_mappings, **registry_of(self.metadata.configuration)}
