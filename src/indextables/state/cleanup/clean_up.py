"""Deletion of version files, then old checkpoints, then unreferenced manifests.

Filter sheets are treated like manifests, and counted with them.

Every file is checked again right before its deletion: if it has changed, the table was recreated, or another writer put
the manifest again to use it. A file that a reader needs is never missing for longer than a new listing takes.

A truncation deletes all versions before one with a verified checkpoint, at any age. It does not affect concurrent
commits and checkpoints: this version and all above it are kept.
"""

from __future__ import annotations

import functools
import itertools
import logging
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from indextables.config import Config, settings
from indextables.errors import CheckpointValidationError, ObjectNotFoundError, StorageError
from indextables.log.metrics import LogMetrics
from indextables.log.reader import LogReader
from indextables.protocol.names import LOG_DIRECTORY, parse_part_key, version_key
from indextables.state.cleanup.retention import (
    NOTHING,
    Listing,
    Plan,
    Retention,
    Verified,
    before_version,
    plan_clean_up,
)
from indextables.state.cleanup.verification import Verifier
from indextables.state.reader import StateReader
from indextables.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

_COARSE_TIME_MS = 1000
_HAS_OWN_DIRECTORY = re.compile(r"/state-v[0-9]{20}/|\.checkpoint\.parquet/")


class CleanedUp(msgspec.Struct, frozen=True, kw_only=True):
    """Deleted files, or in a dry run the files that would be deleted.

    `num_expired` counts the checkpoints that are not retained, `num_failed` the files that could not be deleted.
    """

    versions: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    manifests: tuple[str, ...] = ()
    num_expired: int = 0
    num_failed: int = 0
    is_dry_run: bool = False

    @property
    def num_files(self) -> int:
        return len(self.versions) + len(self.checkpoints) + len(self.manifests)


