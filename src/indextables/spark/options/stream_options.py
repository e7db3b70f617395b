"""The options of a streaming read: start, bounds of a batch, removed rows."""

from __future__ import annotations

from typing import NamedTuple

from indextables.config.values import BadValueError, Size
from indextables.errors import ConfigError
from indextables.scan.added_rows import FAIL, ON_REMOVED_ROWS, Limit
from indextables.spark.options.source_options import STREAM_READ_OPTIONS, SourceOptions

LATEST = "latest"
BOUNDS = ("maxFilesPerTrigger", "maxBytesPerTrigger")
# With this bound, the first read of a large table is many batches, and a stream resumes after each of them.
MAX_FILES = 1_000


class StreamOptions(NamedTuple):
    """Start of a stream, and the bounds of a batch.

    The start is a version, `latest`, a timestamp, or all rows of the table.
    """

    starting_version: int | str | None
    starting_timestamp: str | None
    limit: Limit
    on_removed_rows: str

    @classmethod
    def parse(cls, asked: SourceOptions) -> StreamOptions:
        """Parse the options of a stream; refuse invalid ones and those of batch reads."""
        _refuse_others(asked)
        given = asked.stream
        version, timestamp = given.get("startingVersion"), given.get("startingTimestamp")
        if version is not None and timestamp is not None:
            raise ConfigError(
                "cannot start a stream at a version and at a timestamp at once: give one of "
                "`startingVersion` and `startingTimestamp`"
            )
        max_bytes = None if "maxBytesPerTrigger" not in given else _size(given["maxBytesPerTrigger"])
        most = MAX_FILES if max_bytes is None else None
        max_files = most if "maxFilesPerTrigger" not in given else _count(given["maxFilesPerTrigger"])
        removed = given.get("onRemovedRows", FAIL).strip().lower()
        if removed not in ON_REMOVED_ROWS:
            raise _bad("onRemovedRows", given["onRemovedRows"], ", ".join(f"`{name}`" for name in ON_REMOVED_ROWS))
        return cls(None if version is None else _version(version), timestamp, Limit(max_files, max_bytes), removed)


def _refuse_others(asked: SourceOptions) -> None:
    other = {
        "limit": asked.limit,
        "score": asked.score or None,
        "snippet": asked.snippet,
        "versionAsOf": asked.version,
        "timestampAsOf": asked.timestamp,
        "partitionBy": asked.partition_by,
        "replaceWhere": asked.replace_where,
        "ifVersion": asked.if_version,
        "txnAppId": asked.txn_app_id,
        "txnVersion": asked.txn_version,
        **{name: text for name, text in asked.stream.items() if name not in STREAM_READ_OPTIONS},
    }
    given = next((name for name, value in other.items() if value is not None), None)
    if given is not None:
        starts = given in ("versionAsOf", "timestampAsOf")
        raise ConfigError(
            f"cannot read a stream with the option `{given}`",
            hint="a stream starts at `startingVersion` or `startingTimestamp`" if starts else None,
        )


def _version(text: str) -> int | str:
    word = text.strip().lower()
    if word == LATEST:
        return LATEST
    if not word.isascii() or not word.isdigit():
        raise _bad("startingVersion", text, f"a version, or `{LATEST}`")
    return int(word)


def _count(text: str) -> int:
    word = text.strip()
    if not word.isascii() or not word.isdigit() or not int(word):
        raise _bad("maxFilesPerTrigger", text, "a whole number of at least 1")
    return int(word)


def _size(text: str) -> int:
    kind = Size(low=1)
    try:
        return kind.read(text)
    except BadValueError as error:
        raise _bad("maxBytesPerTrigger", text, kind.expected) from error


def _bad(option: str, text: str, expected: str) -> ConfigError:
    return ConfigError(f"cannot use `{text}` for the option `{option}`: expected {expected}")
