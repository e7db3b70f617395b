"""Describe the log of a table, a row an action: what is in force, or everything that was written.

Works on a table whose state cannot be read: then its version files are all there is to show.
"""

from __future__ import annotations

import logging

import pyarrow as pa

from indextables.errors import CorruptLogError, ProtocolError
from indextables.log.describe import DESCRIBE_SCHEMA, describe_checkpoint, describe_versions
from indextables.ops.newest_checkpoint import Checkpoint, newest_checkpoint
from indextables.transaction_log import TransactionLog

logger = logging.getLogger(__name__)

LOG_SCHEMA = DESCRIBE_SCHEMA


def describe_log(log: TransactionLog, *, include_all: bool = False) -> pa.Table:
    """The newest checkpoint that can be used and the versions after it, or every version that is there, oldest first.

    Where there is no such checkpoint, both are the same.
    """
    found = None if include_all else _newest_checkpoint(log)
    if found is None:
        return log.describe()
    later = [version for version in log.versions() if version > found.snapshot.version]
    return pa.concat_tables(
        [
            describe_checkpoint(found.snapshot, found.key),
            describe_versions(log.reader.read_versions(later)),
        ]
    )


def _newest_checkpoint(log: TransactionLog) -> Checkpoint | None:
    try:
        return newest_checkpoint(log).found
    except (CorruptLogError, ProtocolError) as error:
        logger.warning("describing the version files of `%s` alone: %s", log.url, error.message)
        return None
