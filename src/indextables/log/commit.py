"""One conditional put, settled and confirmed.

    put N if absent ──created──────────────▶ confirm ──stands on the version we saw──▶ WON
          │                                     └──────stands on nothing, or other───▶ take back ─▶ MOVED
          └─ exists, or no clear answer ─▶ read N ── our transaction id ─▶ confirm
                                             ├────── another id ─────────▶ LOST
                                             ├────── nothing there ──────▶ the same put again
                                             └────── cannot be read ─────▶ CommitStateUnknownError

A client retries inside, so a put that says "exists" may be our own, and one that failed may have been applied or may
yet be. Nothing else is tried while the outcome is open.

A put also succeeds where a version was cleaned away, so a writer that slept must not win an old version. Clean-up goes
upwards and every version names its parent, so one listing after the put tells: the version above ours must name ours;
a state at ours must stand for ours; a state above ours without a version above ours means that ours is a ghost; and if
ours is the newest, the version below must be the file we built on.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import tenacity

from indextables.clock import Clock
from indextables.config import Config, settings
from indextables.errors import (
    CommitStateUnknownError,
    CorruptLogError,
    IndexTablesError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageError,
)
from indextables.log.base import BaseSource
from indextables.log.segment import Segment, find_version, list_from
from indextables.protocol.actions import Action, Metadata
from indextables.protocol.names import version_key
from indextables.protocol.version_file import commit_info, decode_version
from indextables.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

_Settled = TypeVar("_Settled")


class Outcome(enum.Enum):
    """How a put ended. What is not known is an error instead."""

    WON = "won"
    LOST = "lost"
    MOVED = "moved"


class Attempt(NamedTuple):
    """A version to be put: its number, its bytes, and the mark by which it is known to be ours."""

    version: int
    payload: bytes
    mark: str


class Committer:
    """Puts versions. The mark of a version is its transaction id; of version 0, the id in its metadata."""

    def __init__(self, store: ObjectStore, config: Config, clock: Clock, bases: BaseSource) -> None:
        self._store = store
        self._bases = bases
        self._clock = clock
        self._config = config

    def put(self, attempt: Attempt, parent: Segment | None) -> tuple[Outcome, Segment | None]:
        """Put a version on top of `parent`, and the segment that it is the newest of, if it won."""
        outcome = self._settle(attempt, lambda: self._put_once(attempt))
        if outcome is Outcome.LOST:
            return outcome, None
        return self._settle(attempt, lambda: self._confirm(attempt, parent))

    def _settle(self, attempt: Attempt, step: Callable[[], _Settled]) -> _Settled:
        """Try a step again until it has a clear end; otherwise nobody knows, and the error says so."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._config[settings.TRANSACTION_RETRY_MAX_ATTEMPTS]),
            wait=backoff(self._config, self._clock),
            retry=tenacity.retry_if_exception_type(_UnclearError),
            sleep=self._clock.sleep,
            reraise=True,
        )
        try:
            return retrying(step)
        except _UnclearError as error:
            raise CommitStateUnknownError(
                f"cannot tell whether version {attempt.version} of `{self._store.location.url}` is ours "
                f"(transaction `{attempt.mark}`): {error}",
                hint="look at `indextables history` for the transaction before running the operation again; "
                "nothing was deleted",
            ) from error

    def _put_once(self, attempt: Attempt) -> Outcome:
        key = version_key(attempt.version)
        refusal: StorageError | None = None
        try:
            self._store.put_if_absent(key, attempt.payload)
            return Outcome.WON
        except ObjectExistsError as error:
            said: StorageError = error
        except (StorageDeniedError, ObjectNotFoundError) as error:
            said = refusal = error
        except StorageError as error:
            said = error
        mark = self._mark_at(attempt.version)
        if mark is None:
            if refusal is not None:
                raise refusal
            raise _UnclearError(said.message)
        return Outcome.WON if mark == attempt.mark else Outcome.LOST

    def _mark_at(self, version: int) -> str | None:
        """The mark of the version that is there, or None where there is none."""
        try:
            actions = decode_version(self._store.get(version_key(version)), version, self._store.location)
        except ObjectNotFoundError:
            return None
        except StorageError as error:
            raise _UnclearError(error.message) from error
        except CorruptLogError as error:
            raise CommitStateUnknownError(
                f"cannot tell whose version {version} is, because it is damaged: {error.message}", hint=error.hint
            ) from error
        return mark_of(actions) or "of another writer"

    def _confirm(self, attempt: Attempt, parent: Segment | None) -> tuple[Outcome, Segment | None]:
        """See that the version stands where it should, and take it back where it does not."""
        version = attempt.version
        try:
            versions, checkpoints = list_from(self._store, max(version - 1, 0))
            own = versions.get(version) or find_version(self._store, version)
            if own is None:
                # A clean-up that covers our version has taken the file away already.
                return Outcome.WON, None
            stands = self._stands(attempt, parent, versions, checkpoints)
        except StorageError as error:
            raise _UnclearError(error.message) from error
        if stands:
            oldest = parent.oldest if parent is not None else 0
            known = parent.checkpoints if parent is not None else ()
            return Outcome.WON, Segment(oldest, version, own, tuple(sorted({*known, *checkpoints})))
        self._take_back(version)
        return Outcome.MOVED, None

    def _take_back(self, version: int) -> None:
        logger.warning("version %d of `%s` stood on what is gone: taking it back", version, self._store.location.url)
        try:
            self._store.delete(version_key(version))
        except StorageError as error:
            raise _UnclearError(f"it stands on what is gone, and {error.message}") from error

    def _stands(
        self, attempt: Attempt, parent: Segment | None, versions: dict[int, ObjectMeta], checkpoints: set[int]
    ) -> bool:
        version = attempt.version
        if version + 1 in versions:
            named = self._parent_named_by(version + 1)
            if named is not None:
                return named == attempt.mark
        elif max(checkpoints, default=-1) > version:
            return False
        elif version in checkpoints:
            return self._bases.txn_id_at(version) == attempt.mark
        return parent is None or parent.newest in checkpoints or self._is_there(parent, versions)

    def _parent_named_by(self, version: int) -> str | None:
        """The parent that a version names; None where its writer names none, or it is gone already."""
        try:
            data = self._store.get(version_key(version))
            info = commit_info(decode_version(data, version, self._store.location))
        except (ObjectNotFoundError, CorruptLogError):
            return None
        return info.parent_txn_id if info else None

    def _is_there(self, parent: Segment, versions: dict[int, ObjectMeta]) -> bool:
        """Whether the version below ours is there, and is the file that was read."""
        known = parent.newest_file
        seen = versions.get(parent.newest) or find_version(self._store, parent.newest)
        return seen is not None and known is not None and (seen.size, seen.e_tag) == (known.size, known.e_tag)


def mark_of(actions: Sequence[Action]) -> str | None:
    """The transaction id of a version, or the metadata's id of version 0."""
    info = commit_info(actions)
    if info is not None:
        return info.txn_id
    return next((action.id for action in actions if isinstance(action, Metadata)), None)


def backoff(config: Config, clock: Clock) -> Callable[[tenacity.RetryCallState], float]:
    """Exponential waits with full jitter, in seconds."""
    base_ms = config[settings.TRANSACTION_RETRY_BASE_DELAY_MS]
    max_ms = config[settings.TRANSACTION_RETRY_MAX_DELAY_MS]

    def wait(state: tenacity.RetryCallState) -> float:
        ceiling_ms: float = min(max_ms, base_ms * 2 ** min(state.attempt_number - 1, 30))
        return clock.uniform() * ceiling_ms / 1000

    return wait


class _UnclearError(IndexTablesError):
    """The store gave no clear answer: ask again."""
