"""Paths of splits: one spelling for one file, and never a file outside the table.

Writers of this format have used relative paths, and absolute URLs with any alias of the scheme. Both become the same
relative path before the fold, so that a remove matches its add. Other engines match paths by exact text, so a tag keeps
the written form of a path, and later actions on the file use this form. Partition values are escaped in the path as in
Hive, and literal in `partitionValues`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from indextables.errors import ConfigError
from indextables.location import Location, has_scheme, parse_location
from indextables.protocol.names import LOG_DIRECTORY

WRITTEN_PATH_TAG = "indextables.writtenPath"
"""Tag with the written path of a file, if it was not relative; in memory only."""

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^<>|]")
_NOT_A_NAME = frozenset({"", "."})
_MOST_CHARACTERS = 4096  # no store has longer keys, and no file system has longer paths
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_SCHEME_LIKE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_OUR_SPLIT = re.compile(r"(?:.*/)?split-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.split", re.ASCII | re.DOTALL)


def normalize_path(path: str, table: Location) -> str:
    """Return the path relative to the table root.

    `ValueError` has the reason of a refusal.
    """
    if len(path) > _MOST_CHARACTERS:
        raise ValueError(f"it is {len(path)} characters long, and no store has names of over {_MOST_CHARACTERS}")
    if ".." in path and ".." in path.split("/"):
        raise ValueError("it leaves the table, or might, by a `..` segment")
    if path.startswith("/") or (":" in path and has_scheme(path)):
        path = _inside(path, table)
    if not _NOT_A_NAME.isdisjoint(path.split("/")):
        raise ValueError("it has an empty or `.` segment")
    if not (path.isascii() and path.isprintable()) and _UNFIT.search(path):
        raise ValueError("it has a control character or half of a surrogate pair")
    if ":" in path and _SCHEME_LIKE.match(path):
        raise ValueError("it is neither a URL nor a relative path")
    if path == LOG_DIRECTORY or path.startswith(LOG_DIRECTORY + "/"):
        raise ValueError("it points into the transaction log")
    return path


def remembered(tags: Mapping[str, str] | None, written: str) -> dict[str, str]:
    """Return the tags with the written form of a path added."""
    return {**(tags or {}), WRITTEN_PATH_TAG: written}


def as_written(path: str, tags: Mapping[str, str] | None) -> tuple[str, dict[str, str] | None]:
    """Return the written form of a path, and the tags without it."""
    if not tags or WRITTEN_PATH_TAG not in tags:
        return path, None if tags is None else dict(tags)
    rest = {key: value for key, value in tags.items() if key != WRITTEN_PATH_TAG}
    return tags[WRITTEN_PATH_TAG], rest or None


def _inside(path: str, table: Location) -> str:
    if path.endswith("/"):
        raise ValueError("it names a directory")
    try:
        inside = table.relative(parse_location(path))
    except ConfigError as error:
        raise ValueError(f"its address cannot be read ({error.message})") from error
    if not inside:
        raise ValueError("it is outside the table")
    return inside


def escape_partition_value(value: str | None) -> str:
    """Escape a partition value for a directory name.

    Like in Hive, "" is written as null.
    """
    if value is None or value == "":
        return HIVE_NULL
    if value == HIVE_NULL:
        return f"%{ord(value[0]):02X}{value[1:]}"
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", value)


def unescape_partition_value(text: str) -> str | None:
    """Return the partition value of a directory name."""
    if text == HIVE_NULL:
        return None
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda match: chr(int(match.group(1), 16)), text)


def split_path(partition_columns: tuple[str, ...], partition_values: dict[str, str | None], split_id: str) -> str:
    """Return the path of a new split: `[k=v/...]splits/split-<id>.split`."""
    directories = [
        f"{escape_partition_value(column)}={escape_partition_value(partition_values.get(column))}"
        for column in partition_columns
    ]
    return "/".join([*directories, "splits", f"split-{split_id}.split"])


def named_split_id(path: str) -> str | None:
    """Return the id in the name of a split, or None for a name not from `split_path`."""
    match = _OUR_SPLIT.fullmatch(path)
    return None if match is None else match.group(1)
