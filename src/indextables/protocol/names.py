"""Names of the files in a transaction log."""

from __future__ import annotations

import re

LOG_DIRECTORY = "_transaction_log"
LAST_CHECKPOINT = "_last_checkpoint"
MAX_VERSION = 10**18

_VERSION = re.compile(rf"{LOG_DIRECTORY}/([0-9]{{20}})\.json")
_CHECKPOINT = re.compile(
    rf"{LOG_DIRECTORY}/(?:"
    r"state-v([0-9]{20})/_manifest\.(?:avro|json)"
    r"|(?:_checkpoints/)?([0-9]{20})\.checkpoint\.(?:json|parquet(?:/.+)?)"
    r")"
)

_PART = re.compile(rf"{LOG_DIRECTORY}/([0-9]{{20}})\.checkpoint\.[^/.]+\.[0-9]+\.json")
_MANIFEST = re.compile(rf"{LOG_DIRECTORY}/(?:manifests|state-v[0-9]{{20}})/[^/_][^/]*\.avro")


def version_key(version: int) -> str:
    """The key of a version file, from the table root."""
    return f"{LOG_DIRECTORY}/{version:020d}.json"


def state_keys(version: int) -> tuple[str, str]:
    """The keys under which the state of a version may stand, from the table root."""
    directory = f"{LOG_DIRECTORY}/state-v{version:020d}"
    return f"{directory}/_manifest.avro", f"{directory}/_manifest.json"


def parse_version_key(key: str) -> int | None:
    """The version that a key stands for, or None for any other file."""
    return _number(_VERSION.fullmatch(key))


def parse_checkpoint_key(key: str) -> int | None:
    """The version of the state or checkpoint that a key belongs to, or None for any other file."""
    return _number(_CHECKPOINT.fullmatch(key))


def parse_part_key(key: str) -> int | None:
    """The version of the JSON checkpoint that a key is a part of, or None for any other file."""
    return _number(_PART.fullmatch(key))


def is_manifest_key(key: str) -> bool:
    """Whether a key has the name of a manifest of files, shared or inside of a state."""
    return _MANIFEST.fullmatch(key) is not None


def table_below(key: str) -> str | None:
    """The prefix of the table that lies below this one, where a key is of that table's log."""
    root, inside, _ = key.partition(f"/{LOG_DIRECTORY}/")
    return f"{root}/" if inside and root != LOG_DIRECTORY else None


def _number(match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    number = int(match[match.lastindex or 1])
    return number if number <= MAX_VERSION else None
