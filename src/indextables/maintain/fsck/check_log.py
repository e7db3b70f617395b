"""Check the files of a log against each other.

The files are versions, states, checkpoints, manifests and the hint. Versions are folded in order, and every checkpoint
is compared with the result, as far as the versions exist. The check also collects the files that any readable version
names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from indextables.errors import CheckpointError, ConfigError, CorruptLogError, ObjectNotFoundError
from indextables.log.replay import BrokenChainError, VersionFile, advance, check_chain, fold, newest_definitions
from indextables.log.segment import find_version
from indextables.log.snapshot import Head, Snapshot
from indextables.log.store_clock import ahead_text
from indextables.maintain.fsck.check_checkpoints import CheckpointReader
from indextables.protocol.actions import Add, Remove
from indextables.protocol.checkpoint.last_checkpoint import decode_last_checkpoint
from indextables.protocol.doc_mapping import without_registry
from indextables.protocol.file_table import FILES_SCHEMA
from indextables.protocol.names import LAST_CHECKPOINT, LOG_DIRECTORY, version_key
from indextables.protocol.version_file import identity_of
from indextables.state.cleanup.retention import Listing
from indextables.transaction_log import TransactionLog

# Two references may name one mapping, so mappings are compared by their text.
_COMPARED = [name for name in FILES_SCHEMA.names if name != "doc_mapping_ref"]


def snapshot_differences(state: Snapshot, replayed: Snapshot) -> Iterator[str]:
    """Yield a sentence for each difference between a checkpoint and the replay.

    A checkpoint of another writer names no transaction. It may recount files and omit fields that it does not know, so
    only its paths are compared.
    """
    if not state.txn_id and state.version > 0:
        yield from _path_differences(state.files["path"].to_pylist(), replayed.files["path"].to_pylist())
        return
    if state.protocol != replayed.protocol:
        yield "its protocol differs from the versions"
    if _definitions(state) != _definitions(replayed):
        yield "its metadata differs from the versions"
    if dict(state.skips) != dict(replayed.skips):
        yield "its skips differ from the versions"
    if dict(state.transactions) != dict(replayed.transactions):
        yield "its stream batches differ from the versions"
    yield from _file_differences(_sorted(state), _sorted(replayed))


def _definitions(snapshot: Snapshot) -> dict[str, Any]:
    metadata = snapshot.metadata
    fields = {name: getattr(metadata, name) for name in metadata.__struct_fields__}
    return {**fields, "configuration": without_registry(metadata.configuration)}


def _sorted(snapshot: Snapshot) -> pa.Table:
    files = snapshot.described_files
    at = files.schema.get_field_index("doc_mapping_json")
    texts = files["doc_mapping_json"].cast(pa.string())
    return files.set_column(at, FILES_SCHEMA.field("doc_mapping_json"), texts).sort_by("path")


def _file_differences(found: pa.Table, expected: pa.Table) -> Iterator[str]:
    if found["path"].to_pylist() != expected["path"].to_pylist():
        yield from _path_differences(found["path"].to_pylist(), expected["path"].to_pylist())
        return
    for name in _COMPARED:
        if not found[name].equals(expected[name]):
            rows = zip(found["path"].to_pylist(), found[name].to_pylist(), expected[name].to_pylist(), strict=True)
            other = [path for path, left, right in rows if _plain(left) != _plain(right)]
            if other:
                yield f"`{name}` of {len(other)} files differs from the versions, for example in `{other[0]}`"


def _path_differences(found: Sequence[str], expected: Sequence[str]) -> Iterator[str]:
    here, there = set(found), set(expected)
    extra, lost = sorted(here - there), sorted(there - here)
    if lost:
        yield f"it lacks {len(lost)} files of the versions, for example `{lost[0]}`"
    if extra:
        yield f"it holds {len(extra)} files that the versions do not, for example `{extra[0]}`"
    if len(found) > len(here):
        yield "it holds a file twice"


def _plain(value: Any) -> Any:
    """Turn a map, which arrives as a list of pairs, into a dict without order."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value or None if isinstance(value, list) else value


ERROR, WARNING = "error", "warning"
_LOOKS = 5
_NUMBERED_ZERO = (
    "it holds the files of a later version under the number 0: the CHECKPOINT command of an engine that counts version "
    "files wrote it for a table whose commits are states; it is read only if no newer state is left"
)
_VERSIONS_AT_ONCE = 100


class Problem(NamedTuple):
    """A problem of a table."""

    severity: str
    check: str
    version: int | None
    path: str | None
    problem: str


