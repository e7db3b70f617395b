"""Files in cooldown after an operation failed on them; they stay live."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from indextables.arrow_values import to_array
from indextables.clock import format_timestamp_ms
from indextables.protocol.actions import Add, Skip

logger = logging.getLogger(__name__)

FileList = TypeVar("FileList", pa.Table, list[Add], list[str])


def in_cooldown(skips: Iterable[Skip], now_ms: int) -> dict[str, int]:
    """Return the paths whose cooldown has not ended, with the end of it."""
    return {skip.path: skip.retry_after for skip in skips if skip.retry_after is not None and skip.retry_after > now_ms}


def without_paths(files: FileList, paths: Mapping[str, int]) -> FileList:
    """Return the files without these paths, in the same form: a table, adds, or paths."""
    if not paths:
        return files
    if isinstance(files, pa.Table):
        unwanted = pc.is_in(files["path"], value_set=to_array(list(paths), pa.string()))
        kept: Any = files.filter(pc.invert(unwanted))
    else:
        kept = [file for file in files if (file.path if isinstance(file, Add) else file) not in paths]
    _log_skipped(len(files) - len(kept), paths)
    return cast("FileList", kept)


def _log_skipped(num_skipped: int, paths: Mapping[str, int]) -> None:
    if not num_skipped:
        return
    logger.info("%d files are skipped because their cooldown has not ended", num_skipped)
    if logger.isEnabledFor(logging.DEBUG):
        for path, retry_after in paths.items():
            logger.debug("`%s` is in cooldown until %s", path, format_timestamp_ms(retry_after))
