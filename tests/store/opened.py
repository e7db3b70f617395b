"""Stores for the tests, opened by their address."""

from __future__ import annotations

import uuid

from indextables.config import Config
from indextables.store import ObjectStore, open_store


def open_at(url: str, **options: object) -> ObjectStore:
    return open_store(url, Config.resolve(options=options))


def memory_store() -> ObjectStore:
    """A memory store that nobody else has."""
    return open_at(f"memory://{uuid.uuid4()}/t")
