"""The way from a spelling to a setting.

Keys and aliases are found in any case; the field of a family keeps the case it was written in. A known key is never
taken for a field.
"""

from __future__ import annotations

import difflib

from indextables.config import settings
from indextables.config.setting import Family, Setting

_BY_SPELLING = {name.lower(): setting for setting in settings.ALL for name in (setting.key, *setting.aliases)}
# `indexing.typemap` alone is a key cut short, not a field that happens to be called `typemap`.
_FAMILY_HEADS = frozenset(family.key.lower() for family in settings.FAMILIES)


def find(name: str) -> Setting[object] | tuple[Family, str] | None:
    """The setting, or the family and field, that a key without its prefix means."""
    setting = _BY_SPELLING.get(name.lower())
    if setting is not None:
        return setting
    for family in settings.FAMILIES:
        field = _after(f"{family.key}.", name)
        if field:
            return family, field
    for family in settings.FAMILIES:
        field = "" if family.short is None else _after(f"{family.short}.", name)
        # Without this, a misspelt `indexing.text.maxTokenLength` would pass for a field.
        if field and "." not in field and name.lower() not in _FAMILY_HEADS:
            return family, field
    return None


def nearest(name: str) -> str | None:
    """The known key that looks most like an unknown one."""
    close = difflib.get_close_matches(name.lower(), [*_BY_SPELLING, *_FAMILY_HEADS], n=1)
    if not close:
        return None
    setting = _BY_SPELLING.get(close[0])
    return f"{close[0]}.<field>" if setting is None else setting.key


def _after(start: str, name: str) -> str:
    return name[len(start) :] if name[: len(start)].lower() == start.lower() else ""
