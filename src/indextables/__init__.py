"""IndexTables: an open table format that makes data in object storage searchable in place.

import indextables as it

log = it.TransactionLog("/data/logs")
log.list_files()
"""

from typing import TYPE_CHECKING, Any

from indextables import errors, spark
from indextables._version import __version__
from indextables.ops.repair import repair
from indextables.protocol import actions
from indextables.split.snippets import Snippet
from indextables.table import Table
from indextables.transaction_log import TransactionLog

if TYPE_CHECKING:
    from indextables.spark.enabling import enable
    from indextables.spark.reading import read
    from indextables.spark.statements import sql

__all__ = [
    "Snippet",
    "Table",
    "TransactionLog",
    "__version__",
    "actions",
    "enable",
    "errors",
    "read",
    "repair",
    "spark",
    "sql",
]


def __getattr__(name: str) -> Any:
    if name in ("enable", "read", "sql"):  # they import PySpark, which is optional
        return getattr(spark, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
