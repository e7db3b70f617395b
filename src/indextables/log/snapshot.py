"""Table at one version: an immutable value. Time travel is just another snapshot."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from indextables.errors import CorruptLogError, RetentionError, SchemaError
from indextables.log.files import LiveFiles, exact_sum
from indextables.log.metrics import REPLAY
from indextables.protocol.actions import Metadata, Protocol, Skip
from indextables.protocol.doc_mapping import registry_of, restore_doc_mappings
from indextables.protocol.horizon import horizon_of
from indextables.protocol.schema import schema_from_json
from indextables.runtime.caching import lazy_property

NAMELESS = ""
"""Transaction id of a version file without one: another writer's."""


@dataclasses.dataclass(frozen=True)
class Head:
    """Facts of the newest version that a commit needs, without the files.

    `txn_id` is `NAMELESS` if the version file has no transaction id, and None if the file is unknown. No version after
    `defined_by`, up to this one, has a protocol or metadata action; None if that is unknown.
    """

    version: int
    timestamp_ms: int
    txn_id: str | None
    protocol: Protocol
    metadata: Metadata
    defined_by: int | None = dataclasses.field(default=None, compare=False, kw_only=True)

    @property
    def definitions_version(self) -> int:
        """Version up to which all protocol and metadata actions were committed."""
        return self.version if self.defined_by is None else self.defined_by

    @property
    def identity(self) -> str | None:
        """Name by which the next version refers to this one.

        It is `NAMELESS` if it has none, and None if it is unknown.
        """
        return identity_at(self.version, self.txn_id, self.metadata)

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


def identity_at(version: int, txn_id: str | None, metadata: Metadata) -> str | None:
    """Return the transaction id of a version, or for version 0 the id of the table."""
    return metadata.id if version == 0 else txn_id


class _Totals(NamedTuple):
    num_files: int
    num_records: int
    num_bytes: int


@dataclasses.dataclass(frozen=True)
class Snapshot(Head):
    """Whole table at one version.

    `skips` has the skip in force of each path; `transactions` the last batch of each streaming application and its
    version. `source` is the start of the read: version 0, or a checkpoint of some format. `dropped_mappings` are doc
    mappings by hash that a later version has dropped from the registry: files of earlier versions may still refer to
    them.
    """

    live_files: LiveFiles
    skips: Mapping[str, Skip]
    transactions: Mapping[str, tuple[int, int]]
    source: str = REPLAY
    dropped_mappings: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def files(self) -> pa.Table:
        """One row per live split."""
        return self.live_files.table

    @lazy_property
    def described_files(self) -> pa.Table:
        """The files with the text of their doc mappings instead of references."""
        return self.describe(self.files)

    def describe(self, files: pa.Table) -> pa.Table:
        """Return some of the files with the text of their doc mappings."""
        return restore_doc_mappings(files, self.doc_mappings)

    @property
    def num_files(self) -> int:
        return self._totals.num_files

    @property
    def num_records(self) -> int:
        """Number of records in all live splits, without splits of unknown count."""
        return self._totals.num_records

    @property
    def total_bytes(self) -> int:
        return self._totals.num_bytes

    @lazy_property
    def _totals(self) -> _Totals:
        """Totals of the live files, summed in parts so that not all files are in memory."""
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
        """Registry of doc mappings, by hash."""
        return {**self.dropped_mappings, **registry_of(self.metadata.configuration)}


def refuse_purged(version: int, newest: Head, url: str) -> None:
    """Refuse a version before the horizon."""
    horizon = horizon_of(newest.metadata.configuration)
    if version < horizon:
        raise RetentionError(
            f"cannot read version {version} of `{url}` because a purge has deleted files of versions before {horizon}",
            version=version,
            path=url,
            hint=f"the versions {horizon} to {newest.version} can be read",
        )
