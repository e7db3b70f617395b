"""`TableHandle`: a table at one version, and moves to other versions."""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from indextables.config import settings
from indextables.errors import ConfigError, StorageError
from indextables.log.snapshot import Snapshot
from indextables.protocol.actions import Metadata, Protocol
from indextables.runtime.caching import lazy_property
from indextables.table.answers import Answers
from indextables.transaction_log import TransactionLog

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

    from indextables.split.search.open_splits import OpenSplits

logger = logging.getLogger(__name__)


class TableHandle:
    """Table at one version, until it is refreshed. Threads may share it; it pickles."""

    def __init__(
        self,
        url: str | os.PathLike[str] | TransactionLog,
        snapshot: Snapshot | None = None,
        *,
        version: int | None = None,
        timestamp: str | datetime.datetime | int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Open a table at its newest version, or at an earlier version or time.

        Args:
            url: a path or an address such as `s3://bucket/logs`; or an open `TransactionLog`.
            snapshot: a snapshot of that log, in place of a version.
            version: the version to open.
            timestamp: a time as ISO text, a datetime, or milliseconds since 1970.
            options: settings of this handle, such as credentials of the store.
        """
        if isinstance(url, TransactionLog):
            _refuse_both("options", options, "an open log, which has options of its own", url)
            self._log = url
        else:
            _refuse_snapshot(url, snapshot)
            self._log = TransactionLog(url, options=options)
        if snapshot is None:
            snapshot = self._log.snapshot(version=version, timestamp=timestamp)
        else:
            _refuse_both("version", version, "a snapshot", url)
            _refuse_both("timestamp", timestamp, "a snapshot", url)
        self._known: Snapshot | None = snapshot

    @lazy_property
    def _opened(self) -> OpenSplits:
        """Splits that searches of this handle keep open."""
        from indextables.split.search.open_splits import OpenSplits

        return OpenSplits(self._log.reader.store, self._log.config)

    @lazy_property
    def _answers(self) -> Answers:
        """Answers that this handle keeps."""
        return Answers(self._log.config[settings.SEARCH_ANSWERS_MAX_SIZE])

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._log, self.snapshot)

    def __repr__(self) -> str:
        return f"Table({self.url!r}, version={self.version})"

    @property
    def log(self) -> TransactionLog:
        """The transaction log: versions, actions, protocol, caches.

        Example:
            >>> it.open("logs").log.versions()
            [0, 1, 2]
        """
        return self._log

    @property
    def snapshot(self) -> Snapshot:
        """Snapshot of the table at this version, from the log.

        Example:
            >>> it.open("logs").snapshot.version
            2
        """
        known = self._known
        if known is None:
            known = self._known = self._log.snapshot()
        return known

    @property
    def url(self) -> str:
        """The address of the table, absolute.

        Example:
            >>> it.open("logs").url.endswith("/logs")
            True
        """
        return self._log.url

    @property
    def version(self) -> int:
        """The version of the handle, counted from 0.

        Example:
            >>> it.open("logs").version
            2
        """
        return self.snapshot.version

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows, partition columns included.

        Example:
            >>> it.open("logs").schema.field("id").type
            DataType(int64)
        """
        return self.snapshot.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order.

        Example:
            >>> it.open("logs").columns
            ['id', 'at', 'level', 'message', 'day']
        """
        return list(self.snapshot.schema.names)

    @property
    def indexing(self) -> dict[str, str]:
        """The indexing in force, by column: `text`, `string`, `json`, `int` and so on.

        Searches have the same meaning on splits that were written with other settings.

        Example:
            >>> it.open("logs").indexing["message"]
            'text'
        """
        from indextables.scan.indexed_fields import table_fields

        fields = table_fields(self.snapshot, self._log.config)
        return {field.column: str(field.kind) for field in fields.fields}

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that the table is partitioned by.

        Example:
            >>> it.open("logs").partition_columns
            ('day',)
        """
        return self.snapshot.partition_columns

    @property
    def protocol(self) -> Protocol:
        """The versions of the format that readers and writers need.

        Example:
            >>> it.open("logs").protocol.min_reader_version
            4
        """
        return self.snapshot.protocol

    @property
    def metadata(self) -> Metadata:
        """The table's id, name, schema text and properties.

        Example:
            >>> it.open("logs").metadata.partition_columns
            ('day',)
        """
        return self.snapshot.metadata

    @property
    def num_files(self) -> int:
        """The number of live splits.

        Example:
            >>> it.open("logs").num_files
            3
        """
        return self.snapshot.num_files

    @property
    def num_records(self) -> int:
        """The number of rows by the log alone.

        `len(table)` also counts splits whose number of rows the log does not know.

        Example:
            >>> it.open("logs").num_records
            4
        """
        return self.snapshot.num_records

    def refresh(self) -> Self:
        """Move the handle to the newest version, and return it.

        Example:
            >>> t = it.open("logs", version=1)
            >>> t.refresh().version
            2
        """
        return self._go_to(self._log.snapshot)

    def _go_to(self, read: Callable[[], Snapshot]) -> Self:
        before = self._known
        fresh = read()
        known = self._known
        if (
            known is before or known is None or fresh.version > known.version
        ):  # another thread may have moved it further
            self._known = fresh
        return self

    def _after(self, answer: pa.Table, *, dry_run: bool = False) -> pa.Table:
        if not dry_run:
            self._move()
        return answer

    def _moved(self, version: int) -> int:
        self._move(lambda: self._log.reader.own_snapshot(version))
        return version

    def _move(self, read: Callable[[], Snapshot] | None = None) -> None:
        """Move to the newest version, or to the one that `read` returns.

        The change is in the log already, so a store that fails here must not turn it into an error. The next read then
        looks for that version again.
        """
        try:
            self._go_to(read or self._log.snapshot)
        except StorageError as error:
            self._known = None
            logger.warning("`%s` has a new version that could not be read yet: %s", self.url, error.message)


def _refuse_snapshot(url: object, snapshot: object) -> None:
    """Refuse a second positional argument with an address.

    It is a snapshot of an open log, and easily mistaken for a version.
    """
    if snapshot is not None:
        raise ConfigError(
            f"cannot open `{url}` at `{snapshot!r:.60}`: give the version by its name",
            hint="write `Table(url, version=3)`",
        )


def _refuse_both(name: str, value: object, other: str, url: object) -> None:
    if value is not None:
        raise ConfigError(f"cannot open `{url!r}` with `{name}` because it is given as {other}")
