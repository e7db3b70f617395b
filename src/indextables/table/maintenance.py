"""`MaintainedTable`: history, checks, clean-up and properties of a table."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from indextables.table.handle import TableHandle

if TYPE_CHECKING:
    import pyarrow as pa


class MaintainedTable(TableHandle):
    """The maintenance side of a table."""

    def history(self, *, limit: int | None = None) -> pa.Table:
        """List the versions, the newest first.

        Args:
            limit: the most versions to list.

        Example:
            >>> it.open("logs").history(limit=2)["version"].to_pylist()
            [2, 1]
        """
        return self._log.history(limit=limit)

    def describe_log(self, *, include_all: bool = False) -> pa.Table:
        """List the actions of the log, one per row.

        Args:
            include_all: list the actions of all existing versions, not only of the newest checkpoint and the versions
                after it.

        Example:
            >>> it.open("logs").describe_log(include_all=True).num_rows > 5
            True
        """
        from indextables.maintain.describe import describe_log

        return describe_log(self._log, include_all=include_all)

    def state(self) -> pa.Table:
        """Describe the newest state or checkpoint in one row.

        It also shows whether the state should be compacted.

        Example:
            >>> it.open("logs").state().num_rows
            1
        """
        from indextables.maintain.describe import describe_state

        return describe_state(self._log)

    def fsck(self, *, deep: bool = True) -> pa.Table:
        """Check the table's files without changes, and list the problems, one per row.

        Args:
            deep: read every byte of the live splits.

        Example:
            >>> it.open("logs").fsck().num_rows
            0
        """
        from indextables.maintain.fsck.fsck import fsck

        return fsck(self._log, deep=deep)

    def checkpoint(self) -> pa.Table:
        """Compact the newest version into a checkpoint, and describe it in one row.

        Example:
            >>> it.open("logs").checkpoint().num_rows
            1
        """
        from indextables.maintain.checkpoint import make_checkpoint

        return self._after(make_checkpoint(self._log))

    def compact(self) -> pa.Table:
        """Compact the newest version into a checkpoint: another name for `checkpoint`.

        Example:
            >>> it.open("logs").compact().num_rows
            1
        """
        return self.checkpoint()

    def drop_partitions(self, where: str) -> pa.Table:
        """Remove whole partitions in one version, and describe it in one row.

        Rows that other writers add to these partitions concurrently are removed too.

        Args:
            where: a predicate on partition columns.

        Example:
            >>> t = it.open("logs")
            >>> _ = t.drop_partitions("day < '2026-01-02'")
            >>> len(t)
            2
        """
        from indextables.maintain.drop_partitions import drop_partitions

        return self._after(drop_partitions(self._log, where))

    def restore(
        self, *, version: int | None = None, timestamp: str | datetime.datetime | int | None = None
    ) -> pa.Table:
        """Restore an earlier version as a new version, and describe it in one row.

        A version whose files are gone is refused.

        Args:
            version: the version to restore.
            timestamp: a time as ISO text, a datetime, or milliseconds since 1970.

        Example:
            >>> t = it.open("logs")
            >>> _ = t.restore(version=1)
            >>> t.version, len(t)
            (3, 3)
        """
        from indextables.maintain.restore import restore

        return self._after(restore(self._log, version=version, timestamp=timestamp))

    def merge_splits(
        self,
        *,
        where: str | None = None,
        target_size: int | str | None = None,
        max_dest_splits: int | None = None,
        max_source_splits_per_merge: int | None = None,
        dry_run: bool = False,
    ) -> pa.Table:
        """Merge small splits into large ones, and describe it in one row.

        The rows stay the same.

        Args:
            where: a predicate on partition columns: merge only these partitions.
            target_size: the size of a merged split, in bytes or as text such as `"1G"`.
            max_dest_splits: the most splits to make.
            max_source_splits_per_merge: the most splits to merge into one.
            dry_run: only report the splits that would be merged.

        Example:
            >>> t = it.open("logs")
            >>> _ = t.merge_splits()
            >>> t.num_files
            2
        """
        from indextables.maintain.merge.merge_splits import merge_splits

        answer = merge_splits(
            self._log,
            where=where,
            target_size=target_size,
            max_dest_splits=max_dest_splits,
            max_source_splits_per_merge=max_source_splits_per_merge,
            dry_run=dry_run,
        )
        return self._after(answer, dry_run=dry_run)

    optimize = merge_splits

    def reindex(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> pa.Table:
        """Index splits again that are not indexed as the table requires.

        The rows stay the same. The result is one row.

        Args:
            where: skip splits without rows for which this predicate may be true.
            columns: skip splits in which these columns are indexed correctly.
            splits: paths of splits to index again in any case.
            dry_run: only report the splits that would be indexed.

        Example:
            >>> t = it.open("logs")
            >>> _ = t.set_properties({"indexing.typemap.level": "text"})
            >>> _ = t.reindex()
            >>> t.indexing["level"], t.version
            ('text', 4)
        """
        from indextables.maintain.reindex import reindex

        answer = reindex(self._log, where=where, columns=columns, splits=splits, dry_run=dry_run)
        return self._after(answer, dry_run=dry_run)

    def prewarm(self, *, where: str | None = None) -> pa.Table:
        """Fetch indexes into the local cache of this machine, before they are asked.

        The result is one row.

        Args:
            where: skip splits without rows for which this predicate may be true.

        Example:
            >>> it.open("logs").prewarm()["splits"].to_pylist()
            [3]
        """
        from indextables.maintain.prewarm import prewarm

        return prewarm(self._log, where=where)

    def purge(
        self,
        *,
        older_than: str | datetime.timedelta | None = None,
        log_retention: str | datetime.timedelta | None = None,
        dry_run: bool = False,
    ) -> pa.Table:
        """Delete files that no retained version needs, and describe it in one row.

        Versions cannot be read after their files are deleted.

        Args:
            older_than: keep splits that a version of this age still needs, as in `"7 days"`; by default as configured.
            log_retention: keep files of the log up to this age; by default as configured.
            dry_run: only report the files that would be deleted.

        Example:
            >>> it.open("logs").purge(older_than="30 days", dry_run=True).num_rows
            1
        """
        from indextables.maintain.purge.purge import purge

        answer = purge(self._log, older_than=older_than, log_retention=log_retention, dry_run=dry_run)
        if not dry_run:
            self._moved(self.version)
        return answer

    vacuum = purge

    def truncate_time_travel(self, *, dry_run: bool = False) -> pa.Table:
        """Delete the log of all versions but the newest, after a checkpoint of it.

        Splits stay until a `purge`. The result is one row.

        Args:
            dry_run: only report the files that would be deleted.

        Example:
            >>> it.open("logs").truncate_time_travel(dry_run=True).num_rows
            1
        """
        from indextables.maintain.truncate import truncate_time_travel

        return self._after(truncate_time_travel(self._log, dry_run=dry_run), dry_run=dry_run)

    def merge_jobs(self) -> pa.Table:
        """List the merges that writes of this process started, of any table.

        The newest is first. Old ones are dropped.

        Example:
            >>> "status" in it.open("logs").merge_jobs().column_names
            True
        """
        from indextables.maintain.merge.merge_jobs import list_merge_jobs

        return list_merge_jobs()

    def set_properties(self, properties: Mapping[str, str | None]) -> int:
        """Set properties of the table, and return the new version.

        Args:
            properties: values by key; None removes a property.

        Example:
            >>> t = it.open("logs")
            >>> t.set_properties({"owner": "ops"})
            3
            >>> t.metadata.configuration["owner"]
            'ops'
        """
        return self._moved(self._log.set_properties(properties))

    def skipped_files(self) -> pa.Table:
        """List the files that an operation could not process.

        Example:
            >>> it.open("logs").skipped_files().num_rows
            0
        """
        from indextables.maintain.describe import list_skipped_files

        return list_skipped_files(self.snapshot.skips.values())

    def invalidate_cache(self) -> None:
        """Drop all cached data of the log and of splits.

        Example:
            >>> it.open("logs").invalidate_cache()
        """
        self._log.invalidate_cache()
        self.flush_search_cache()

    def flush_search_cache(self) -> None:
        """Close the splits that searches have opened, and drop kept answers.

        Their extracted indexes stay on local disk.

        Example:
            >>> it.open("logs").flush_search_cache()
        """
        self._opened.clear()
        self._answers.clear()
