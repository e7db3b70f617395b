"""Drop partitions: remove the files of matching partitions in one version."""

from __future__ import annotations

import pyarrow as pa

from indextables.errors import SchemaError
from indextables.log.commit.operations import DropPartitions
from indextables.maintain.one_row import answer_schema, one_row
from indextables.protocol.actions import Remove
from indextables.prune.partitions import PartitionChoice
from indextables.prune.scopes import scope_of_predicate
from indextables.transaction_log import TransactionLog

DROPPED_SCHEMA = answer_schema(
    table_path=pa.string(),
    status=pa.string(),
    partitions_dropped=pa.int64(),
    splits_removed=pa.int64(),
    total_size_bytes=pa.int64(),
    message=pa.string(),
)


def drop_partitions(log: TransactionLog, where: str) -> pa.Table:
    """Remove the partitions that match a predicate on partition columns.

    Files that other writers add to these partitions before the commit are removed too. Removed files remain in the
    store for time travel until a purge.
    """
    choice = PartitionChoice(where, log.reader.head()[1])
    if not choice.columns:
        raise SchemaError(
            f"cannot drop partitions by `{where}` because it names no partition column",
            hint="to remove all rows, overwrite the table with none",
        )
    result = log.commit(DropPartitions(scope_of_predicate(where, [])))
    removed = [action for action in result.actions if isinstance(action, Remove)]
    partitions = {tuple(sorted((action.partition_values or {}).items())) for action in removed}
    row = {
        "table_path": log.url,
        "status": "SUCCESS" if removed else "NO_ACTION",
        "partitions_dropped": len(partitions),
        "splits_removed": len(removed),
        "total_size_bytes": sum(action.size or 0 for action in removed),
        "message": f"removed in version {result.version}" if removed else "no partition of the table is chosen",
    }
    return one_row(DROPPED_SCHEMA, row)
