"""Lookup of settings by key or alias.

Keys and aliases ignore case; the field of a family keeps its case. A known key is never read as a field.
"""

from __future__ import annotations

import difflib

from indextables.config import settings
from indextables.config.setting import Family, Setting

_BY_SPELLING = {name.lower(): setting for setting in settings.ALL for name in (setting.key, *setting.aliases)}
# `indexing.typemap` alone is an incomplete key, not a field with the name `typemap`.
_FAMILY_HEADS = frozenset(family.key.lower() for family in settings.FAMILIES)


def find(name: str) -> Setting[object] | tuple[Family, str] | None:
    """Return the setting, or the family and field, of a key without its prefix."""
    setting = _BY_SPELLING.get(name.lower())
    if setting is not None:
        return setting
    for family in settings.FAMILIES:
        field = _after(f"{family.key}.", name)
        if field:
            return family, field
    for family in settings.FAMILIES:
        field = "" if family.short is None else _after(f"{family.short}.", name)
        # Without this check, a misspelt `indexing.text.maxTokenLength` would be read as a field.
        if field and "." not in field and name.lower() not in _FAMILY_HEADS:
            return family, field
    return None


def nearest(name: str) -> str | None:
    """Return the known key that is most similar to an unknown one."""
    close = difflib.get_close_matches(name.lower(), [*_BY_SPELLING, *_FAMILY_HEADS], n=1)
    if not close:
        return None
    setting = _BY_SPELLING.get(close[0])
    return f"{close[0]}.<field>" if setting is None else setting.key


def _after(start: str, name: str) -> str:
    return name[len(start) :] if name[: len(start)].lower() == start.lower() else ""
