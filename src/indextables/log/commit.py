"""One conditional put, settled and confirmed.

    put N if absent ──created──────────────▶ look ──in its place───────────────▶ WON
          │                                     └───on what is gone─▶ take back ─▶ MOVED
          └─ exists, or no clear answer ─▶ read N ── our transaction id ─▶ look
                                             ├────── another id ─────────▶ LOST
                                             ├────── nothing there ──────▶ the same put again
                                             └────── cannot be read ─────▶ CommitStateUnknownError

A put that failed may have been applied or may yet be, and one that says "exists" may be our own, where something on the
way has repeated it; our own client does not. Nothing else is tried while the outcome is open.

A put also succeeds where a version was cleaned away, so a writer that slept must not win an old version. One listing
after the put shows that ours is the newest, on top of the very file that it was built on: done. Anything else is looked
at by name. Clean-up goes upwards and every version names its parent, so a version above ours must name ours; a state
above ours without a version above ours means that ours is a ghost; a state at ours must stand for ours; and below ours
must be the file or the state that it was built on.
"""

from __future__ import annotations

import contextlib
import dataclasses
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
    StorageError,
    StorageRefusedError,
)
from indextables.log.base import BaseSource
from indextables.log.segment import Checkpoints, Segment, find_version, list_from
from indextables.protocol.actions import Action
from indextables.protocol.names import state_keys, version_key
from indextables.protocol.version_file import commit_info, decode_version, mark_of
from indextables.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

_Settled = TypeVar("_Settled")


class Outcome(enum.Enum):
    """How a put ended. What is not known is an error instead."""

    WON = "won"
    LOST = "lost"
    MOVED = "moved"


class _Verdict(enum.Enum):
    """Where a version stands that was put."""

    STANDS = "part of the table"
    GHOST = "in the place of a version that was cleaned away"
    ORPHAN = "on a version that is gone"
    GONE = "gone itself"


class Attempt(NamedTuple):
    """A version to be put: its number, its bytes, and the mark by which it is known to be ours."""

    version: int
    payload: bytes
    mark: str


