"""One conditional put, with resolution of unknown outcomes and confirmation.

    put N if absent ──created──────────────▶ look ──in its place───────────────▶ WON
          │                                     └───parent is gone──▶ take back ─▶ MOVED
          └─ exists, or no clear response ─▶ read N ── our transaction id ─▶ look
                                             ├────── another id ─────────▶ LOST
                                             ├────── no object ──────────▶ the same put again
                                             └────── cannot be read ─────▶ CommitStateUnknownError

A failed put may have been applied or may yet be applied, and a put that reports "exists" may have found our own object,
if a proxy has repeated the request; our own client does not. Nothing else is tried while the outcome is unknown.

A put also succeeds at a version that was cleaned up, so a writer that slept must not win an old version. One listing
after the put usually shows that ours is the newest version, on top of the same file that it was built on: done. All
other cases are checked by name. Clean-up deletes in ascending order and every version names its parent. A version above
ours must therefore name ours, and so must each one above it name the one below; a state above the highest of these
means that all of them are ghosts; a state at ours must match ours; and the file or the state that ours was built on
must be below it.
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
from indextables.log.replay import VersionFile, recorded_time_ms
from indextables.log.segment import Checkpoints, Segment, find_version, list_from
from indextables.log.versions import FoundVersion
from indextables.protocol.actions import Action
from indextables.protocol.names import state_keys, version_key
from indextables.protocol.version_file import commit_info, decode_version, identity_of
from indextables.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

_Settled = TypeVar("_Settled")
_OF_ANOTHER = "of another writer"

Search = Callable[[int], Callable[[], FoundVersion | None]]
"""Beginning of a read of a version file by its number; the result waits for its end."""


class Outcome(enum.Enum):
    """Outcome of a put; an unknown outcome is an error instead."""

    WON = "won"
    LOST = "lost"
    MOVED = "moved"


class _Verdict(enum.Enum):
    """Position of a version after its put."""

    STANDS = "part of the table"
    GHOST = "in the place of a version that was cleaned away"
    ORPHAN = "on a version that is gone"
    GONE = "gone itself"


class _Top(NamedTuple):
    """The highest version that follows ours by the names of parents, and its child.

    It is broken if the child names another version.
    """

    version: int
    identity: str | None
    child: Sequence[Action] | None
    is_broken: bool


class Attempt(NamedTuple):
    """Version to put: its number, its bytes, and the identity that marks it as ours."""

    version: int
    payload: bytes
    identity: str


class Committer:
    """Writer of one version.

    The identity of a version is its transaction id, or for version 0 the id in its metadata.

    Once a put had no clear response and our version is missing, the outcome is in doubt: the put may have been applied
    later, and even cleaned up, and a writer that slept may have put another version in its place. Then only a version
    in its proper place is a proof.

    After a put, `put_seconds` is the duration of its request, and `winner` the version of another writer in its place,
    if that was read. `search` reads a version while the put of the same version is under way: if many writers contend,
    the put probably loses, and the winner is then known at once.
    """

    def __init__(
        self, store: ObjectStore, config: Config, clock: Clock, bases: BaseSource, search: Search | None = None
    ) -> None:
        self._store = store
        self._bases = bases
        self._clock = clock
        self._config = config
        self._search = search
        self._in_doubt = False
        self.put_seconds = 0.0
        self.winner: FoundVersion | None = None

    def put(self, attempt: Attempt, parent: Segment | None) -> tuple[Outcome, Segment | None]:
        """Put a version on top of `parent`.

        Return the outcome, and the new segment if it won.
        """
        holder = self._settle(attempt, lambda: self._put_once(attempt))
        ours = holder == attempt.identity
        if not ours and not self._in_doubt:
            return Outcome.LOST, None
        verdict, segment = self._where_stands(attempt._replace(identity=holder), parent)
        if verdict is _Verdict.STANDS:
            return (Outcome.WON, segment) if ours else (Outcome.LOST, None)
        if verdict is not _Verdict.GONE and ours:
            self._settle(attempt, lambda: self._take_back(attempt.version))
            if not self._in_doubt:
                return Outcome.MOVED, None
        raise self._unknown(attempt, "a clean-up deleted the version before it could be confirmed")

    def _where_stands(self, attempt: Attempt, parent: Segment | None) -> tuple[_Verdict, Segment | None]:
        verdict, segment = self._settle(attempt, lambda: self._look(attempt, parent))
        if verdict is _Verdict.ORPHAN:
            # Between the two checks, a state may have been written and the version below cleaned up.
            verdict, segment = self._settle(attempt, lambda: self._look(attempt, parent))
        return verdict, segment

    def _settle(self, attempt: Attempt, step: Callable[[], _Settled]) -> _Settled:
        """Repeat a step until it has a clear result; raise an error if it never has."""
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
            f"cannot find out whether version {attempt.version} of `{self._store.location.url}` is ours "
            f"(transaction `{attempt.identity}`): {why}",
            version=attempt.version,
            path=version_key(attempt.version),
            hint="look for the transaction in `indextables history` before running the operation again",
        )

    def _put_once(self, attempt: Attempt) -> str:
        """Put, and return the identity of the version that exists afterwards."""
        key = version_key(attempt.version)
        refusal: StorageError | None = None
        self.winner = None
        found = self._search(attempt.version) if self._search is not None else None
        started = self._clock.monotonic()
        try:
            self._store.put_if_absent(key, attempt.payload, once=True)
            self.put_seconds = self._clock.monotonic() - started
            return attempt.identity
        except ObjectExistsError as error:
            said: StorageError = error
            self.winner = found() if found is not None else None
        except (StorageRefusedError, ObjectNotFoundError) as error:
            said = refusal = error
        except StorageError as error:
            said = error
        self.put_seconds = self._clock.monotonic() - started
        try:
            identity = self._winning_identity(attempt.version)
        except StorageError as error:
            self._in_doubt = True
            raise _UnclearError(error.message) from error
        if identity == attempt.identity and not self._store.is_remote and not isinstance(said, ObjectExistsError):
            # The file exists, but only a completed put proves that it is synced and survives a power cut.
            self._in_doubt = True
            raise _UnclearError(said.message)
        if identity is not None:
            is_unclear = refusal is None and not isinstance(said, ObjectExistsError)
            self._in_doubt = self._in_doubt or (is_unclear and identity != attempt.identity)
            return identity
        if refusal is not None and not self._in_doubt:
            raise refusal
        self._in_doubt = True
        raise _UnclearError(said.message)

    def _winning_identity(self, version: int) -> str | None:
        if self.winner is not None and self.winner.file.version == version:
            return self.winner.file.identity or _OF_ANOTHER
        return self._identity_at(version)

    def _identity_at(self, version: int) -> str | None:
        """Return the identity of the existing version, or None if there is none."""
        try:
            data, meta = self._store.get_object(version_key(version))
            actions = decode_version(data, version, self._store.location)
        except ObjectNotFoundError:
            return None
        except CorruptLogError as error:
            raise CommitStateUnknownError(
                f"cannot find out who wrote version {version} because it is damaged: {error.message}",
                version=version,
                path=version_key(version),
                hint=error.hint,
            ) from error
        timestamp_ms = recorded_time_ms(version, actions)
        file = None if timestamp_ms is None else VersionFile(version, actions, timestamp_ms)
        self.winner = None if file is None else FoundVersion(file, meta)
        return identity_of(version, actions) or _OF_ANOTHER

    def _look(self, attempt: Attempt, parent: Segment | None) -> tuple[_Verdict, Segment | None]:
        """Return the position of the version that was put."""
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
        """Check by name, as a listing may miss objects.

        In this order, as clean-up ascends.
        """
        version = attempt.version
        top = self._climb(attempt)
        own = self._own(attempt)
        child = top.child
        if top.is_broken and top.version == version:
            return own, _Verdict.GHOST
        if top.version > version:
            return own, self._verdict_by_children(top, own, highest, checkpoints)
        if own is None:
            return None, _Verdict.GONE
        if child is None and any(self._is_of_this_table(at, highest) for at in checkpoints if at > version):
            return own, _Verdict.GHOST
        if child is None and self._bases.txn_id_at(version) == attempt.identity:
            return own, _Verdict.STANDS
        if child is None and self._is_of_this_table(version, highest - 1):
            return own, _Verdict.GHOST
        if parent is None or _is_same(find_version(self._store, parent.newest), parent):
            return own, _Verdict.STANDS
        stands = parent.newest in checkpoints or self._is_state_at(parent.newest)
        return own, _Verdict.STANDS if stands else _Verdict.ORPHAN

    def _climb(self, attempt: Attempt) -> _Top:
        """Follow the versions above ours, as long as each names the one below it."""
        version = attempt.version
        identity: str | None = attempt.identity
        while True:
            child = self._actions_at(version + 1)
            info = commit_info(child) if child is not None else None
            if child is None or info is None or info.parent_txn_id is None:
                return _Top(version, identity, child, is_broken=False)
            if info.parent_txn_id != identity:
                return _Top(version, identity, child, is_broken=True)
            version, identity = version + 1, identity_of(version + 1, child)

    def _verdict_by_children(
        self, top: _Top, own: ObjectMeta | None, highest: int, checkpoints: Checkpoints
    ) -> _Verdict:
        """Return our position if the version above names ours.

        It may be a ghost itself, of a writer that lost against our ghost and went on from it. Then a later version
        names another one, or is there although the one below it is gone. A clean-up that runs now looks alike, but
        deletes ours first.
        """
        is_passed = highest > top.version or any(
            self._is_of_this_table(at, highest) for at in checkpoints if at > top.version
        )
        if not top.is_broken and (top.child is not None or not is_passed):
            return _Verdict.STANDS
        is_whole = own is not None and self._identity_at(top.version) == top.identity
        return _Verdict.GHOST if is_whole else _Verdict.GONE

    def _is_of_this_table(self, version: int, highest: int) -> bool:
        """Return True if a state belongs to this table.

        A state of another writer is a commit. A state of ours has a version at or above it, unless it is left over from
        an earlier table at the same address.
        """
        stands_for = self._bases.txn_id_at(version)
        return stands_for == "" or (stands_for is not None and highest >= version)

    def _own(self, attempt: Attempt) -> ObjectMeta | None:
        """Return the version file if it is still ours.

        Clean-up and a ghost may have replaced it.
        """
        actions = self._actions_at(attempt.version)
        if actions is None or identity_of(attempt.version, actions) != attempt.identity:
            return None
        return find_version(self._store, attempt.version)

    def _take_back(self, version: int) -> None:
        """Delete our version file, as a separate step.

        If it were repeated after a lost response, the missing file would look like a clean-up.
        """
        logger.warning(
            "the parent of version %d of `%s` is gone: taking the version back", version, self._store.location.url
        )
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
    """Return True if a listing shows only the version on top of its parent file."""
    if version + 1 in versions or max(checkpoints, default=-1) >= version:
        return False
    return parent is None or _is_same(versions.get(parent.newest), parent)


def _is_same(seen: ObjectMeta | None, parent: Segment) -> bool:
    known = parent.newest_file
    return seen is not None and known is not None and (seen.size, seen.e_tag) == (known.size, known.e_tag)


def commit_backoff(config: Config, clock: Clock) -> Callable[[tenacity.RetryCallState], float]:
    """Return the waiting times between attempts to commit."""
    base_ms = config[settings.TRANSACTION_RETRY_BASE_DELAY_MS]
    return backoff(base_ms, config[settings.TRANSACTION_RETRY_MAX_DELAY_MS], clock)


def backoff(base_ms: int, max_ms: int, clock: Clock) -> Callable[[tenacity.RetryCallState], float]:
    """Return exponential waiting times with full jitter, in seconds."""

    def wait(state: tenacity.RetryCallState) -> float:
        ceiling_ms: float = min(max_ms, base_ms * 2 ** min(state.attempt_number - 1, 30))
        return clock.uniform() * ceiling_ms / 1000

    return wait


class _UnclearError(IndexTablesError):
    """The store sent no clear response: try again."""
