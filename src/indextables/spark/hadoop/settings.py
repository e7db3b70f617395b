"""Hadoop's settings in a Spark session, as our settings for one location.

A classic session returns the Hadoop configuration of its own reads: `spark.hadoop.*`, `core-site.xml`, later changes,
and the files of credential providers, which Hadoop itself reads. A Connect session only returns its settings.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from indextables.config import store_settings
from indextables.errors import ConfigError
from indextables.location import Location, redact
from indextables.spark.hadoop.keys import PREFIXES, options_from_hadoop, provider_keys, secret_names
from indextables.spark.jvm import gateway

_SPARK_HADOOP = "spark.hadoop."
_DEFAULTS = "-default.xml"
_PROVIDERS = "hadoop.security.credential.provider.path"


def settings_of_hadoop(spark: Any, location: Location, given: Mapping[str, object]) -> dict[str, str]:
    """Return our settings that Hadoop's settings imply and `given` does not contain.

    Local disk and memory need none.
    """
    if location.family not in PREFIXES:
        return {}
    # Some addresses do not contain the account; a setting then names it.
    if location.family == "az" and (account := given.get(store_settings.AZURE_ACCOUNT_NAME.key)):
        location = dataclasses.replace(location, account=str(account))
    return options_from_hadoop(location, hadoop_settings(spark, location), given)


def hadoop_settings(spark: Any, location: Location) -> Mapping[str, str]:
    """Return the keys that are set for a location's store family."""
    if not gateway.is_classic(spark):
        return _shown_settings(spark, PREFIXES[location.family])
    try:
        if spark in gateway.enabled_sessions and gateway.is_known(spark):
            return _asked_at_once(spark, location)
        return _asked_one_by_one(spark, location)
    except Py4JJavaError as error:
        said = redact(str(error.java_exception)).partition("\n")[0]
        raise ConfigError(
            f"cannot read the Hadoop configuration for `{location.url}`: {said}",
            hint=f"check `{_PROVIDERS}`, or give credentials to this library",
        ) from None


def _shown_settings(spark: Any, prefixes: Collection[str]) -> dict[str, str]:
    """Return the settings of a Connect session; keys without Spark's prefix override."""
    shown: dict[str, str] = dict(spark.conf.getAll.items())
    hadoop = {key[len(_SPARK_HADOOP) :]: value for key, value in shown.items() if key.startswith(_SPARK_HADOOP)}
    return {key: value for key, value in {**hadoop, **shown}.items() if key.startswith(tuple(prefixes))}


def _asked_at_once(spark: Any, location: Location) -> dict[str, str]:
    found: dict[str, str] = json.loads(
        gateway.bridge(spark).hadoopSettings(
            spark._jsparkSession,
            list(PREFIXES[location.family]),
            secret_names(location),
            provider_keys(location),
        )
    )
    return found


def _asked_one_by_one(spark: Any, location: Location) -> dict[str, str]:
    """Return the settings without our Java classes, in several calls a key."""
    java = spark._jsparkSession.sessionState().newHadoopConf()
    found = {}
    for prefix in PREFIXES[location.family]:
        for key in (f"{prefix}{name}" for name in list(java.getPropsWithPrefix(prefix).keySet())):
            sources = java.getPropertySources(key)
            if sources is None or not list(sources)[-1].endswith(_DEFAULTS):
                found[key] = java.get(key)
    files = [path for key in provider_keys(location) if (path := (java.get(key) or "").strip())]
    if files:
        java.set(_PROVIDERS, ",".join(files))
        secrets = {name: java.getPassword(name) for name in secret_names(location)}
        found |= {name: "".join(secret) for name, secret in secrets.items() if secret is not None}
    return found
