"""What the tests of writing share: saves, and what a table and its directory hold afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import indextables as it


def save(frame: Any, url: Any, mode: str = "append", **options: str) -> None:
    """Save a DataFrame. `__` in the name of an option stands for a dot."""
    named = {key.replace("__", "."): value for key, value in options.items()}
    frame.write.format("indextables").mode(mode).options(**named).save(str(url))


def numbers(url: Any, version: int | None = None) -> list[int]:
    """The ids of all rows, sorted."""
    found = it.Table.open(url, version=version).search(columns=["id"])
    return sorted(found["id"].to_pylist())


def orphans(url: Any) -> set[str]:
    """The splits on disk that no version names."""
    on_disk = {str(path.relative_to(url)) for path in Path(url).rglob("*.split")}
    if not Path(url, "_transaction_log").exists():
        return on_disk
    log = it.TransactionLog(url)
    actions = [action for version in log.versions() for action in log.read_version(version)]
    return on_disk - {action.path for action in actions if isinstance(action, it.actions.Add)}
