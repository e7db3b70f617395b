"""Deleting what is no longer retained: version files, then old checkpoints, then manifests that nobody names.

Every file is looked at again right before it goes: if it is another one by now, the table was made anew meanwhile, or
the manifest was put again by somebody who builds on it. Nothing that a reader needs is ever missing for longer than it
takes to list the log again.
"""

from __future__ import annotations

import functools
import itertools
import logging
import re
from collections.abc import Sequence

import msgspec

from indextables.config import Config, settings
from indextables.errors import ObjectNotFoundError, StorageError
from indextables.log.metrics import LogMetrics
from indextables.log.reader import LogReader
from indextables.protocol.names import LOG_DIRECTORY, parse_part_key, version_key
from indextables.state.reader import StateReader
from indextables.state.retention import NOTHING, Listing, Plan, Retention, Verified, plan_clean_up
from indextables.state.verification import Verifier
from indextables.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

_COARSE_TIME_MS = 1000
_HAS_OWN_DIRECTORY = re.compile(r"/state-v[0-9]{20}/|\.checkpoint\.parquet/")


class CleanedUp(msgspec.Struct, frozen=True, kw_only=True):
    """What a clean-up deleted, or would delete where it is a dry run."""

    versions: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    manifests: tuple[str, ...] = ()
    is_dry_run: bool = False

    @property
    def num_files(self) -> int:
        return len(self.versions) + len(self.checkpoints) + len(self.manifests)


class Cleaner:
    """Cleans up the log of one table."""

    def __init__(self, reader: LogReader, states: StateReader, metrics: LogMetrics) -> None:
        self._reader = reader
        self._store = reader.store
        self._verifier = Verifier(reader, states)
        self._metrics = metrics

    def run(self, config: Config) -> CleanedUp:
        """Delete what the settings no longer retain. `cleanup.failurePolicy` says what a failure does."""
        try:
            return self._run(config)
        except StorageError as error:
            if config[settings.CLEANUP_FAILURE_POLICY] == "fail":
                raise
            logger.warning("clean-up of `%s` is put off until the next one: %s", self._reader.url, error.message)
            return CleanedUp()

    def _run(self, config: Config) -> CleanedUp:
        retention = Retention.of(config)
        listing = Listing.of(self._store.list(LOG_DIRECTORY))
        plan = plan_clean_up(listing, retention, functools.cache(lambda version: self._verify(listing, version)))
        garbage = self._garbage(listing, retention, plan)
        self._verifier.keep_only(listing.objects)
        if config[settings.CLEANUP_DRY_RUN]:
            return self._would_delete(plan, garbage)
        goes_on = config[settings.CLEANUP_FAILURE_POLICY] != "fail"
        sweep = _Sweep(self._store, listing, goes_on=goes_on)
        # Upwards, and no further than the first that stays: a writer that slept relies on it.
        versions = list(itertools.takewhile(lambda version: sweep.delete(version_key(version)), plan.versions))
        checkpoints = [at for at, keys in plan.checkpoints.items() if all(map(sweep.delete, _in_order(keys)))]
        manifests = [key for key in garbage if sweep.delete(key)]
        return self._have_deleted(versions, checkpoints, manifests)

    def _verify(self, listing: Listing, version: int) -> Verified | None:
        return self._verifier.verify(version, listing.checkpoints[version], listing.objects)

    def _garbage(self, listing: Listing, retention: Retention, plan: Plan) -> list[str]:
        """The manifests that no state which stays names, and that are too old to belong to one under way."""
        old = {key for key in listing.manifests if not retention.keeps_manifest(listing.age_ms([key]))}
        if plan is NOTHING or not old:
            return []
        for version, keys in listing.checkpoints.items():
            if version not in plan.checkpoints:
                named = self._verifier.manifests_of(version, keys, listing.objects)
                if named is None:
                    logger.info("no manifests are collected: the state of version %d cannot be read", version)
                    return []
                old -= named
        return sorted(old)

    def _would_delete(self, plan: Plan, garbage: Sequence[str]) -> CleanedUp:
        logger.info(
            "clean-up of `%s` would delete the versions %s, the checkpoints of the versions %s, and %d manifests",
            self._reader.url,
            list(plan.versions),
            list(plan.checkpoints),
            len(garbage),
        )
        return CleanedUp(
            versions=tuple(plan.versions),
            checkpoints=tuple(plan.checkpoints),
            manifests=tuple(garbage),
            is_dry_run=True,
        )

    def _have_deleted(self, versions: Sequence[int], checkpoints: Sequence[int], manifests: Sequence[str]) -> CleanedUp:
        self._metrics.cleaned_up(versions=len(versions), checkpoints=len(checkpoints), manifests=len(manifests))
        if versions:
            logger.info("cleaned up %d version files before version %d", len(versions), versions[-1] + 1)
        if checkpoints or manifests:
            logger.info("cleaned up %d checkpoints and %d manifests", len(checkpoints), len(manifests))
        return CleanedUp(versions=tuple(versions), checkpoints=tuple(checkpoints), manifests=tuple(manifests))


class _Sweep:
    """Deletes files of a listing."""

    def __init__(self, store: ObjectStore, listing: Listing, *, goes_on: bool) -> None:
        self._store = store
        self._listing = listing
        self._goes_on = goes_on

    def delete(self, key: str) -> bool:
        """Delete a file if it is still the one that was listed, and say whether it is gone."""
        listed = self._listing.objects[key]
        try:
            found = self._store.head(key)
            if not _is_same(found, listed):
                logger.info("`%s` has changed since it was listed, and stays", key)
                return False
            self._store.delete(key, with_directory=_HAS_OWN_DIRECTORY.search(key) is not None)
        except ObjectNotFoundError:
            return True
        except StorageError as error:
            if not self._goes_on:
                raise
            logger.warning("cannot clean up `%s`, the next clean-up will try again: %s", key, error.message)
            return False
        return True


def _is_same(found: ObjectMeta, listed: ObjectMeta) -> bool:
    """By its time too: the same bytes put again have the same e-tag, but some services cut the time to seconds."""
    in_time = abs(found.modified_ms - listed.modified_ms) < _COARSE_TIME_MS
    return in_time and (found.size, found.e_tag) == (listed.size, listed.e_tag)


def _in_order(keys: Sequence[str]) -> list[str]:
    """What makes a checkpoint one goes first, then its parts."""
    return sorted(keys, key=lambda key: parse_part_key(key) is not None)
