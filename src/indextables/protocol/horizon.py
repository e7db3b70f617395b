"""The horizon: the oldest version whose files no purge has deleted. It stands in the metadata, and only ever rises."""

from __future__ import annotations

from collections.abc import Mapping

from indextables.errors import CorruptLogError
from indextables.protocol.doc_mapping import without_registry

HORIZON_KEY = "retention.horizonVersion"


def horizon_of(configuration: Mapping[str, str]) -> int:
    """The oldest version that can be read as far as purges go; 0 where there was none."""
    text = configuration.get(HORIZON_KEY, "0")
    if not (text.isascii() and text.isdigit()):
        raise CorruptLogError(f"cannot tell which versions were purged because `{HORIZON_KEY}` is `{text}`")
    return int(text)


def own_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """A table's configuration less what the library itself keeps there: doc mappings and the horizon."""
    return {key: value for key, value in without_registry(configuration).items() if key != HORIZON_KEY}
