"""Columns of a file that the table does not have: an error that says which and what was perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from indextables.errors import SchemaError


class UnknownColumns:
    """What the table knows, and whether the rest is left out."""

    def __init__(self, known: Sequence[str], *, ignored: bool) -> None:
        self._known = list(known)
        self._ignored = ignored

    def check(self, names: Iterable[str], where: str) -> None:
        """Refuse names that the table does not have, unless they are to be left out."""
        unknown = [name for name in names if name not in self._known]
        if not unknown or self._ignored:
            return
        listed = ", ".join(f"`{name}`" for name in unknown)
        raise SchemaError(
            f"cannot read {where} because the table has no {'column' if len(unknown) == 1 else 'columns'} {listed}",
            hint=f"{self._meant(unknown)}leave such columns out with `--ignore-unknown`; the table has "
            + ", ".join(f"`{name}`" for name in self._known),
        )

    def _meant(self, unknown: Sequence[str]) -> str:
        by_lower = {name.lower(): name for name in self._known}
        for name in unknown:
            close = difflib.get_close_matches(name.lower(), by_lower, n=1)
            if close:
                return f"`{name}` is perhaps `{by_lower[close[0]]}`; "
        return ""
