"""Addresses of a table for Spark's workers and Spark's own file systems."""

from __future__ import annotations

import os

from indextables.location import parse_location
from indextables.store import Location


def absolute(url: str | os.PathLike[str]) -> str:
    """Return an address that is the same in every working directory."""
    text = os.fspath(url)
    return parse_location(text).url if parse_location(text).family == "file" else text


def hadoop_urls(location: Location) -> list[str]:
    """Return a location's URLs for Spark's file systems, the likeliest first.

    The list is empty if they support no such store.
    """
    if location.family == "memory":
        return []
    if location.family == "file":
        return [f"file://{location.path}"]
    if location.family == "s3":
        return [f"{scheme}://{location.bucket}/{location.path}" for scheme in ("s3a", "s3")]
    return [location.url]
