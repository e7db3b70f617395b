"""Where a table is, as Spark's workers and its own file systems name it."""

from __future__ import annotations

import os

from indextables.store import Location
from indextables.store.url import parse_location


def absolute(url: str | os.PathLike[str]) -> str:
    """A table's address that means the same in every working directory."""
    text = os.fspath(url)
    return parse_location(text).url if parse_location(text).family == "file" else text


def hadoop_urls(location: Location) -> list[str]:
    """How Spark's file systems may know a place, the likeliest first; none where they know nothing like it."""
    if location.family == "memory":
        return []
    if location.family == "file":
        return [f"file://{location.path}"]
    if location.family == "s3":
        return [f"{scheme}://{location.bucket}/{location.path}" for scheme in ("s3a", "s3")]
    return [location.url]
