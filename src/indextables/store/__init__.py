"""Object storage: one small protocol, and one implementation for each kind of place."""

from indextables.store.base import ObjectMeta, ObjectStore
from indextables.store.open import open_store
from indextables.store.url import Location, parse_location

__all__ = ["Location", "ObjectMeta", "ObjectStore", "open_store", "parse_location"]