class Committer:
    """Puts one version. The mark of a version is its transaction id; of version 0, the id in its metadata.

    Once a put has had no clear answer and ours is not there, we are in doubt: it may have been applied later, and even
    cleaned up, and a writer that slept may have put another one in its place. Then only a version that stands in its
    place proves anything.
    """

    def __init__(self, store: ObjectStore, config: Config, clock: Clock, bases: BaseSource) -> None:
        self._store = store
        self._bases = bases
        self._clock = clock
        self._config = config
        self._in_doubt = False

    def put(self, attempt: Attempt, parent: Segment | None) -> tuple[Outcome, Segment | None]:
        """Put a version on top of `parent`, and the segment that it is the newest of, if it won."""
        holder = self._settle(attempt, lambda: self._put_once(attempt))
        ours = holder == attempt.mark
        if not ours and not self._in_doubt:
            return Outcome.LOST, None
        verdict, segment = self._where_stands(attempt._replace(mark=holder), parent)
        if verdict is _Verdict.STANDS:
            return (Outcome.WON, segment) if ours else (Outcome.LOST, None)
        if verdict is not _Verdict.GONE and ours:
            self._settle(attempt, lambda: self._take_back(attempt.version))
            if not self._in_doubt:
                return Outcome.MOVED, None
        raise self._unknown(attempt, "a clean-up took the version away before it could be seen in its place")

    def _where_stands(self, attempt: Attempt, parent: Segment | None) -> tuple[_Verdict, Segment | None]:
        verdict, segment = self._settle(attempt, lambda: self._look(attempt, parent))
        if verdict is _Verdict.ORPHAN:
            # A state may have been written, and the version below cleaned up, while we looked at one and the other.
            verdict, segment = self._settle(attempt, lambda: self._look(attempt, parent))
        return verdict, segment

    def _settle(self, attempt: Attempt, step: Callable[[], _Settled]) -> _Settled:
        """Try a step again until it has a clear end; otherwise nobody knows, and the error says so."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._config[settings.TRANSACTION_RETRY_MAX_ATTEMPTS]),
            wait=commit_backoff(self._config, self._clock),
            retry=tenacity.retry_if_exception_type(_UnclearError),
            sleep=self._clock.sleep,
            reraise=True,
        )
        try:
            return retrying(step)
        except _UnclearError as error:
            raise self._unknown(attempt, error.message) from error

    def _unknown(self, attempt: Attempt, why: str) -> CommitStateUnknownError:
        return CommitStateUnknownError(
            f"cannot tell whether version {attempt.version} of `{self._store.location.url}` is ours "
            f"(transaction `{attempt.mark}`): {why}",
            version=attempt.version,
            path=version_key(attempt.version),
            hint="look for the transaction in `indextables history` before running the operation again",
        )

    def _put_once(self, attempt: Attempt) -> str:
        """Put, and the mark of whoever holds the version then."""
        key = version_key(attempt.version)
        refusal: StorageError | None = None
        try:
            self._store.put_if_absent(key, attempt.payload, once=True)
            return attempt.mark
        except ObjectExistsError as error:
            said: StorageError = error
        except (StorageRefusedError, ObjectNotFoundError) as error:
            said = refusal = error
        except StorageError as error:
            said = error
        try:
            mark = self._mark_at(attempt.version)
        except StorageError as error:
            self._in_doubt = True
            raise _UnclearError(error.message) from error
        if mark == attempt.mark and not self._store.is_remote and not isinstance(said, ObjectExistsError):
            # The file is there, but whether it will survive a power cut is not known before a put has synced it.
            self._in_doubt = True
            raise _UnclearError(said.message)
        if mark is not None:
            is_unclear = refusal is None and not isinstance(said, ObjectExistsError)
            self._in_doubt = self._in_doubt or (is_unclear and mark != attempt.mark)
            return mark
        if refusal is not None and not self._in_doubt:
            raise refusal
        self._in_doubt = True
        raise _UnclearError(said.message)

    def _mark_at(self, version: int) -> str | None:
        """The mark of the version that is there, or None where there is none."""
        try:
            actions = decode_version(self._store.get(version_key(version)), version, self._store.location)
        except ObjectNotFoundError:
            return None
        except CorruptLogError as error:
            raise CommitStateUnknownError(
                f"cannot tell whose version {version} is, because it is damaged: {error.message}",
                version=version,
                path=version_key(version),
                hint=error.hint,
            ) from error
        return mark_of(version, actions) or "of another writer"

    def _look(self, attempt: Attempt, parent: Segment | None) -> tuple[_Verdict, Segment | None]:
        """See where the version stands that was put."""
        version = attempt.version
        try:
            versions, checkpoints = list_from(self._store, max(version - 1, 0))
            own = versions.get(version)
            if own is None or not _is_plainly_next(version, parent, versions, checkpoints):
                own, verdict = self._look_by_name(attempt, parent, max(versions, default=-1), checkpoints)
                if verdict is not _Verdict.STANDS:
                    return verdict, None
        except StorageError as error:
            raise _UnclearError(error.message) from error
        if own is None:
            return _Verdict.STANDS, None
        if parent is None:
            return _Verdict.STANDS, Segment(0, version, own, checkpoints)
        known = {**parent.checkpoints, **checkpoints}
        grown = dataclasses.replace(parent, newest=version, newest_file=own, checkpoints=known, gap=None)
        return _Verdict.STANDS, grown

    def _look_by_name(
        self, attempt: Attempt, parent: Segment | None, highest: int, checkpoints: Checkpoints
    ) -> tuple[ObjectMeta | None, _Verdict]:
        """The same by name, as a listing may miss what is there; in this order, as clean-up goes upwards."""
        version = attempt.version
        child = self._actions_at(version + 1)
        own = self._own(attempt)
        info = commit_info(child) if child is not None else None
        if info is not None and info.parent_txn_id is not None:
            return own, _Verdict.STANDS if info.parent_txn_id == attempt.mark else _Verdict.GHOST
        if own is None:
            return None, _Verdict.GONE
        if child is None and any(self._is_of_this_table(at, highest) for at in checkpoints if at > version):
            return own, _Verdict.GHOST
        if child is None and self._bases.txn_id_at(version) == attempt.mark:
            return own, _Verdict.STANDS
        if child is None and self._is_of_this_table(version, highest - 1):
            return own, _Verdict.GHOST
        if parent is None or _is_same(find_version(self._store, parent.newest), parent):
            return own, _Verdict.STANDS
        stands = parent.newest in checkpoints or self._is_state_at(parent.newest)
        return own, _Verdict.STANDS if stands else _Verdict.ORPHAN

    def _is_of_this_table(self, version: int, highest: int) -> bool:
        """Whether a state counts: one of another writer is a commit; one of ours has a version at or above it, unless
        it is what a checkpoint of an earlier table at this place has left."""
        stands_for = self._bases.txn_id_at(version)
        return stands_for == "" or (stands_for is not None and highest >= version)

    def _own(self, attempt: Attempt) -> ObjectMeta | None:
        """The file of the version, if it is still the one that was put: a clean-up and another ghost may have come."""
        actions = self._actions_at(attempt.version)
        if actions is None or mark_of(attempt.version, actions) != attempt.mark:
            return None
        return find_version(self._store, attempt.version)

    def _take_back(self, version: int) -> None:
        """A step of its own: seen again after its answer was lost, the missing file would look like a clean-up."""
        logger.warning("version %d of `%s` stands on what is gone: taking it back", version, self._store.location.url)
        try:
            self._store.delete(version_key(version))
        except StorageError as error:
            raise _UnclearError(error.message) from error

    def _actions_at(self, version: int) -> Sequence[Action] | None:
        try:
            return decode_version(self._store.get(version_key(version)), version, self._store.location)
        except ObjectNotFoundError:
            return None
        except CorruptLogError:
            return ()

    def _is_state_at(self, version: int) -> bool:
        for key in state_keys(version):
            with contextlib.suppress(ObjectNotFoundError):
                self._store.head(key)
                return True
        return False


def _is_plainly_next(
    version: int, parent: Segment | None, versions: dict[int, ObjectMeta], checkpoints: Checkpoints
) -> bool:
    """Whether a listing shows nothing but the version on top of the very file that it was built on."""
    if version + 1 in versions or max(checkpoints, default=-1) >= version:
        return False
    return parent is None or _is_same(versions.get(parent.newest), parent)


def _is_same(seen: ObjectMeta | None, parent: Segment) -> bool:
    known = parent.newest_file
    return seen is not None and known is not None and (seen.size, seen.e_tag) == (known.size, known.e_tag)


def commit_backoff(config: Config, clock: Clock) -> Callable[[tenacity.RetryCallState], float]:
    """How long commits wait from one try to the next."""
    base_ms = config[settings.TRANSACTION_RETRY_BASE_DELAY_MS]
    return backoff(base_ms, config[settings.TRANSACTION_RETRY_MAX_DELAY_MS], clock)


def backoff(base_ms: int, max_ms: int, clock: Clock) -> Callable[[tenacity.RetryCallState], float]:
    """Exponential waits with full jitter, in seconds."""

    def wait(state: tenacity.RetryCallState) -> float:
        ceiling_ms: float = min(max_ms, base_ms * 2 ** min(state.attempt_number - 1, 30))
        return clock.uniform() * ceiling_ms / 1000

    return wait


class _UnclearError(IndexTablesError):
    """The store gave no clear answer: ask again."""
