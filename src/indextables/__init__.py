"""IndexTables: an open table format for search in object storage.

import indextables as it

t = it.write("logs", [{"id": 1, "message": "disk full"}], text=["message"])
t.search("disk").to_pylist()

Names are imported on first use, so that the import of the package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from indextables._version import __version__

if TYPE_CHECKING:
    from indextables import errors, spark
    from indextables.maintain.repair.repair import repair
    from indextables.protocol import actions
    from indextables.spark.scan.reading import read
    from indextables.spark.sessions.enabling import enable
    from indextables.spark.statements.run import sql
    from indextables.split.search.snippets import Snippet
    from indextables.table import Table
    from indextables.table.functions import open, write  # noqa: A004 - the name that people expect
    from indextables.transaction_log import TransactionLog

__all__ = [
    "Snippet",
    "Table",
    "TransactionLog",
    "__version__",
    "actions",
    "enable",
    "errors",
    "open",
    "read",
    "repair",
    "spark",
    "sql",
    "write",
]

_HOMES = {
    "Snippet": "split.search.snippets",
    "Table": "table",
    "TransactionLog": "transaction_log",
    "enable": "spark",
    "open": "table.functions",
    "read": "spark",
    "repair": "maintain.repair.repair",
    "sql": "spark",
    "write": "table.functions",
}
_MODULES = {"actions": "protocol.actions", "errors": "errors", "spark": "spark"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
