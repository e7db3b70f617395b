"""A store that counts the calls made of another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from indextables.store import ObjectStore


class CountingStore:
    """Passes every call on, and counts it by its verb in `calls`."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()

    def as_store(self) -> ObjectStore:
        """This store, as what it stands for: its verbs are found at run time."""
        return cast("ObjectStore", self)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._counted(name, found) if callable(found) else found

    def _counted(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls[verb] += 1
            return call(*arguments, **options)

        return counted
