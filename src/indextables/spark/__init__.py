"""Spark: the data source, native scans, and ready sessions.

PySpark is an optional dependency, and takes a while to import: nothing of it is before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from indextables.errors import ConfigError

if TYPE_CHECKING:
    from indextables.spark.enabling import enable
    from indextables.spark.reading import read
    from indextables.spark.sessions import session
    from indextables.spark.statements import sql

__all__ = ["enable", "read", "session", "sql"]

_MODULES = {"enable": "enabling", "read": "reading", "session": "sessions", "sql": "statements"}


def check_pyspark() -> None:
    """Refuse where PySpark is not installed: `ConfigError`."""
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
