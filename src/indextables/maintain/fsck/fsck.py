"""fsck: check whether everything that a table needs exists and is right.

It checks the log against itself, the filter sheets, the live splits against the log, and whether the files of every
older readable version exist. It writes nothing. It ignores files that no version names: a purge deletes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from indextables.arrow_values import to_table
from indextables.errors import CheckpointError, CorruptLogError, ObjectNotFoundError
from indextables.filters.check_sheet import sheet_problem
from indextables.log.snapshot import Snapshot
from indextables.maintain.fsck.check_log import ERROR, WARNING, NamedFile, Problem, check_log
from indextables.maintain.fsck.check_splits import FOREIGN, MISSING, check_splits
from indextables.maintain.fsck.last_readable import last_readable
from indextables.protocol.horizon import horizon_of
from indextables.protocol.names import sheet_key, state_keys
from indextables.state.manifests import StateFiles
from indextables.store import ObjectStore
from indextables.transaction_log import TransactionLog

FSCK_SCHEMA = pa.schema(
    [
        pa.field("severity", pa.string(), nullable=False),
        pa.field("check", pa.string(), nullable=False),
        pa.field("version", pa.int64()),
        pa.field("path", pa.string()),
        pa.field("problem", pa.string(), nullable=False),
    ]
)
_IS_MISSING = "it is missing"


class Examination(NamedTuple):
    """The problems of a table, and how much of it was checked."""

    problems: list[Problem]
    num_splits: int
    num_checkpoints: int
    num_versions: int

    @property
    def num_errors(self) -> int:
        return sum(problem.severity == ERROR for problem in self.problems)

    def table(self) -> pa.Table:
        """Return one row per problem."""
        return to_table([problem._asdict() for problem in self.problems], schema=FSCK_SCHEMA)


def fsck(log: TransactionLog, *, deep: bool = True) -> pa.Table:
    """Return one row per problem; no row if the table is whole.

    Without `deep`, only sizes and footers of splits are read.
    """
    return examine(log, deep=deep).table()


def examine(log: TransactionLog, *, deep: bool = True) -> Examination:
    """Check a whole table; others may write and purge meanwhile."""
    log.invalidate_cache()
    try:
        snapshot, damage, diverged = last_readable(log)
    except (CorruptLogError, CheckpointError) as error:
        checked = check_log(log, 0)
        problem = Problem(ERROR, "log", None, None, error.message)
        return Examination([problem, *checked.problems], 0, checked.num_checkpoints, checked.num_versions)
    problems = [] if damage is None or diverged else [Problem(ERROR, "log", snapshot.version + 1, None, damage)]
    if diverged is not None:
        key = state_keys(diverged.state_version)[0]
        problems.append(Problem(ERROR, "divergence", diverged.version, key, diverged.message))
    checked = check_log(log, horizon_of(snapshot.metadata.configuration))
    problems += checked.problems
    problems += _sheet_problems(log, snapshot, deep=deep)
    splits = [
        *_split_problems(log, snapshot, deep=deep),
        *_old_file_problems(log.reader.store, snapshot, checked.files),
    ]
    problems += _confirmed(log, snapshot, splits, checked.files)
    return Examination(problems, snapshot.num_files, checked.num_checkpoints, checked.num_versions)


def _split_problems(log: TransactionLog, snapshot: Snapshot, *, deep: bool) -> Iterator[Problem]:
    for checked in check_splits(log, snapshot, deep=deep):
        for finding in checked.findings:
            severity = WARNING if finding.check == FOREIGN else ERROR
            check = "split" if finding.check == MISSING else finding.check
            yield Problem(severity, check, snapshot.version, checked.add.path, finding.problem)


def _sheet_problems(log: TransactionLog, snapshot: Snapshot, *, deep: bool) -> Iterator[Problem]:
    """Check the filter sheets that the newest state can use; searches do without them."""
    origin = snapshot.live_files.origin
    runs = {info.run for info in origin.state.manifests} if isinstance(origin, StateFiles) else set()
    for run in sorted(run for run in runs if run is not None):
        problem = sheet_problem(log.reader.store, sheet_key(run), deep=deep)
        if problem is not None:
            yield Problem(WARNING, "filters", snapshot.version, sheet_key(run), problem)


def _old_file_problems(store: ObjectStore, snapshot: Snapshot, files: Mapping[str, NamedFile]) -> Iterator[Problem]:
    """Check the files that only older versions name, with one listing."""
    wanted = files.keys() - set(snapshot.files["path"].to_pylist())
    if not wanted:
        return
    sizes = {meta.key: meta.size for meta in store.list() if meta.key in wanted}
    for path in sorted(wanted):
        version, size = files[path].last_version, sizes.get(path)
        if size is None:
            yield Problem(ERROR, "split", version, path, _IS_MISSING)
        elif size != files[path].size:
            yield Problem(ERROR, "split", version, path, f"it has {size} bytes and the log says {files[path].size}")


def _confirmed(
    log: TransactionLog, snapshot: Snapshot, problems: Iterable[Problem], files: Mapping[str, NamedFile]
) -> Iterator[Problem]:
    """Yield the problems, except for files that a concurrent purge deleted.

    A file may be missing because a purge moved the horizon past all versions that name it.
    """
    found = list(problems)
    if not any(problem.problem == _IS_MISSING for problem in found):
        yield from found
        return
    newest = last_readable(log).snapshot
    horizon = horizon_of(newest.metadata.configuration)
    live = set(newest.files["path"].to_pylist())
    for problem in found:
        if problem.problem == _IS_MISSING and problem.path is not None:
            known = files.get(problem.path)
            last_version = snapshot.version if known is None or known.last_version is None else known.last_version
            is_purged = problem.path not in live and last_version < horizon
            if is_purged or _is_there(log.reader.store, problem.path):
                continue
        yield problem


def _is_there(store: ObjectStore, path: str) -> bool:
    """Look up a single file, since a listing may miss it."""
    try:
        store.head(path)
    except ObjectNotFoundError:
        return False
    return True
