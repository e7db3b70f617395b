"""The newest version without its files: walk back until the metadata and the protocol in force are found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from indextables.log.replay import VersionFile, check_chain, head_of, missing_metadata, newest_definitions
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.features import LEGACY_PROTOCOL

_SHARES = (1, 4, 16, 64, 256)


def walk_back(newest: int, base: Snapshot | None, read_versions: Callable[[range], Sequence[VersionFile]]) -> Head:
    """The head at a version, from the version files down to the base; each that is read stands on the one before it."""
    files: list[VersionFile] = []
    for share in _shares_down(newest, 0 if base is None else base.version + 1):
        files[:0] = read_versions(share)
        if len(files) > 1 and _define_a_table(files):
            break
    if not files:
        assert base is not None  # noqa: S101 - no version file is read only where the base is the newest version
        return head_of(base)
    metadata, protocol = (None, None) if base is None else (base.metadata, base.protocol)
    mark = base.mark if base is not None and files[0].version == base.version + 1 else None
    for file in files:
        if file.version > 0:
            check_chain(file.version - 1, mark, file, protocol or LEGACY_PROTOCOL)
        found_metadata, found_protocol = newest_definitions(file.actions)
        metadata, protocol = found_metadata or metadata, found_protocol or protocol
        mark = file.mark
    if metadata is None:
        raise missing_metadata(newest)
    last = files[-1]
    return Head(newest, last.timestamp_ms, last.txn_id, protocol or LEGACY_PROTOCOL, metadata)


def _define_a_table(files: Sequence[VersionFile]) -> bool:
    """Whether some files hold a metadata and a protocol action. A version without a commit line is held against older
    definitions before its own count."""
    settled = [file.actions for file in files if file.version == 0 or file.info is not None]
    metadata, protocol = newest_definitions(itertools.chain.from_iterable(settled))
    return metadata is not None and protocol is not None


def _shares_down(newest: int, floor: int) -> Iterator[range]:
    """Ranges that cover `newest` down to `floor`, the first ones small: what is sought is usually near."""
    sizes = iter(_SHARES)
    size = 1
    while newest >= floor:
        size = next(sizes, size)
        start = max(floor, newest - size + 1)
        yield range(start, newest + 1)
        newest = start - 1