class NamedFile(NamedTuple):
    """A file named by a version, with its size and the last version it is live in.

    `last_version` is None while the file is live.
    """

    size: int
    last_version: int | None


class CheckedLog(NamedTuple):
    """Problems found, numbers of checked files, and all files from the horizon on."""

    problems: list[Problem]
    num_versions: int
    num_checkpoints: int
    files: dict[str, NamedFile]


def check_log(log: TransactionLog, horizon: int) -> CheckedLog:
    """Check every file of the log.

    Checks again from the start if the log changed meanwhile, by a commit, a checkpoint or a clean-up. A problem that
    the next check does not find was caused by that change.
    """
    listing = Listing.of(log.reader.store.list(LOG_DIRECTORY))
    checked = _LogCheck(log, listing, horizon).run()
    for _ in range(_LOOKS):
        again = Listing.of(log.reader.store.list(LOG_DIRECTORY)) if checked.problems else listing
        if listing.objects == again.objects:
            return checked
        log.invalidate_cache()
        before, listing = checked.problems, again
        checked = _LogCheck(log, listing, horizon).run()
        if set(checked.problems) <= set(before):
            return checked
    return checked._replace(problems=[problem for problem in checked.problems if problem in before])


class _LogCheck:
    """One pass over a log."""

    def __init__(self, log: TransactionLog, listing: Listing, horizon: int) -> None:
        if log.states is None:
            raise ConfigError(
                f"cannot check the states of `{log.url}` because the caller supplies the states of this log"
            )
        self._reader = log.reader
        self._listing = listing
        self._horizon = horizon
        self._checkpoints = CheckpointReader(log.reader.store, log.states, listing)
        self._replay = _Replay()
        self._problems: list[Problem] = []
        self._files: dict[str, NamedFile] = {}
        self._follows = False
        self._noted = -1
        self._is_ahead = False
        self._last: VersionFile | None = None

    def run(self) -> CheckedLog:
        listing = self._listing
        for version in sorted({*listing.versions, *listing.checkpoints}):
            file = self._read_version(version) if version in listing.versions else None
            self._check_time(version, file)
            self._advance(version, file)
            self._check_checkpoints(version)
            self._note_files(version, file)
        self._check_holes()
        self._check_hint()
        return CheckedLog(self._problems, len(listing.versions), self._checkpoints.num_read, self._files)

    def _read_version(self, version: int) -> VersionFile | None:
        try:
            return self._reader.read_version(version)
        except CorruptLogError as error:
            self._report(ERROR, "version", version, version_key(version), error.message)
        except ObjectNotFoundError:
            self._report(ERROR, "version", version, version_key(version), "it is missing")
        return None

    def _advance(self, version: int, file: VersionFile | None) -> None:
        """Add a version to the replay if it follows, else restart at the next checkpoint."""
        before, self._last = self._last, file
        if file is None or not (version == 0 or self._replay.version == version - 1):
            self._restart()
            return
        if version == 0 and newest_definitions(file.actions)[0] is None:
            self._report(ERROR, "version", 0, version_key(0), "it holds no metadata")
            self._restart()
            return
        try:
            if before is not None and before.version == version - 1 and file.info is not None:
                check_chain(before.version, before.identity, file)
            self._replay.add(file)
        except BrokenChainError as error:
            # A writer that slept and died may leave a version in the place of a cleaned-up one, below the oldest
            # checkpoint.
            is_left_over = 0 not in self._listing.versions and version in self._listing.checkpoints
            severity = WARNING if is_left_over else ERROR
            self._report(severity, "version", version, version_key(version), error.message)
            self._restart()

    def _check_time(self, version: int, file: VersionFile | None) -> None:
        """Report the first version dated in the future; later ones are at least as late."""
        if self._is_ahead or file is None:
            return
        problem = ahead_text(file.timestamp_ms, self._listing.versions.get(version))
        if problem is not None:
            self._is_ahead = True
            self._report(WARNING, "version", version, version_key(version), problem)

    def _restart(self) -> None:
        self._replay = _Replay()
        self._follows = False

    def _check_checkpoints(self, version: int) -> None:
        """Check every checkpoint of a version, in every format."""
        for found in self._checkpoints.read(version):
            for finding in found.findings:
                self._report(ERROR, finding.check, version, finding.path, finding.problem)
            if found.snapshot is None:
                continue
            if version == 0 and not found.snapshot.txn_id and found.snapshot.num_files:
                self._report(WARNING, "checkpoint", 0, found.path, _NUMBERED_ZERO)
            elif not self._stands_for(version, found.snapshot):
                self._report(
                    WARNING, "checkpoint", version, found.path, "it belongs to another transaction than the log"
                )
            elif self._replay.version == version:
                for text in snapshot_differences(found.snapshot, self._replay.snapshot()):
                    self._report(ERROR, "checkpoint", version, found.path, text)
            else:
                self._replay = _Replay(found.snapshot)

    def _stands_for(self, version: int, snapshot: Snapshot) -> bool:
        """Return whether a checkpoint belongs to this log.

        A checkpoint that names its transaction and has no version file is left over from an earlier table, unless that
        version was cleaned up.
        """
        if not snapshot.txn_id:
            return True
        if version not in self._listing.versions:
            return version < max(self._listing.versions, default=-1)
        if self._last is None:
            return True
        return identity_of(version, self._last.actions) in (None, snapshot.txn_id)

    def _note_files(self, version: int, file: VersionFile | None) -> None:
        """Note the files of a readable version: all at first, then only its changes."""
        if version < self._horizon or self._replay.version != version:
            return
        if not self._follows:
            self._follows = True
            self._begin_files(self._replay.snapshot())
        elif file is not None:
            for action in file.actions:
                if isinstance(action, Add):
                    self._files[action.path] = NamedFile(action.size, None)
                elif isinstance(action, Remove) and action.path in self._files:
                    self._files[action.path] = self._files[action.path]._replace(last_version=version - 1)

        self._noted = version

    def _begin_files(self, snapshot: Snapshot) -> None:
        """Note all files of a version.

        A file that was live before and is not live here was removed in a version between.
        """
        sizes = dict(zip(snapshot.files["path"].to_pylist(), snapshot.files["size"].to_pylist(), strict=True))
        for path, known in self._files.items():
            if path not in sizes and known.last_version is None:
                self._files[path] = known._replace(last_version=self._noted)
        self._files.update({path: NamedFile(size, None) for path, size in sizes.items()})

    def _check_holes(self) -> None:
        """Report versions that are missing while later ones exist.

        Clean-up removes versions only below the oldest retained one, but keeps version 0 for states without the table's
        definitions.
        """
        versions = sorted(self._listing.versions)
        runs = list(_runs(versions))
        for run in runs[:-1]:
            missing = run[-1] + 1
            is_covered = any(version >= missing for version in self._listing.checkpoints)
            is_kept = run == [0] and self._checkpoints.needs_version_0
            is_left_over = len(run) == 1 and run != [0]
            if is_covered and (is_kept or is_left_over):
                continue
            if find_version(self._reader.store, missing) is None:
                text = "it is missing while earlier and later versions are there"
                self._report(ERROR, "version", missing, version_key(missing), text)
        if versions and versions[0] > 0 and not self._listing.checkpoints:
            self._report(ERROR, "version", 0, version_key(0), "it is missing, and no checkpoint replaces it")

    def _check_hint(self) -> None:
        key = f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}"
        if key not in self._listing.objects:
            return
        try:
            hint = decode_last_checkpoint(self._reader.store.get(key), key)
        except CheckpointError as error:
            self._report(WARNING, "hint", None, key, error.message)
            return
        known = self._checkpoints.num_files.get(hint.version)
        if hint.version not in self._listing.checkpoints:
            self._report(WARNING, "hint", hint.version, key, "it names a checkpoint that is not there")
        elif known is not None and hint.num_files not in (None, known):
            self._report(WARNING, "hint", hint.version, key, f"it says {hint.num_files} files and there are {known}")

    def _report(self, severity: str, check: str, version: int | None, path: str | None, problem: str) -> None:
        self._problems.append(Problem(severity, check, version, path, problem))


class _Replay:
    """Versions folded onto a checkpoint, or from version 0."""

    def __init__(self, base: Snapshot | None = None) -> None:
        self._base = base
        self._head: Head | None = base
        self._pending: list[VersionFile] = []

    @property
    def version(self) -> int | None:
        if self._pending:
            return self._pending[-1].version
        return None if self._base is None else self._base.version

    def add(self, file: VersionFile) -> None:
        self._head = fold(None, [file]) if self._head is None else advance(self._head, [file])
        self._pending.append(file)
        if len(self._pending) >= _VERSIONS_AT_ONCE:
            self.snapshot()

    def snapshot(self) -> Snapshot:
        if self._pending or self._base is None:
            self._base = fold(self._base, self._pending)
            self._pending = []
        return self._base


def _runs(versions: Sequence[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for version in versions:
        if run and version != run[-1] + 1:
            yield run
            run = []
        run.append(version)
    if run:
        yield run
