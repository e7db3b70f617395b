"""Object storage: one small protocol, with one implementation per kind of store."""

from indextables.location import Location, parse_location
from indextables.store.base import ObjectMeta, ObjectStore
from indextables.store.open import open_store

__all__ = ["Location", "ObjectMeta", "ObjectStore", "open_store", "parse_location"]
