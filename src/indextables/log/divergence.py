"""Detection of diverged histories: version files against states of other writers.

Some writers commit only states and never see version files. If such a state takes the number of a version that it does
not contain, the log has two histories, and a reader of either would lose rows of the other. That is an error, never a
choice. States of this library name their transaction and need no such check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from indextables.errors import DivergedLogError, ProtocolError
from indextables.log.replay import VersionFile
from indextables.log.segment import NEAR_VERSIONS, Segment
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.actions import Add, Remove
from indextables.protocol.names import state_keys, version_key


def versions_near(segment: Segment, version: int) -> list[int]:
    """Return the newest consecutive version files up to a version.

    None if it has none.
    """
    found: list[int] = []
    while len(found) < NEAR_VERSIONS and _is_file(segment, version):
        found.append(version)
        version -= 1
    return found[::-1]


def newest_file_below(segment: Segment, version: int) -> int | None:
    """Return the newest version file below a version."""
    if segment.newest_file is not None and segment.oldest < version:
        return min(segment.newest, version - 1)
    return max((older for older in segment.older_files if older < version), default=None)


def _is_file(segment: Segment, version: int) -> bool:
    """Return True if a version has a file to check; every state contains version 0."""
    return version > 0 and (segment.covers(version) or version in segment.older_files)


def refuse_state_commits(segment: Segment, newest: Head, url: str) -> None:
    """Refuse to write a table whose newest commit is only a state.

    Its writer would not see the version file, and would put a state of the same number.
    """
    if segment.newest_file is None and not newest.txn_id:
        raise ProtocolError(
            f"cannot write `{url}` because its newest version {newest.version} is a state without a version file: the "
            "engine that commits so does not see version files, and its next state would diverge from this commit",
            hint="stop that engine from writing, then take the table over once by `CHECKPOINT INDEXTABLES "
            f"'{url}'` (`indextables checkpoint`, `Table.checkpoint()`)",
        )


def check_contains(state: Snapshot, versions: Sequence[VersionFile], url: str) -> None:
    """Refuse a state that lacks a file the versions add, or has one they remove."""
    added, removed = _changes(versions)
    if not added and not removed:
        return
    live = state.live_files.contains([*added, *removed])
    lost = [path for path in added if not live[path]]
    back = [path for path in removed if live[path]]
    if lost or back:
        path, what = (lost[0], "lacks") if lost else (back[0], "holds")
        version = min(added[path] for path in lost) if lost else min(removed[path] for path in back)
        raise _diverged(url, version, state.version, f"{what} `{path}`, which that version {_VERBS[what]}")


_VERBS = {"lacks": "adds", "holds": "removes"}


def _changes(versions: Iterable[VersionFile]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the added and the removed paths of versions, each with its version."""
    added: dict[str, int] = {}
    removed: dict[str, int] = {}
    for file in versions:
        for action in file.actions:
            if isinstance(action, Add):
                removed.pop(action.path, None)
                added[action.path] = file.version
            elif isinstance(action, Remove):
                added.pop(action.path, None)
                removed[action.path] = file.version
    return added, removed


def _diverged(url: str, version: int, state_version: int, why: str) -> DivergedLogError:
    return DivergedLogError(
        f"cannot read `{url}` because its log has two histories: the state `{state_keys(state_version)[0]}` of another "
        f"writer does not contain the version `{version_key(version)}` (it {why})",
        hint="stop the other writer, then run `REPAIR INDEXFILES TRANSACTION LOG` (`indextables repair`): it writes a "
        "clean log with the rows of both to another place",
        version=version,
        state_version=state_version,
    )
