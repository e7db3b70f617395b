"""Versions of Spark that the library is tested with, and their Java."""

from __future__ import annotations

import re

KNOWN_SPARK = ("4.0.", "4.1.", "4.2.", "4.3.")
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_NEWEST_JAVA = {(4, 0): 23}


def feature_release(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version, such as (4, 2) for `4.2.1`."""
    found = _RELEASE.match(version)
    if found is None:
        raise ValueError(f"`{version}` is no version")
    return int(found[1]), int(found[2])


def newest_java() -> int | None:
    """Return the newest Java that the installed Spark runs on; None without a limit."""
    import pyspark

    return _NEWEST_JAVA.get(feature_release(pyspark.__version__))
