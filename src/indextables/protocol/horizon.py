"""Horizon: the oldest version whose files no purge has deleted.

It is part of the metadata, and it only rises.
"""

from __future__ import annotations

from collections.abc import Mapping

from indextables.errors import CorruptLogError
from indextables.protocol.doc_mapping import without_registry

HORIZON_KEY = "retention.horizonVersion"


def horizon_of(configuration: Mapping[str, str]) -> int:
    """Return the oldest version that no purge has affected; 0 if there was no purge."""
    text = configuration.get(HORIZON_KEY, "0")
    if not (text.isascii() and text.isdigit()):
        raise CorruptLogError(f"cannot find out which versions were purged because `{HORIZON_KEY}` is `{text}`")
    return int(text)


def own_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return a table's configuration without doc mappings and the horizon."""
    return {key: value for key, value in without_registry(configuration).items() if key != HORIZON_KEY}
