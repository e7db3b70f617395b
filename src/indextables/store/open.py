"""From a URL to its store."""

from __future__ import annotations

from indextables.config import Config
from indextables.store.base import ObjectStore
from indextables.store.cloud import CloudStore, SharedMemoryStore
from indextables.store.hdfs import HdfsStore
from indextables.store.local import LocalStore
from indextables.store.url import HADOOP_FAMILIES, parse_location


def open_store(url: str, config: Config) -> ObjectStore:
    """The store rooted at a URL or path. Nothing is read or written yet."""
    location = parse_location(url)
    if location.family == "file":
        return LocalStore(location)
    if location.family == "memory":
        return SharedMemoryStore(location, config)
    if location.family in HADOOP_FAMILIES:
        return HdfsStore(location, config)
    return CloudStore(location, config)
