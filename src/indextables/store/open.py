"""Store of a URL."""

from __future__ import annotations

from indextables.config import Config
from indextables.location import HADOOP_FAMILIES, parse_location
from indextables.store.base import ObjectStore
from indextables.store.local.store import LocalStore


def open_store(url: str, config: Config) -> ObjectStore:
    """Return the store at a URL or path, without any request."""
    location = parse_location(url)
    if location.family == "file":
        return LocalStore(location)
    if location.family in HADOOP_FAMILIES:
        from indextables.store.hdfs.store import HdfsStore

        return HdfsStore(location, config)
    from indextables.store.cloud.store import CloudStore, SharedMemoryStore

    return SharedMemoryStore(location, config) if location.family == "memory" else CloudStore(location, config)
