"""The newest version without its files: walk back until the metadata and the protocol in force are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from indextables.log.replay import VersionFile, head_of, missing_metadata, newest_definitions
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.actions import Metadata, Protocol
from indextables.protocol.features import LEGACY_PROTOCOL

_SHARES = (1, 4, 16, 64, 256)


def walk_back(newest: int, base: Snapshot | None, read_versions: Callable[[range], Sequence[VersionFile]]) -> Head:
    """The head at a version, from the version files down to the base."""
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    last: VersionFile | None = None
    for share in _shares_down(newest, 0 if base is None else base.version + 1):
        for file in reversed(read_versions(share)):
            last = last or file
            found_metadata, found_protocol = newest_definitions(file.actions)
            metadata, protocol = metadata or found_metadata, protocol or found_protocol
        if metadata is not None and protocol is not None:
            break
    if base is not None:
        metadata, protocol = metadata or base.metadata, protocol or base.protocol
    if metadata is None:
        raise missing_metadata(newest)
    if last is None:
        assert base is not None  # noqa: S101 - no version file is read only where the base is the newest version
        return head_of(base)
    info = last.info
    return Head(newest, last.timestamp_ms, info.txn_id if info else None, protocol or LEGACY_PROTOCOL, metadata)


def _shares_down(newest: int, floor: int) -> Iterator[range]:
    """Ranges that cover `newest` down to `floor`, the first ones small: what is sought is usually near."""
    sizes = iter(_SHARES)
    size = 1
    while newest >= floor:
        size = next(sizes, size)
        start = max(floor, newest - size + 1)
        yield range(start, newest + 1)
        newest = start - 1
