"""What Spark is told outside of the program: `spark-defaults.conf`, `PYSPARK_SUBMIT_ARGS`, `spark-submit`."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home

_LINE = re.compile(r"\s*(spark\.[^\s=:]+)(?:\s*[=:]\s*|\s+)(.*?)\s*$")
_NAMED_OPTIONS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--remote": "spark.remote",
}
_CONF_OPTIONS = ("--conf", "-c")


def settings_from_elsewhere() -> dict[str, str]:
    """The settings that hold if nothing more is said."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    return {**_defaults_file(), **_submit_arguments()}


def conf_directory() -> Path:
    """Where Spark looks for `spark-defaults.conf` and the settings of its log."""
    return Path(os.environ.get("SPARK_CONF_DIR") or os.path.join(_find_spark_home(), "conf"))


def _defaults_file() -> dict[str, str]:
    path = conf_directory() / "spark-defaults.conf"
    if not path.is_file():
        return {}
    matches = map(_LINE.match, path.read_text(encoding="utf-8").splitlines())
    return {match[1]: match[2] for match in matches if match is not None}


def _submit_arguments() -> dict[str, str]:
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    settings: dict[str, str] = {}
    for option, value in _options(words):
        if option in _NAMED_OPTIONS:
            settings[_NAMED_OPTIONS[option]] = value
        elif option in _CONF_OPTIONS and "=" in value:
            key, _, text = value.partition("=")
            settings[key] = text
    return settings


def _options(words: list[str]) -> list[tuple[str, str]]:
    """Each option with its value: the next word, or what stands behind the first `=`."""
    apart = itertools.pairwise(words)
    together = (tuple(word.split("=", 1)) for word in words if word.startswith("--") and "=" in word)
    return [(option, value) for option, value in [*apart, *together] if option.startswith("-")]
