"""Spark: the data source, native scans, and ready sessions.

PySpark is an optional dependency with a slow import, so it is only imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from indextables.errors import ConfigError

if TYPE_CHECKING:
    from indextables.spark.scan.reading import read
    from indextables.spark.sessions.enabling import enable
    from indextables.spark.sessions.local import session
    from indextables.spark.statements.run import sql

__all__ = ["enable", "read", "session", "sql"]

_MODULES = {"enable": "sessions.enabling", "read": "scan.reading", "session": "sessions.local", "sql": "statements.run"}


def check_pyspark() -> None:
    """Raise `ConfigError` if PySpark is not installed."""
    try:
        importlib.import_module("pyspark")
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise ConfigError(
            "cannot work with Spark because `pyspark` is not installed",
            hint="install it with `pip install 'indextables[spark]'`",
        ) from error


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        check_pyspark()
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