class Cleaner:
    """Cleaner of the log of one table."""

    def __init__(self, reader: LogReader, states: StateReader, metrics: LogMetrics) -> None:
        self._reader = reader
        self._store = reader.store
        self._verifier = Verifier(reader, states)
        self._metrics = metrics

    def run(self, config: Config) -> CleanedUp:
        """Delete files that the settings do not retain; `cleanup.failurePolicy` applies."""
        goes_on = config[settings.CLEANUP_FAILURE_POLICY] != "fail"
        try:
            listing = self.look()
            plan = self._plan(listing, Retention.of(config))
            return self._carry_out(listing, plan, goes_on=goes_on, dry_run=config[settings.CLEANUP_DRY_RUN])
        except StorageError as error:
            if not goes_on:
                raise
            logger.warning("clean-up of `%s` is postponed to the next one: %s", self._reader.url, error.message)
            return CleanedUp()

    def purge(
        self, retention: Retention, *, now_ms: int, dry_run: bool, listed: Sequence[ObjectMeta] = ()
    ) -> CleanedUp:
        """Delete all files not retained at a time of the store's clock; count failures.

        `listed` are the files of the log, if they were just listed.
        """
        listing = Listing.of(listed, seen_at_ms=now_ms) if listed else self.look(now_ms)
        plan = self._plan(listing, retention, all_versions=True)
        return self._carry_out(listing, plan, goes_on=True, dry_run=dry_run)

    def truncate(self, version: int, retention: Retention) -> CleanedUp:
        """Delete everything before a version with a verified checkpoint."""
        listing = self.look()
        verified = self._verify(listing, version) if version in listing.checkpoints else None
        if verified is None:
            why = f": {self._verifier.problem}" if self._verifier.problem else ""
            what = f"the checkpoint of version {version} does not verify{why}"
            raise CheckpointValidationError(
                f"cannot truncate `{self._reader.url}` because {what}",
                version=version,
                path=self._reader.url,
                hint="run it again, or write another checkpoint first; nothing was deleted",
            )
        would_go = before_version(listing, version)
        plan = Plan([], would_go.checkpoints) if verified.needs_versions else would_go
        return self._carry_out(listing, self._with_garbage(listing, plan, retention), goes_on=True, dry_run=False)

    def look(self, now_ms: int = 0) -> Listing:
        """List the files of the log, at a time of the store's clock if it is known."""
        return Listing.of(self._store.list(LOG_DIRECTORY), seen_at_ms=now_ms)

    def _plan(self, listing: Listing, retention: Retention, *, all_versions: bool = False) -> _Sweeping:
        verify = functools.cache(lambda version: self._verify(listing, version))
        plan = plan_clean_up(listing, retention, verify, all_versions=all_versions)
        sweeping = _Sweeping(plan, []) if plan is NOTHING else self._with_garbage(listing, plan, retention)
        self._verifier.keep_only(listing.objects)
        return sweeping

    def _carry_out(self, listing: Listing, sweeping: _Sweeping, *, goes_on: bool, dry_run: bool) -> CleanedUp:
        plan, garbage = sweeping
        if dry_run:
            return self._would_delete(plan, garbage)
        sweep = _Sweep(self._store, listing, goes_on=goes_on)
        # Ascending, up to the first file that stays: a writer that slept relies on this order.
        versions = list(itertools.takewhile(lambda version: sweep.delete(version_key(version)), plan.versions))
        checkpoints = [at for at, keys in plan.checkpoints.items() if all(map(sweep.delete, _in_order(keys)))]
        # A checkpoint that could not be deleted still exists, with all its manifests.
        manifests = [key for key in garbage if sweep.delete(key)] if len(checkpoints) == len(plan.checkpoints) else []
        self._have_deleted(versions, checkpoints, manifests)
        return CleanedUp(
            versions=tuple(versions),
            checkpoints=tuple(checkpoints),
            manifests=tuple(manifests),
            num_expired=len(plan.checkpoints),
            num_failed=sweep.num_failed,
        )

    def _verify(self, listing: Listing, version: int) -> Verified | None:
        return self._verifier.verify(version, listing.checkpoints[version], listing.objects)

    def _with_garbage(self, listing: Listing, plan: Plan, retention: Retention) -> _Sweeping:
        """Add old manifests and filter sheets that no remaining state can use.

        A younger manifest may belong to a state that is being written.
        """
        old = {
            key for key in (*listing.manifests, *listing.sheets) if not retention.keeps_manifest(listing.age_ms([key]))
        }
        if not old:
            return _Sweeping(plan, [])
        for version, keys in listing.checkpoints.items():
            if version not in plan.checkpoints:
                named = self._verifier.manifests_of(version, keys, listing.objects)
                if named is None:
                    logger.info("no manifests are collected: the state of version %d cannot be read", version)
                    return _Sweeping(plan, [])
                old -= named
        return _Sweeping(plan, sorted(old))

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
            num_expired=len(plan.checkpoints),
            is_dry_run=True,
        )

    def _have_deleted(self, versions: Sequence[int], checkpoints: Sequence[int], manifests: Sequence[str]) -> None:
        self._metrics.cleaned_up(versions=len(versions), checkpoints=len(checkpoints), manifests=len(manifests))
        if versions:
            logger.info("cleaned up %d version files before version %d", len(versions), versions[-1] + 1)
        if checkpoints or manifests:
            logger.info("cleaned up %d checkpoints and %d manifests", len(checkpoints), len(manifests))


class _Sweeping(NamedTuple):
    """Plan of a clean-up, with the manifests to delete."""

    plan: Plan
    manifests: Sequence[str]


class _Sweep:
    """Deletion of listed files, with a count of failures."""

    def __init__(self, store: ObjectStore, listing: Listing, *, goes_on: bool) -> None:
        self._store = store
        self._listing = listing
        self._goes_on = goes_on
        self.num_failed = 0

    def delete(self, key: str) -> bool:
        """Delete a file if it is unchanged since the listing; return True if it is gone."""
        listed = self._listing.objects[key]
        try:
            found = self._store.head(key)
            if not _is_same(found, listed):
                logger.info("`%s` has changed since it was listed, and is kept", key)
                return False
            self._store.delete(key, with_directory=_HAS_OWN_DIRECTORY.search(key) is not None)
        except ObjectNotFoundError:
            return True
        except StorageError as error:
            if not self._goes_on:
                raise
            logger.warning("cannot clean up `%s`, the next clean-up will try again: %s", key, error.message)
            self.num_failed += 1
            return False
        return True


def _is_same(found: ObjectMeta, listed: ObjectMeta) -> bool:
    """Compare size, e-tag and time.

    The same bytes put again have the same e-tag, but another time. Some services round the time to seconds.
    """
    in_time = abs(found.modified_ms - listed.modified_ms) < _COARSE_TIME_MS
    return in_time and (found.size, found.e_tag) == (listed.size, listed.e_tag)


def _in_order(keys: Sequence[str]) -> list[str]:
    """Sort the key that completes a checkpoint first, then its parts."""
    return sorted(keys, key=lambda key: parse_part_key(key) is not None)
