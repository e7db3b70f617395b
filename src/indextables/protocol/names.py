"""Names of the files in a transaction log."""

from __future__ import annotations

import re

LOG_DIRECTORY = "_transaction_log"
LAST_CHECKPOINT = "_last_checkpoint"
MAX_VERSION = 10**18

_VERSION = re.compile(r"(\d{20})\.json")
_STATE = re.compile(r"state-v(\d{20})/_manifest\.(?:avro|json)")
_CHECKPOINT = re.compile(r"(?:_checkpoints/)?(\d{20})\.checkpoint\.(?:json|parquet)(?:/.*)?")


def version_key(version: int) -> str:
    """The key of a version file, from the table root."""
    return f"{LOG_DIRECTORY}/{version:020d}.json"


def state_keys(version: int) -> tuple[str, str]:
    """The keys under which the state of a version may stand, from the table root."""
    directory = f"{LOG_DIRECTORY}/state-v{version:020d}"
    return f"{directory}/_manifest.avro", f"{directory}/_manifest.json"


def parse_version_key(key: str) -> int | None:
    """The version that a key under the log directory stands for, or None for any other file."""
    match = _VERSION.fullmatch(key, len(LOG_DIRECTORY) + 1)
    return _number(match)


def parse_checkpoint_key(key: str) -> int | None:
    """The version of the state or checkpoint that a key belongs to, or None for any other file."""
    start = len(LOG_DIRECTORY) + 1
    return _number(_STATE.fullmatch(key, start) or _CHECKPOINT.fullmatch(key, start))


def _number(match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    number = int(match.group(1))
    return number if number <= MAX_VERSION else None
