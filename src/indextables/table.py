"""`Table`: what people use. A handle stands at one version until it is refreshed."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from indextables.config import Config, settings
from indextables.config.resolve import PREFIX
from indextables.errors import SchemaError, TableExistsError
from indextables.log.snapshot import Snapshot
from indextables.ops.checkpoint import make_checkpoint
from indextables.ops.describe_log import describe_log
from indextables.ops.describe_state import describe_state
from indextables.ops.search import Search
from indextables.ops.skipped_files import list_skipped_files
from indextables.ops.write import append, overwrite
from indextables.protocol.actions import Metadata, Protocol
from indextables.scan.files import prune_table
from indextables.transaction_log import TransactionLog


class Table:
    """A table at one version."""

    def __init__(self, log: TransactionLog, snapshot: Snapshot) -> None:
        self._log = log
        self._snapshot = snapshot

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        schema: pa.Schema | str,
        *,
        partition_by: Sequence[str] = (),
        indexing: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        name: str | None = None,
        description: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Table:
        """Create a table. `indexing` says how columns are indexed, as in `{"message": "text"}`."""
        log = TransactionLog(url, options=options)
        configuration = {**(properties or {}), **_indexing_properties(schema, indexing or {})}
        created = log.initialize(
            schema,
            partition_columns=partition_by,
            configuration=configuration,
            name=name,
            description=description,
        )
        if not created:
            raise TableExistsError(
                f"cannot create a table at `{log.url}` because there is one already",
                hint="open it with `Table.open`",
            )
        return cls(log, log.snapshot())

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: str | datetime.datetime | int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Table:
        """Open a table at its newest version, or as it stood at a version or a moment."""
        log = TransactionLog(url, options=options)
        return cls(log, log.snapshot(version=version, timestamp=timestamp))

    def __repr__(self) -> str:
        return f"Table({self.url!r}, version={self.version})"

    @property
    def log(self) -> TransactionLog:
        """The table's transaction log."""
        return self._log

    @property
    def url(self) -> str:
        return self._log.url

    @property
    def version(self) -> int:
        return self._snapshot.version

    @property
    def schema(self) -> pa.Schema:
        return self._snapshot.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self._snapshot.partition_columns

    @property
    def protocol(self) -> Protocol:
        return self._snapshot.protocol

    @property
    def metadata(self) -> Metadata:
        return self._snapshot.metadata

    @property
    def num_files(self) -> int:
        return self._snapshot.num_files

    @property
    def num_records(self) -> int:
        return self._snapshot.num_records

    def refresh(self) -> Table:
        """Move to the newest version. The same handle is returned."""
        self._snapshot = self._log.snapshot()
        return self

    def files(self, where: str | None = None) -> pa.Table:
        """A row per live split, less those that cannot hold a row which the predicate `where` is true of."""
        files = self._snapshot.described_files
        return files if where is None else prune_table(files, where, self._snapshot, self._log.config)

    def append(self, data: Any) -> int:
        """Add rows (an Arrow table, reader or batches, or a frame of Polars, DuckDB or pandas), and answer with the new
        version."""
        return self._moved(append(self._log, data))

    def overwrite(self, data: Any, *, if_version: int | None = None) -> int:
        """Put rows in the place of all that are there. With `if_version` it fails where the table has moved on."""
        return self._moved(overwrite(self._log, data, if_version=if_version))

    def search(
        self,
        query: str | None = None,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The rows that a query finds and a predicate is true of; all of them where neither is given."""
        return self._search(query, where, columns).rows(limit)

    def count(self, query: str | None = None, *, where: str | None = None) -> int:
        """How many rows a query finds and a predicate is true of; without a predicate from the index alone."""
        return self._search(query, where, None).count()

    def _search(self, query: str | None, where: str | None, columns: Sequence[str] | None) -> Search:
        store = self._log.reader.store
        return Search(store, self._snapshot, self._log.config, query=query, where=where, columns=columns)

    def _moved(self, version: int) -> int:
        self.refresh()
        return version

    def history(self, *, limit: int | None = None) -> pa.Table:
        """A row per version, the newest first."""
        return self._log.history(limit=limit)

    def describe_log(self, *, include_all: bool = False) -> pa.Table:
        """A row per action: of the newest checkpoint and the versions after it, or of every version that is there."""
        return describe_log(self._log, include_all=include_all)

    def state(self) -> pa.Table:
        """One row: the newest state or checkpoint, what it holds, and whether it should be compacted."""
        return describe_state(self._log)

    def checkpoint(self) -> pa.Table:
        """Compact the newest version into a checkpoint, and move to it. One row: what the checkpoint holds."""
        made = make_checkpoint(self._log)
        self.refresh()
        return made

    def compact(self) -> pa.Table:
        """Another name for `checkpoint`."""
        return self.checkpoint()

    def set_properties(self, properties: Mapping[str, str | None]) -> int:
        """Set table properties; None takes one away. Answers with the new version."""
        version = self._log.set_properties(properties)
        self.refresh()
        return version

    def skipped_files(self) -> pa.Table:
        """The files that an operation could not process."""
        return list_skipped_files(self._snapshot.skips.values())

    def invalidate_cache(self) -> None:
        """Forget what was read of the log."""
        self._log.invalidate_cache()


def _indexing_properties(schema: pa.Schema | str, indexing: Mapping[str, str]) -> dict[str, str]:
    if isinstance(schema, pa.Schema):
        unknown = [column for column in indexing if column not in schema.names]
        if unknown:
            raise SchemaError(f"cannot index `{unknown[0]}` because the schema has no such column")
    properties = {f"{PREFIX}{settings.INDEXING_TYPEMAP.key}.{column}": kind for column, kind in indexing.items()}
    Config.resolve(properties=properties)
    return properties
