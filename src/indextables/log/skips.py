"""Files that an operation could not process: which of them are to be left alone now. They stay live all the time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from indextables.clock import format_timestamp_ms
from indextables.protocol.actions import Add, Skip

logger = logging.getLogger(__name__)

FileList = TypeVar("FileList", pa.Table, list[Add], list[str])


def in_cooldown(skips: Iterable[Skip], now_ms: int) -> dict[str, int]:
    """The paths whose cooldown has not ended, with the moment when it does."""
    return {skip.path: skip.retry_after for skip in skips if skip.retry_after is not None and skip.retry_after > now_ms}


def without_paths(files: FileList, paths: Mapping[str, int]) -> FileList:
    """The files less those paths, in the form in which they were given: a file table, adds, or paths."""
    if not paths:
        return files
    if isinstance(files, pa.Table):
        unwanted = pc.is_in(files["path"], value_set=pa.array(list(paths), pa.string()))
        kept: Any = files.filter(pc.invert(unwanted))
    else:
        kept = [file for file in files if (file.path if isinstance(file, Add) else file) not in paths]
    _tell(len(files) - len(kept), paths)
    return cast("FileList", kept)


def _tell(num_left_alone: int, paths: Mapping[str, int]) -> None:
    if not num_left_alone:
        return
    logger.info("%d files are left alone, as their cooldown has not ended", num_left_alone)
    if logger.isEnabledFor(logging.DEBUG):
        for path, retry_after in paths.items():
            logger.debug("`%s` is in cooldown until %s", path, format_timestamp_ms(retry_after))
