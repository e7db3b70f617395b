"""The options of `format("indextables")` and the settings among them.

Spark passes keys in lower case and values as text. A key that is neither an option of the source nor a setting is an
error that names the nearest key.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from indextables.config import lookup
from indextables.config.resolve import PREFIX
from indextables.errors import ConfigError

NAME = "indextables"
READ_OPTIONS = ("search", "where", "columns", "limit", "score", "snippet", "versionAsOf", "timestampAsOf")
WRITE_OPTIONS = ("partitionBy", "replaceWhere", "partitionOverwriteMode", "ifVersion", "txnAppId", "txnVersion")
STREAM_READ_OPTIONS = (
    "startingVersion",
    "startingTimestamp",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "onRemovedRows",
)
# Spark passes the name of a query among the options.
STREAM_WRITE_OPTIONS = ("checkpointLocation", "queryName")
STREAM_OPTIONS = (*STREAM_READ_OPTIONS, *STREAM_WRITE_OPTIONS)
_PATH = "path"
# Set by the package itself: predicates that only exclude splits and never rows, search predicates as JSON, an id of the
# load, and whether the schema carries the version.
HINTS = "hints"
SEARCHES = "searches"
LOAD_ID = "loadId"
SHOW_VERSION = "showVersion"
# Set by the package itself: the save mode of a save that only creates new tables.
CREATE_ONLY = "createOnly"
IGNORE = "Ignore"
# Set by the package itself: the id of the table that a write is planned for.
TABLE_ID = "tableId"
# Set by the package itself: the caller runs the maintenance after a save, so the commit skips it.
LOOKED_AFTER = "lookedAfter"
_INTERNAL = (HINTS, SEARCHES, LOAD_ID, SHOW_VERSION, CREATE_ONLY, TABLE_ID, LOOKED_AFTER)
_ALL = (_PATH, *READ_OPTIONS, *WRITE_OPTIONS, *STREAM_OPTIONS, *_INTERNAL)
_OWN = {name.lower(): name for name in _ALL}
_TRUTH = {"true": True, "false": False}


class SourceOptions(NamedTuple):
    """The parsed options of one load or save.

    `settings` maps keys of the configuration to their text, `stream` holds the options of streams.
    """

    url: str
    search: str | None = None
    where: str | None = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    score: bool = False
    snippet: str | None = None
    version: int | None = None
    timestamp: str | None = None
    hints: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    shows_version: bool = False
    partition_by: tuple[str, ...] | None = None
    replace_where: str | None = None
    is_dynamic: bool = False
    if_version: int | None = None
    create_only: str | None = None
    table_id: str | None = None
    is_looked_after: bool = False
    txn_app_id: str | None = None
    txn_version: int | None = None
    stream: Mapping[str, str] = {}
    settings: Mapping[str, str] = {}

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse the options that Spark passes; refuse unknown and invalid ones."""
        own: dict[str, str] = {}
        settings: dict[str, str] = {}
        for key, text in options.items():
            name = _OWN.get(key.lower())
            if name is not None:
                own[name] = text
            else:
                settings[_known_setting(key)] = text
        if not own.get(_PATH):
            raise ConfigError(
                "cannot find the table because no path is given",
                hint='give one, as in `.load("/data/logs")`; tables of a catalog need `indextables.enable(spark)`',
            )
        return cls(
            url=own[_PATH],
            search=own.get("search"),
            where=own.get("where"),
            columns=_names(own, "columns"),
            limit=_whole(own, "limit"),
            score=_truth(own, "score"),
            snippet=own.get("snippet"),
            version=_whole(own, "versionAsOf"),
            timestamp=own.get("timestampAsOf"),
            hints=_names(own, HINTS) or (),
            searches=_names(own, SEARCHES) or (),
            shows_version=_truth(own, SHOW_VERSION),
            partition_by=_names(own, "partitionBy"),
            replace_where=own.get("replaceWhere"),
            is_dynamic=_is_dynamic(own),
            if_version=_whole(own, "ifVersion"),
            create_only=own.get(CREATE_ONLY),
            table_id=own.get(TABLE_ID),
            is_looked_after=_truth(own, LOOKED_AFTER),
            txn_app_id=own.get("txnAppId"),
            txn_version=_whole(own, "txnVersion"),
            stream={name: own[name] for name in STREAM_OPTIONS if name in own},
            settings=settings,
        )

    def __repr__(self) -> str:
        """Return the options without the values of settings, which may be secrets."""
        given = {**self._asdict(), "settings": sorted(self.settings)}
        return f"SourceOptions({', '.join(f'{name}={value!r}' for name, value in given.items() if value)})"

    def to_options(self) -> dict[str, str]:
        """Return the options of a load as text."""
        named = {
            _PATH: self.url,
            "search": self.search,
            "where": self.where,
            "columns": None if self.columns is None else names_as_option(self.columns),
            "limit": self.limit,
            "score": "true" if self.score else None,
            "snippet": self.snippet,
            "versionAsOf": self.version,
            "timestampAsOf": self.timestamp,
        }
        return {**{name: str(value) for name, value in named.items() if value is not None}, **self.settings}

    def check_batch(self) -> None:
        """Refuse the options of streams."""
        given = next(iter(self.stream), None)
        if given is not None:
            raise ConfigError(
                f"cannot use the option `{given}` because only streams have it",
                hint="use `readStream` and `writeStream`",
            )

    @property
    def is_plain(self) -> bool:
        """Whether a load reads all rows unchanged.

        Spark's own Parquet scan can serve it then.
        """
        asked = (self.search, self.where, self.columns, self.limit, self.snippet)
        return not (self.score or self.hints or self.searches) and all(value is None for value in asked)


