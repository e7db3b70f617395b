"""A tour of maintenance: merge small splits, undo a mistake, repair damage, purge.

    python examples/maintenance_tour.py

It creates a table in a temporary directory, which is removed at the end. It needs no server and no Spark.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa

import indextables as it

SCHEMA = pa.schema([("day", pa.string()), ("message", pa.string())])
DAYS = ("mon", "tue", "wed")
NUM_WRITES = 20


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        table = it.Table.create(Path(place, "logs"), SCHEMA, partition_by=("day",), indexing={"message": "text"})
        write(table)
        merge(table)
        undo(table)
        mend(table, Path(place, "mended"))
        purge(table)


def write(table: it.Table) -> None:
    """Commit a few rows at a time: each commit leaves a split per partition."""
    for number in range(NUM_WRITES):
        messages = [f"request {number} on {day}: {'timeout' if number % 5 == 0 else 'served'}" for day in DAYS]
        table.append(pa.table({"day": DAYS, "message": messages}, SCHEMA))
    print(f"written: {table.num_files} splits, {table.count('timeout')} timeouts")


def merge(table: it.Table) -> None:
    """Merge the splits: few large splits are faster, and rows and hits stay the same."""
    (plan,) = table.merge_splits(dry_run=True).to_pylist()
    print(f"a merge would write {plan['merge_groups']} splits from {plan['merged_files']}")
    table.merge_splits()
    print(f"merged: {table.num_files} splits, {table.count('timeout')} timeouts")


def undo(table: it.Table) -> None:
    """Drop partitions by mistake, and restore them; both make a new version."""
    before = table.version
    (dropped,) = table.drop_partitions("day <> 'mon'").to_pylist()
    print(f"dropped {dropped['partitions_dropped']} partitions by mistake: {table.num_records} rows are left")
    table.restore(version=before)
    print(f"restored version {before}: {table.num_records} rows")


def mend(table: it.Table, clean_log: Path) -> None:
    """Lose a split, find the damage, and write a clean log without the split."""
    Path(table.url, table.files()["path"][0].as_py()).unlink()
    for problem in table.fsck().to_pylist():
        print(f"{problem['severity']}: {Path(problem['path']).parent}: {problem['problem']}")
    (repaired,) = it.repair(table.url, target_url=str(clean_log)).to_pylist()
    print(f"repaired: {repaired['valid_splits']} of {repaired['total_splits']} splits are undamaged")
    shutil.rmtree(Path(table.url, "_transaction_log"))
    shutil.move(clean_log, Path(table.url, "_transaction_log"))
    mended = it.Table.open(table.url)
    print(f"mended: {mended.num_files} splits, {mended.num_records} rows, {mended.fsck().num_rows} problems")


def purge(table: it.Table) -> None:
    """Delete files that no version needs.

    The files are only seconds old, so the check that protects the files of running writers is switched off.
    """
    mended = it.Table.open(table.url, options={"purge.retentionCheckEnabled": False})
    (purged,) = mended.purge(older_than="0 hours").to_pylist()
    print(f"purged: {purged['orphaned_files_deleted']} files; {mended.count('timeout')} timeouts are still found")


if __name__ == "__main__":
    main()
