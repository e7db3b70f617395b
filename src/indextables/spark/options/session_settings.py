"""Settings of a Spark session, classic or Connect.

Keys under `spark.indextables.` are ours. Settings of Hadoop's file systems apply if ours are absent, so a session that
reads a bucket also reads tables in it. Planning and tasks run in processes without a session, so settings travel as
options of each load and save.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from indextables.config import lookup
from indextables.config.resolve import PREFIX
from indextables.config.setting import Setting
from indextables.location import parse_location
from indextables.spark.hadoop.settings import settings_of_hadoop
from indextables.spark.jvm import gateway

_log = logging.getLogger(__name__)


def session_settings(spark: Any) -> dict[str, str]:
    """Return the session's settings by their full keys; warn about unknown ones."""
    return known_settings(_all_settings(spark))


def known_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return our settings among some settings of Spark."""
    known = {}
    for key, value in given.items():
        if not key.lower().startswith(PREFIX):
            continue
        if _meaning(key) is not None:
            known[key] = value
            continue
        near = lookup.nearest(key[len(PREFIX) :])
        hint = "docs/configuration.md lists all keys" if near is None else f"did you mean `{near}`?"
        _log.warning("ignored `%s` of the session because there is no such setting; %s", key, hint)
    return known


def _all_settings(spark: Any) -> dict[str, str]:
    """Return all settings in one call if our Java classes are loaded.

    Spark's own way takes two calls for each setting.
    """
    if spark in gateway.enabled_sessions and gateway.is_known(spark):
        given: dict[str, str] = json.loads(gateway.bridge(spark).settings(spark._jsparkSession))
        return given
    return dict(spark.conf.getAll.items())


def with_session(
    spark: Any, url: str | None, options: Mapping[str, str], session: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Add the session's settings of a table to options: ours first, then Hadoop's.

    `session` holds the session's settings if the caller has read them already.
    """
    own = session_settings(spark) if session is None else known_settings(session)
    told = over_session(options, own)
    if url is None:
        return told
    given = {meaning[0]: value for key, value in told.items() if (meaning := _meaning(key)) is not None}
    hadoop = settings_of_hadoop(spark, parse_location(url), given)
    return {**{f"{PREFIX}{key}": value for key, value in hadoop.items()}, **told}


def over_session(options: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """Add settings of a session to options.

    An option wins, also in another spelling of the key.
    """
    given = {_meaning(key) for key in options}
    return {**{key: value for key, value in session.items() if _meaning(key) not in given}, **options}


def _meaning(key: str) -> tuple[str, str] | None:
    """Return the identity of a setting, whatever its spelling; None for other options."""
    found = lookup.find(key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key)
    if found is None:
        return None
    return (found.key, "") if isinstance(found, Setting) else (found[0].key, found[1].lower())