def names_as_option(names: Sequence[str]) -> str:
    """Encode names as the text of an option; they may contain any character."""
    return json.dumps(list(names))


def option_text(value: object) -> str:
    """Return the value of a setting as the text of an option."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(own: Mapping[str, str], option: str) -> tuple[str, ...] | None:
    return names_of_option(option, own[option]) if option in own else None


def _known_setting(key: str) -> str:
    name = key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key
    if lookup.find(name) is not None:
        return key
    close = [_OWN[known] for known in difflib.get_close_matches(key.lower(), _OWN, n=1)]
    close += [known for known in [lookup.nearest(name)] if known is not None]
    near = max(close, key=lambda known: _likeness(known, name), default=None)
    raise ConfigError(
        f"cannot use the option `{key}` because there is no such option",
        hint="docs/spark.md and docs/configuration.md list all of them" if near is None else f"did you mean `{near}`?",
    )


def _likeness(known: str, given: str) -> float:
    return difflib.SequenceMatcher(None, known.lower(), given.lower()).ratio()


def names_of_option(option: str, text: str) -> tuple[str, ...]:
    """Parse names from a JSON array or a comma-separated list."""
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(",") if name.strip())
    try:
        names = json.loads(text)
    except ValueError as error:
        raise _bad(option, text, 'names with commas between them, or a JSON array as in `["a", "b"]`') from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _bad(option, text, 'a JSON array of names, as in `["a", "b"]`')
    return tuple(names)


def _whole(own: Mapping[str, str], option: str) -> int | None:
    text = own.get(option)
    if text is None:
        return None
    if not text.strip().isascii() or not text.strip().isdigit():
        raise _bad(option, text, "a whole number of at least 0")
    return int(text)


def _truth(own: Mapping[str, str], option: str) -> bool:
    text = own.get(option, "false")
    if text.strip().lower() not in _TRUTH:
        raise _bad(option, text, "`true` or `false`")
    return _TRUTH[text.strip().lower()]


def _is_dynamic(own: Mapping[str, str]) -> bool:
    text = own.get("partitionOverwriteMode", "static")
    if text.lower() not in ("static", "dynamic"):
        raise _bad("partitionOverwriteMode", text, "`static` or `dynamic`")
    return text.lower() == "dynamic"


def _bad(option: str, text: str, expected: str) -> ConfigError:
    return ConfigError(f"cannot use `{text}` for the option `{option}`: expected {expected}")
