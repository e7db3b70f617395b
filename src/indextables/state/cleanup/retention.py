"""Choice of log files to delete, from a listing of the log and the settings; pure.

The oldest file that stays is a *base*: a verified state on which every later version can be read. Only version files
below it are deleted, in ascending order and without a gap, so that all retained versions can be read. The two newest
verified states stay, with all versions since the older of them, because one may be damaged. No file of the last hour is
deleted, since another writer may be using it.

A state above the base is deleted if it is old and its version can be read from the base; a state below the base, if it
is old.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from indextables.config import Config, settings
from indextables.config.setting import Setting
from indextables.protocol.names import (
    is_manifest_key,
    parse_checkpoint_key,
    parse_part_key,
    parse_sheet_key,
    parse_version_key,
    state_keys,
)
from indextables.runtime.caching import lazy_property
from indextables.store import ObjectMeta

FLOOR_MS = 3_600_000
_HOUR_MS = 3_600_000
_DEFAULT_VERSIONS_MS = 30 * 24 * _HOUR_MS
# Version files are deleted one by one, in order: a large backlog takes several clean-ups.
_MOST_VERSIONS = 1000


@dataclasses.dataclass(frozen=True)
class Retention:
    """Retention times in milliseconds, and numbers of retained files."""

    version_ms: int | None
    num_versions: int | None
    state_ms: int
    num_states: int
    checkpoint_ms: int
    manifest_ms: int

    @classmethod
    def of(cls, config: Config, *, version_ms: int | None = None) -> Retention:
        """Return the retention from settings.

        Only keys about version files that are set compete, and the longest wins; the default is 30 days. `version_ms`
        of a command overrides them.
        """
        by_settings = cls._of_settings(config)
        if version_ms is None:
            return by_settings
        return dataclasses.replace(by_settings, version_ms=version_ms, num_versions=None)

    @classmethod
    def _of_settings(cls, config: Config) -> Retention:
        durations = [
            config[settings.LOG_RETENTION_DURATION] if config.is_set(settings.LOG_RETENTION_DURATION) else None,
            _hours(config, settings.PURGE_TX_LOG_RETENTION_HOURS),
            _hours(config, settings.PURGE_ON_WRITE_TX_LOG_RETENTION_HOURS)
            if config[settings.PURGE_ON_WRITE_ENABLED]
            else None,
        ]
        longest = max((duration for duration in durations if duration is not None), default=None)
        counts = config.is_set(settings.CHECKPOINT_RETENTION)
        return cls(
            version_ms=_DEFAULT_VERSIONS_MS if longest is None and not counts else longest,
            num_versions=config[settings.CHECKPOINT_RETENTION] if counts else None,
            state_ms=int(config[settings.STATE_RETENTION_HOURS] * _HOUR_MS),
            num_states=config[settings.STATE_RETENTION_VERSIONS],
            checkpoint_ms=int(config[settings.CHECKPOINT_RETENTION_DURATION]),
            manifest_ms=int(config[settings.STATE_GC_MIN_MANIFEST_AGE_HOURS] * _HOUR_MS),
        )

    def keeps_version(self, version: int, age_ms: int, newest_checkpoint: int) -> bool:
        if age_ms <= max(FLOOR_MS, self.version_ms or 0):
            return True
        return self.num_versions is not None and version >= newest_checkpoint - self.num_versions

    def keeps_checkpoint(self, age_ms: int, *, is_state: bool) -> bool:
        return age_ms <= max(FLOOR_MS, self.state_ms if is_state else self.checkpoint_ms)

    def keeps_manifest(self, age_ms: int) -> bool:
        return age_ms <= self.manifest_ms


@dataclasses.dataclass(frozen=True)
class Listing:
    """Files of a log.

    The current time is the time of the youngest file, or a later time from the store: its clock, never the host's.
    """

    objects: Mapping[str, ObjectMeta]
    seen_at_ms: int = 0

    @classmethod
    def of(cls, metas: Iterable[ObjectMeta], *, seen_at_ms: int = 0) -> Listing:
        return cls({meta.key: meta for meta in metas}, seen_at_ms)

    @lazy_property
    def now_ms(self) -> int:
        return max((self.seen_at_ms, *(meta.modified_ms for meta in self.objects.values())))

    @lazy_property
    def versions(self) -> Mapping[int, ObjectMeta]:
        found = ((parse_version_key(key), meta) for key, meta in self.objects.items())
        return {version: meta for version, meta in sorted(found, key=_by_version) if version is not None}

    @lazy_property
    def checkpoints(self) -> Mapping[int, Sequence[str]]:
        """Keys of every state and checkpoint, by version, the newest first."""
        return _grouped(self.objects, parse_checkpoint_key)

    @lazy_property
    def parts(self) -> Mapping[int, Sequence[str]]:
        """Parts of JSON checkpoints, by version."""
        return _grouped(self.objects, parse_part_key)

    @lazy_property
    def manifests(self) -> Sequence[str]:
        return [key for key in self.objects if is_manifest_key(key)]

    @lazy_property
    def sheets(self) -> Sequence[str]:
        return [key for key in self.objects if parse_sheet_key(key) is not None]

    def age_ms(self, keys: Iterable[str]) -> int:
        """Return the age of the youngest of some files."""
        return min(self.now_ms - self.objects[key].modified_ms for key in keys)


class Verified(NamedTuple):
    """State or checkpoint that was read back and is valid, with its manifests."""

    version: int
    needs_versions: bool
    manifests: frozenset[str]


Verify = Callable[[int], Verified | None]


class Plan(NamedTuple):
    """Files to delete: versions in order, then checkpoints with their keys."""

    versions: Sequence[int]
    checkpoints: Mapping[int, Sequence[str]]


NOTHING = Plan((), {})


def plan_clean_up(listing: Listing, retention: Retention, verify: Verify, *, all_versions: bool = False) -> Plan:
    """Return the files to delete, without manifests.

    Manifests depend on the content of the remaining states. Only a part of a large backlog of versions is deleted,
    unless `all_versions`.
    """
    kept: list[Verified] = []
    for version in listing.checkpoints:
        if (found := verify(version)) is not None:
            kept.append(found)
        if len(kept) >= max(2, 1 + retention.num_states):
            break
    if len(kept) < 2:
        return NOTHING
    expired = _expired(listing, retention, second_newest=kept[1].version, newest=kept[0].version)
    base = _base(listing, verify, expired, second_newest=kept[1].version)
    if base is not None:
        kept.append(base)
    elif not listing.versions or 0 not in listing.versions:
        return NOTHING
    floor = -1 if base is None else base.version
    checkpoints = _old_checkpoints(listing, retention, floor, {state.version for state in kept})
    versions = [version for version in expired if version < floor]
    if versions and _needs_versions(listing.checkpoints.keys() - checkpoints.keys(), verify):
        versions = []
    return Plan(versions if all_versions else versions[:_MOST_VERSIONS], checkpoints)


def before_version(listing: Listing, version: int) -> Plan:
    """Return all versions and checkpoints before a version, oldest first, at any age."""
    versions = [at for at in listing.versions if at < version]
    older = sorted(at for at in {*listing.checkpoints, *listing.parts} if at < version)
    return Plan(versions, {at: _keys_at(listing, at) for at in older})


def _keys_at(listing: Listing, version: int) -> Sequence[str]:
    return [*listing.checkpoints.get(version, ()), *listing.parts.get(version, ())]


def _expired(listing: Listing, retention: Retention, *, second_newest: int, newest: int) -> list[int]:
    """Return the versions that are not retained: all before the first retained one."""
    expired: list[int] = []
    last = max(listing.versions, default=-1)
    for version, meta in listing.versions.items():
        age_ms = listing.now_ms - meta.modified_ms
        if version >= min(second_newest, last) or retention.keeps_version(version, age_ms, newest):
            break
        expired.append(version)
    return expired


def _base(listing: Listing, verify: Verify, expired: Sequence[int], *, second_newest: int) -> Verified | None:
    """Return the newest verified state below which no version is retained."""
    retained = [version for version in listing.versions if not expired or version > expired[-1]]
    highest = min([second_newest, *retained[:1]])
    candidates = (verify(version) for version in listing.checkpoints if version <= highest)
    return next((state for state in candidates if state is not None), None)


def _needs_versions(retained: Iterable[int], verify: Verify) -> bool:
    """Return True if a remaining state has its definitions in version files.

    States of other writers do.
    """
    return any(state.needs_versions for version in retained if (state := verify(version)) is not None)


def _old_checkpoints(listing: Listing, retention: Retention, base: int, kept: set[int]) -> dict[int, Sequence[str]]:
    readable = base
    while readable + 1 in listing.versions:
        readable += 1
    found = {}
    for version in {*listing.checkpoints, *listing.parts}:
        keys = _keys_at(listing, version)
        is_state = any(key in state_keys(version) for key in keys)
        needed = version in kept or version > readable
        if not needed and not retention.keeps_checkpoint(listing.age_ms(keys), is_state=is_state):
            found[version] = keys
    return dict(sorted(found.items()))


def _hours(config: Config, setting: Setting[int]) -> int | None:
    return int(config[setting] * _HOUR_MS) if config.is_set(setting) else None


def _by_version(entry: tuple[int | None, ObjectMeta]) -> int:
    return -1 if entry[0] is None else entry[0]


def _grouped(keys: Iterable[str], parse: Callable[[str], int | None]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for key in keys:
        if (version := parse(key)) is not None:
            found.setdefault(version, []).append(key)
    return dict(sorted(found.items(), reverse=True))
