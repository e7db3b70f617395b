"""Settings that a Spark session holds, on classic sessions and on Connect.

Those under `spark.indextables.` are ours. Those of Hadoop's file systems serve where ours say nothing, so that a
session that reads a bucket by itself reads tables in it, too. Planning and tasks run in processes that see no session,
so settings travel as options of each load and save.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from indextables.config import lookup
from indextables.config.resolve import PREFIX
from indextables.config.setting import Setting
from indextables.spark import jvm
from indextables.spark.hadoop_settings import settings_of_hadoop
from indextables.store.url import parse_location

_log = logging.getLogger(__name__)


def session_settings(spark: Any) -> dict[str, str]:
    """The settings that a session sets, with their whole keys. Unknown ones are left out with a warning."""
    return known_settings(_all_settings(spark))


def known_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Those of some settings of Spark that are ours."""
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
    """In one call where our Java classes are there; Spark's own way takes two a setting."""
    if spark in jvm.enabled_sessions and jvm.is_known(spark):
        given: dict[str, str] = json.loads(jvm.bridge(spark).settings(spark._jsparkSession))
        return given
    return dict(spark.conf.getAll.items())


def with_session(
    spark: Any, url: str | None, options: Mapping[str, str], session: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Options with all that a session says about a table beside them: its settings, then those of Hadoop.

    `session` are its settings, where they are known already.
    """
    own = session_settings(spark) if session is None else known_settings(session)
    told = over_session(options, own)
    if url is None:
        return told
    given = {meaning[0]: value for key, value in told.items() if (meaning := _meaning(key)) is not None}
    hadoop = settings_of_hadoop(spark, parse_location(url), given)
    return {**{f"{PREFIX}{key}": value for key, value in hadoop.items()}, **told}


def over_session(options: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """Options with the settings of a session beside them, except those that an option sets in another spelling."""
    given = {_meaning(key) for key in options}
    return {**{key: value for key, value in session.items() if _meaning(key) not in given}, **options}


def _meaning(key: str) -> tuple[str, str] | None:
    """What tells one setting from another, however it is spelt; None for what is no setting."""
    found = lookup.find(key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key)
    if found is None:
        return None
    return (found.key, "") if isinstance(found, Setting) else (found[0].key, found[1].lower())
