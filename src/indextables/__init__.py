"""IndexTables: an open table format that makes data in object storage searchable in place.

import indextables as it

log = it.TransactionLog("/data/logs")
log.list_files()
"""

from indextables import errors
from indextables._version import __version__
from indextables.protocol import actions
from indextables.split.snippets import Snippet
from indextables.table import Table
from indextables.transaction_log import TransactionLog

__all__ = ["Snippet", "Table", "TransactionLog", "__version__", "actions", "errors"]
