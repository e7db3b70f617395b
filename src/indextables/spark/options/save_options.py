"""Checks of the options of a save, and the settings among them.

A new table keeps the settings that say how its rows are indexed.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from indextables.config import lookup, settings
from indextables.config.resolve import PREFIX
from indextables.config.setting import Family
from indextables.errors import ConfigError
from indextables.spark.options.source_options import STREAM_READ_OPTIONS, SourceOptions
from indextables.split.index.fields import resolve_column

_INDEXING = "indexing."


def check_options(asked: SourceOptions, *, overwrite: bool) -> None:
    """Refuse options that exclude each other, and options of loads."""
    reading = {
        "search": asked.search,
        "where": asked.where,
        "columns": asked.columns,
        "limit": asked.limit,
        "score": asked.score or None,
        "snippet": asked.snippet,
        "versionAsOf": asked.version,
        "timestampAsOf": asked.timestamp,
        "hints": asked.hints or None,
        "searches": asked.searches or None,
    }
    given = next((name for name, value in reading.items() if value is not None), None)
    if given is not None:
        raise ConfigError(f"cannot write with the option `{given}` because it is an option of reading")
    if (asked.txn_app_id is None) != (asked.txn_version is None):
        raise ConfigError(
            "cannot commit a batch once with only one of the options `txnAppId` and `txnVersion`",
            hint="give both: a name of the application, and a number that grows with every batch",
        )
    if asked.replace_where is not None and asked.is_dynamic:
        raise ConfigError(
            "cannot overwrite with `replaceWhere` and with `partitionOverwriteMode` `dynamic` at once",
            hint="give one of them",
        )
    for name, value in (("replaceWhere", asked.replace_where), ("ifVersion", asked.if_version)):
        if value is not None and not overwrite:
            raise ConfigError(
                f"cannot append with the option `{name}` because it is an option of overwriting",
                hint='write with `.mode("overwrite")`',
            )


def check_stream_options(asked: SourceOptions) -> None:
    """Refuse options that a stream cannot be written with."""
    refused = {
        "replaceWhere": asked.replace_where,
        "partitionOverwriteMode": "dynamic" if asked.is_dynamic else None,
        "ifVersion": asked.if_version,
        "txnVersion": asked.txn_version,
        **{name: asked.stream.get(name) for name in STREAM_READ_OPTIONS},
    }
    given = next((name for name, value in refused.items() if value is not None), None)
    if given is not None:
        raise ConfigError(
            f"cannot write a stream with the option `{given}`",
            hint="a batch is appended, or, in the output mode `complete`, replaces all rows; "
            "`foreachBatch` can write it in other ways",
        )


def spelled_settings(given: Mapping[str, str], schema: pa.Schema) -> dict[str, str]:
    """Return settings by their full keys, with fields in the spelling of the columns.

    Spark passes keys in lower case.
    """
    spelled: dict[str, str] = {}
    for key, text in given.items():
        found = lookup.find(_without_prefix(key))
        if found is None:
            raise ConfigError(f"cannot use the option `{key}` because there is no such option")
        if isinstance(found, tuple):
            family, field = found
            spelled[_family_key(family, resolve_column(schema, field, f"{family.key}.{field}"))] = text
        elif found is settings.INDEXING_FASTFIELDS:
            names = settings.INDEXING_FASTFIELDS.parse(text)
            columns = None if names is None else [resolve_column(schema, name, found.key) for name in names]
            spelled[found.key] = text if columns is None else ",".join(columns)
        else:
            spelled[found.key] = text
    return spelled


def table_properties(spelled: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a save that a new table keeps: how its rows are indexed."""
    return {f"{PREFIX}{key}": text for key, text in spelled.items() if key.startswith(_INDEXING)}


def _without_prefix(key: str) -> str:
    return key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key


def _family_key(family: Family, column: str) -> str:
    return f"{family.key}.{column}"
