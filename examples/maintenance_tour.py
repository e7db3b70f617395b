"""A tour of maintenance: many small splits merged, a mistake undone, damage found and mended, and a purge.

    python examples/maintenance_tour.py

It makes a table in a temporary directory, which is removed at the end. Nothing else is needed: no server, no Spark.
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
    """A writer that commits every few rows leaves a split per partition each time."""
    for number in range(NUM_WRITES):
        messages = [f"request {number} on {day}: {'timeout' if number % 5 == 0 else 'served'}" for day in DAYS]
        table.append(pa.table({"day": DAYS, "message": messages}, SCHEMA))
    print(f"written: {table.num_files} splits, {table.count('timeout')} timeouts")


def merge(table: it.Table) -> None:
    """Few large splits answer faster; rows and searches stay the same."""
    (plan,) = table.merge_splits(dry_run=True).to_pylist()
    print(f"a merge would make {plan['merge_groups']} splits of {plan['merged_files']}")
    table.merge_splits()
    print(f"merged: {table.num_files} splits, {table.count('timeout')} timeouts")


def undo(table: it.Table) -> None:
    """A drop of partitions is a version like any other, and so is the way back."""
    before = table.version
    (dropped,) = table.drop_partitions("day <> 'mon'").to_pylist()
    print(f"dropped {dropped['partitions_dropped']} partitions by mistake: {table.num_records} rows are left")
    table.restore(version=before)
    print(f"restored version {before}: {table.num_records} rows")


def mend(table: it.Table, clean_log: Path) -> None:
    """A split is lost; the check finds it, and a clean log without it is written beside the old one."""
    Path(table.url, table.files()["path"][0].as_py()).unlink()
    for problem in table.fsck().to_pylist():
        print(f"{problem['severity']}: {Path(problem['path']).parent}: {problem['problem']}")
    (repaired,) = it.repair(table.url, target_url=str(clean_log)).to_pylist()
    print(f"repaired: {repaired['valid_splits']} of {repaired['total_splits']} splits are whole")
    shutil.rmtree(Path(table.url, "_transaction_log"))
    shutil.move(clean_log, Path(table.url, "_transaction_log"))
    mended = it.Table.open(table.url)
    print(f"mended: {mended.num_files} splits, {mended.num_records} rows, {mended.fsck().num_rows} problems")


def purge(table: it.Table) -> None:
    """Files that no version needs are deleted once they are old enough. Here they are seconds old, so the guard that
    keeps the files of writers under way is switched off."""
    mended = it.Table.open(table.url, options={"purge.retentionCheckEnabled": False})
    (purged,) = mended.purge(older_than="0 hours").to_pylist()
    print(f"purged: {purged['orphaned_files_deleted']} files; {mended.count('timeout')} timeouts are still found")


if __name__ == "__main__":
    main()
