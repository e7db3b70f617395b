"""What a Spark session was told about Hadoop's file systems, as settings of ours for one place.

A classic session is asked for the Hadoop configuration that its own reads would have, as it is now: `spark.hadoop.*`,
`core-site.xml`, what was set on it since, and files of credential providers, which Hadoop itself reads. A Connect
session shows its settings, and no more.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from indextables.config import store_settings
from indextables.errors import ConfigError
from indextables.spark import jvm
from indextables.spark.hadoop_keys import PREFIXES, options_from_hadoop, provider_keys, secret_names
from indextables.store.redact import redact
from indextables.store.url import Location

_SPARK_HADOOP = "spark.hadoop."
_DEFAULTS = "-default.xml"
_PROVIDERS = "hadoop.security.credential.provider.path"


def settings_of_hadoop(spark: Any, location: Location, given: Mapping[str, object]) -> dict[str, str]:
    """Our settings, as far as Hadoop's tell them and `given` does not. Local disk and memory need none."""
    if location.family not in PREFIXES:
        return {}
    # Some addresses do not name the account, which a setting does then.
    if location.family == "az" and (account := given.get(store_settings.AZURE_ACCOUNT_NAME.key)):
        location = dataclasses.replace(location, account=str(account))
    return options_from_hadoop(location, hadoop_settings(spark, location), given)


def hadoop_settings(spark: Any, location: Location) -> Mapping[str, str]:
    """The keys about the family of a place that somebody has set, with their values."""
    if not jvm.is_classic(spark):
        return _shown_settings(spark, PREFIXES[location.family])
    try:
        if spark in jvm.enabled_sessions and jvm.is_known(spark):
            return _asked_at_once(spark, location)
        return _asked_one_by_one(spark, location)
    except Py4JJavaError as error:
        said = redact(str(error.java_exception)).partition("\n")[0]
        raise ConfigError(
            f"cannot read the Hadoop configuration for `{location.url}`: {said}",
            hint=f"see to `{_PROVIDERS}`, or give credentials to this library",
        ) from None


def _shown_settings(spark: Any, prefixes: Collection[str]) -> dict[str, str]:
    """Those of a Connect session. What is set without Spark's prefix is set later, and wins."""
    shown: dict[str, str] = dict(spark.conf.getAll.items())
    hadoop = {key[len(_SPARK_HADOOP) :]: value for key, value in shown.items() if key.startswith(_SPARK_HADOOP)}
    return {key: value for key, value in {**hadoop, **shown}.items() if key.startswith(tuple(prefixes))}


def _asked_at_once(spark: Any, location: Location) -> dict[str, str]:
    found: dict[str, str] = json.loads(
        jvm.bridge(spark).hadoopSettings(
            spark._jsparkSession,
            list(PREFIXES[location.family]),
            secret_names(location),
            provider_keys(location),
        )
    )
    return found


def _asked_one_by_one(spark: Any, location: Location) -> dict[str, str]:
    """The same without our Java classes, in some calls a key."""
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
