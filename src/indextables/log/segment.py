"""Files of the newest version: one list call from the last known version on.

The listing includes the last known version. It may miss an existing file, so a missing version is requested by name
before it counts as a gap. A gap above the base stops readers with a warning, and writers with an error. If the last
known version is gone or has become another file, the table was recreated: then all earlier knowledge is void.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Container, Mapping, Sequence

from indextables.errors import CorruptLogError, ObjectNotFoundError, TableNotFoundError
from indextables.protocol.names import LOG_DIRECTORY, parse_checkpoint_key, parse_version_key, state_keys, version_key
from indextables.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)


NEAR_VERSIONS = 16
"""Number of version files below a state to compare with it at its first read."""

Checkpoints = Mapping[int, tuple[str, ...]]
"""Keys of states, JSON and Parquet checkpoints, by version."""

Files = Sequence[ObjectMeta] | None
"""All files of the log as they were just listed, to be used instead of a list call; None to make that call."""


@dataclasses.dataclass(frozen=True)
class Segment:
    """Version files `oldest` to `newest`, without a gap, and checkpoints by version.

    `newest_file` has the facts of the newest version file, to detect a recreated table; None if the newest version is
    only a state. `gap` is the first missing version above it. If the segment `is_partial`, older versions and
    checkpoints may exist that were not listed. `older_files` are the newest version files below `oldest` that were
    listed.
    """

    oldest: int
    newest: int
    newest_file: ObjectMeta | None
    checkpoints: Checkpoints = dataclasses.field(default_factory=dict)
    gap: int | None = None
    is_partial: bool = False
    older_files: tuple[int, ...] = ()

    def covers(self, version: int) -> bool:
        """Return True if the version is in the consecutive run of version files."""
        return self.newest_file is not None and self.oldest <= version <= self.newest

    def has_state(self, version: int) -> bool:
        """Return True if a version has a state, not only an older kind of checkpoint."""
        return not set(state_keys(version)).isdisjoint(self.checkpoints.get(version, ()))


def grow_segment(store: ObjectStore, known: Segment, files: Files = None) -> Segment | None:
    """Return the newest segment from one list call from the last known version on.

    Return None if this version is gone or is another file.
    """
    last = known.newest_file
    if last is None or known.gap is not None:
        return None
    versions, checkpoints = list_from(store, known.newest, files)
    seen = versions.get(known.newest) or find_version(store, known.newest)
    if seen is None or (seen.size, seen.e_tag) != (last.size, last.e_tag):
        return None
    versions[known.newest] = seen
    grown = _run(store, known.newest, versions, _joined(known, checkpoints), oldest=known.oldest)
    if _ends_in_state(grown):
        return None
    return dataclasses.replace(grown, is_partial=known.is_partial, older_files=known.older_files)


def _ends_in_state(segment: Segment) -> bool:
    """Return True if a state is above the newest version file.

    It is a commit of a writer that commits only states.
    """
    return segment.gap is None and max(segment.checkpoints, default=-1) > segment.newest


def _joined(known: Segment, listed: Checkpoints) -> Checkpoints:
    """Return the checkpoints of a listing from the newest version on.

    Checkpoints whose names sort among older versions are not listed, and are kept.
    """
    start = version_key(known.newest)
    joined: dict[int, tuple[str, ...]] = dict(listed)
    for version, keys in known.checkpoints.items():
        unseen = tuple(key for key in keys if key < start and key not in joined.get(version, ()))
        if unseen:
            joined[version] = (*joined.get(version, ()), *unseen)
    return joined


def segment_from(store: ObjectStore, version: int) -> Segment | None:
    """Return the newest segment, listed from near the hinted checkpoint on.

    Return None if the hint does not lead to a checkpoint and its version, or if a state is above all versions.
    """
    versions, checkpoints = list_from(store, max(0, version - NEAR_VERSIONS))
    if version not in versions or version not in checkpoints:
        return None
    oldest = _first_of_run(version, versions)
    segment = _run(store, version, versions, checkpoints, oldest=oldest)
    return None if _ends_in_state(segment) else dataclasses.replace(segment, is_partial=oldest > 0)


def whole_segment(store: ObjectStore, ignored: Container[int] = (), files: Files = None) -> Segment:
    """Return the newest segment of an unknown log, without states of ignored versions."""
    versions, listed = _list(store, "", files)
    checkpoints = {version: keys for version, keys in listed.items() if version not in ignored}
    if not versions and not checkpoints:
        raise TableNotFoundError(
            f"No transaction log found at `{store.location.url}`: it has neither a version file nor a state",
            path=store.location.url,
            hint="check the address, or create the table first; a lost log is rebuilt by `indextables repair`",
        )
    segment = _newest_run(store, versions, checkpoints)
    older = sorted(version for version in versions if version < segment.oldest)
    return dataclasses.replace(segment, older_files=tuple(older[-NEAR_VERSIONS:]))


def _newest_run(store: ObjectStore, versions: dict[int, ObjectMeta], checkpoints: Checkpoints) -> Segment:
    base = max(checkpoints, default=-1)
    if not any(version > base for version in versions):
        return _at_base(store, base, versions, checkpoints)
    first = _first_of_run(base, versions)
    if first not in versions and (found := find_version(store, first)) is not None:
        versions[first] = found
    if first not in versions:
        raise CorruptLogError(
            f"cannot read `{store.location.url}` because version {first} is missing and no state replaces it",
            version=first,
            path=version_key(first),
            hint="restore the file, or run `REPAIR INDEXFILES TRANSACTION LOG`",
        )
    return _run(store, first, versions, checkpoints, oldest=first)


def _at_base(store: ObjectStore, base: int, versions: dict[int, ObjectMeta], checkpoints: Checkpoints) -> Segment:
    """Return the segment that ends at the newest state."""
    first = _first_of_run(base, versions)
    if base not in versions or first not in versions:
        return Segment(base + 1, base, None, checkpoints)
    return _run(store, first, versions, checkpoints, oldest=first)


def _first_of_run(base: int, versions: dict[int, ObjectMeta]) -> int:
    """Return the oldest version of the consecutive run up to the base.

    0 without a base.
    """
    if base < 0:
        return 0
    first = base + 1
    while first - 1 in versions:
        first -= 1
    return first


def _run(
    store: ObjectStore, start: int, versions: dict[int, ObjectMeta], checkpoints: Checkpoints, *, oldest: int
) -> Segment:
    """Follow the versions upwards from the existing version `start` to the last."""
    highest = max(versions)
    newest = start
    while newest < highest:
        if newest + 1 not in versions:
            found = find_version(store, newest + 1)
            if found is None:
                return _stopped(store, oldest, newest, versions[newest], checkpoints)
            versions[newest + 1] = found
        newest += 1
    return Segment(oldest, newest, versions[newest], checkpoints)


def _stopped(store: ObjectStore, oldest: int, newest: int, file: ObjectMeta, checkpoints: Checkpoints) -> Segment:
    logger.warning(
        "version %d of `%s` is missing while later ones exist: reading stops at version %d",
        newest + 1,
        store.location.url,
        newest,
    )
    return Segment(oldest, newest, file, checkpoints, gap=newest + 1)


def refuse_gap(segment: Segment, url: str) -> None:
    """Refuse to write a log with a gap.

    The versions after the gap would return or be lost.
    """
    if segment.gap is not None:
        raise CorruptLogError(
            f"cannot write to `{url}` because version {segment.gap} of its log is missing while later ones exist",
            version=segment.gap,
            path=version_key(segment.gap),
            hint=f"restore `{version_key(segment.gap)}`, or run `REPAIR INDEXFILES TRANSACTION LOG '{url}'`",
        )


def reachable_text(segment: Segment) -> str:
    """Format the readable versions.

    A consecutive run, and older ones with a checkpoint.
    """
    starts = [0] if segment.oldest == 0 else [at for at in segment.checkpoints if at >= segment.oldest - 1]
    first = min(starts, default=segment.oldest)
    older = [str(at) for at in sorted(segment.checkpoints) if at < first]
    run = f"{first} to {segment.newest}"
    return f"{', '.join(older)} and {run}" if older else run


def find_version(store: ObjectStore, version: int) -> ObjectMeta | None:
    """Request a version file by name."""
    try:
        return store.head(version_key(version))
    except ObjectNotFoundError:
        return None


def _list(
    store: ObjectStore, after: str, files: Files = None
) -> tuple[dict[int, ObjectMeta], dict[int, tuple[str, ...]]]:
    versions: dict[int, ObjectMeta] = {}
    checkpoints: dict[int, tuple[str, ...]] = {}
    listed = store.list(LOG_DIRECTORY, after=after) if files is None else (meta for meta in files if meta.key > after)
    for meta in listed:
        version = parse_version_key(meta.key)
        if version is not None:
            versions[version] = meta
        elif (checkpoint := parse_checkpoint_key(meta.key)) is not None:
            checkpoints[checkpoint] = (*checkpoints.get(checkpoint, ()), meta.key)
    return versions, checkpoints


def version_files(store: ObjectStore, segment: Segment) -> list[int]:
    """Return all existing version files up to the newest, also superseded ones."""
    if segment.oldest == 0:
        return list(range(segment.newest + 1))
    return sorted(version for version in _list(store, "")[0] if version <= segment.newest)


def list_from(
    store: ObjectStore, version: int, files: Files = None
) -> tuple[dict[int, ObjectMeta], dict[int, tuple[str, ...]]]:
    """List version files and JSON checkpoints from `version` on, and all states."""
    return _list(store, version_key(version - 1) if version > 0 else "", files)
