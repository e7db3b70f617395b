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
_SHEET = re.compile(rf"{LOG_DIRECTORY}/filters/([0-9]{{20}})\.sheet")
_MANIFEST = re.compile(rf"{LOG_DIRECTORY}/(?:manifests|state-v[0-9]{{20}})/[^/_][^/]*\.avro")


def version_key(version: int) -> str:
    """Return the key of a version file, from the table root."""
    return f"{LOG_DIRECTORY}/{version:020d}.json"


def state_keys(version: int) -> tuple[str, str]:
    """Return the possible keys of the state of a version, from the table root."""
    directory = f"{LOG_DIRECTORY}/state-v{version:020d}"
    return f"{directory}/_manifest.avro", f"{directory}/_manifest.json"


def parse_version_key(key: str) -> int | None:
    """Return the version of a version file's key, or None for any other file."""
    return _number(_VERSION.fullmatch(key))


def parse_checkpoint_key(key: str) -> int | None:
    """Return the version of a state's or checkpoint's key, or None for any other file."""
    return _number(_CHECKPOINT.fullmatch(key))


def parse_part_key(key: str) -> int | None:
    """Return the version of a JSON checkpoint part's key, or None for any other file."""
    return _number(_PART.fullmatch(key))


def sheet_key(run: int) -> str:
    """Return the key of the filter sheet of the manifests that a version laid out."""
    return f"{LOG_DIRECTORY}/filters/{run:020d}.sheet"


def parse_sheet_key(key: str) -> int | None:
    """Return the run of a filter sheet's key, or None for any other file."""
    return _number(_SHEET.fullmatch(key))


def is_manifest_key(key: str) -> bool:
    """Return True for the key of a manifest of files, shared or inside a state."""
    return _MANIFEST.fullmatch(key) is not None


def table_below(key: str) -> str | None:
    """Return the prefix of a table below this one, if the key is part of its log."""
    root, inside, _ = key.partition(f"/{LOG_DIRECTORY}/")
    return f"{root}/" if inside and root != LOG_DIRECTORY else None


def _number(match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    number = int(match[match.lastindex or 1])
    return number if number <= MAX_VERSION else None
