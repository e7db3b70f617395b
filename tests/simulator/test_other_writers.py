"""Random histories of two kinds of writers on one table: rows of either are there, or the log is called diverged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.conftest import SCHEMA, make_add
from tests.foreign_writer import StateWriter, VersionWriter

import indextables as it
from indextables.errors import DivergedLogError, ProtocolError
from indextables.maintain.fsck.last_readable import last_readable

STEPS = 30


class Story:
    """A table that this library and another product write, and what both have committed."""

    def __init__(self, place: Path, seed: int, kind: type[StateWriter]) -> None:
        self._random = random.Random(seed)
        self._place = place
        self._interval = self._random.choice([2, 3, 10**6])
        self._handle = self._opened()
        self._handle.initialize(SCHEMA)
        self._theirs = kind(place)
        self._is_blind = kind is StateWriter
        self._num_files = 0
        self.truth: set[str] = set()
        self.may_diverge = False

    def run(self) -> None:
        for _ in range(STEPS):
            step = self._random.choice([self._add, self._add, self._replace, self._theirs_commit, self._checkpoint])
            try:
                step()
            except DivergedLogError:
                assert self.may_diverge, "nothing was committed that the other writer could not see"
                self._check_reconciled()
                return
            self._check()

    def _add(self) -> None:
        paths = self._new_paths()
        self._written(lambda log: log.add_files([make_add(path) for path in paths]))
        self.truth |= set(paths)

    def _replace(self) -> None:
        gone, paths = self._some_live(), self._new_paths()
        if gone:
            self._written(lambda log: log.replace_files(gone, [make_add(path) for path in paths]))
            self.truth = self.truth - set(gone) | set(paths)

    def _theirs_commit(self) -> None:
        seen = set(self._theirs.live()) if self._theirs.states() else set()
        if self._is_blind and seen != self.truth:
            self.may_diverge = True
        gone = self._random.sample(sorted(seen & self.truth), k=min(len(seen & self.truth), self._random.randint(0, 1)))
        paths = self._new_paths()
        self._theirs.commit(paths, gone)
        self.truth = self.truth - set(gone) | set(paths)

    def _checkpoint(self) -> None:
        self._log().checkpoint()

    def _written(self, write) -> None:
        """Write; a table whose newest commit is a state is taken over first, as the error says."""
        log = self._log()
        try:
            write(log)
        except ProtocolError:
            log.checkpoint()
            write(log)
        log.wait_for_checkpoint()

    def _log(self) -> it.TransactionLog:
        if self._random.random() < 0.5:
            self._handle = self._opened()
        return self._handle

    def _opened(self) -> it.TransactionLog:
        options = {
            "checkpoint.interval": self._interval,
            "cache.disk.enabled": "false",
            "transaction.useOptimized": self._random.choice(["true", "false"]),
            "state.compaction.afterMerge": "false",
        }
        return it.TransactionLog(self._place, options=options)

    def _check(self) -> None:
        for log in (self._handle, self._opened()):
            try:
                found = set(log.list_files()["path"].to_pylist())
            except DivergedLogError:
                assert self.may_diverge, "nothing was committed that the other writer could not see"
                continue
            assert found == self.truth

    def _check_reconciled(self) -> None:
        """What a repair would keep of both histories."""
        readable = last_readable(self._opened())
        assert readable.diverged is not None
        assert set(readable.snapshot.files["path"].to_pylist()) == self.truth

    def _new_paths(self) -> list[str]:
        count = self._random.randint(1, 2)
        self._num_files += count
        return [f"splits/{number}.split" for number in range(self._num_files - count, self._num_files)]

    def _some_live(self) -> list[str]:
        return self._random.sample(sorted(self.truth), k=min(len(self.truth), self._random.randint(1, 2)))


@pytest.mark.parametrize("share", range(2))
def test_a_writer_that_sees_no_versions(tmp_path, seeds, share) -> None:
    for seed in seeds(60, share, 2):
        Story(tmp_path / str(seed), seed, StateWriter).run()


def test_a_writer_of_versions_with_a_state_each(tmp_path, seeds) -> None:
    for seed in seeds(30, 0, 1):
        Story(tmp_path / str(seed), seed, VersionWriter).run()
