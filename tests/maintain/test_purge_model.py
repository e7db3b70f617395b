"""Random tables whose time moves, purged with random retentions, against a plain model of what must stay."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import live_paths, make_add
from tests.maintain.aging_table import HOUR_MS, UNCHECKED, AgingTable

from indextables.errors import RetentionError
from indextables.log.commit.operations import Restore

_steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("overwrite"), st.integers(0, 2)),
    st.tuples(st.just("merge"), st.integers(1, 3)),
    st.tuples(st.just("restore"), st.integers(0, 5)),
    st.tuples(st.just("checkpoint"), st.sampled_from(["avro", "json", "parquet"])),
    st.tuples(st.just("orphan"), st.just(0)),
    st.tuples(st.just("upload"), st.just(0)),
    st.tuples(st.just("commit late"), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 40)),
    st.tuples(st.just("purge"), st.integers(0, 60)),
)


class Model:
    """What the table is, and was at each version."""

    def __init__(self, *, log_hours: int | None) -> None:
        self.table = AgingTable(**UNCHECKED)
        self.log_retention = None if log_hours is None else f"{log_hours} hours"
        self.live: list[frozenset[str]] = [frozenset()]
        self.committed_ms = [self.table.clock.ms]
        self.uploaded: list[tuple[str, int]] = []
        self.names = (f"splits/{number}.split" for number in itertools.count())

    def run(self, step: str, number) -> None:
        getattr(self, f"do_{step.replace(' ', '_')}")(number)

    def moved(self, live: set[str] | frozenset[str]) -> None:
        self.live.append(frozenset(live))
        self.committed_ms.append(self.table.clock.ms)
        assert self.table.newest == len(self.live) - 1

    def do_append(self, number: int) -> None:
        new = list(itertools.islice(self.names, number))
        self.table.append(*new)
        self.moved(self.live[-1] | set(new))

    def do_overwrite(self, number: int) -> None:
        new = list(itertools.islice(self.names, number))
        self.table.overwrite(*new)
        self.moved(set(new))

    def do_merge(self, number: int) -> None:
        sources = sorted(self.live[-1])[:number]
        if sources:
            target = next(self.names)
            self.table.merge(sources, target)
            self.moved(self.live[-1] - set(sources) | {target})

    def do_restore(self, back: int) -> None:
        version = max(0, len(self.live) - 1 - back)
        log = self.table.log()
        try:
            target = log.snapshot(version=version)
        except RetentionError:
            return
        if log.commit(Restore(target, log.url)).committed:
            self.moved(self.live[version])

    def do_checkpoint(self, kind: str) -> None:
        self.table.log(**{"state.format": kind, "cleanup.enabled": "false"}).checkpoint()
        while len(self.live) <= self.table.newest:
            self.moved_quietly()

    def moved_quietly(self) -> None:
        self.live.append(self.live[-1])
        self.committed_ms.append(self.table.clock.ms)

    def do_orphan(self, _) -> None:
        self.table.put(next(self.names))

    def do_upload(self, _) -> None:
        name = next(self.names)
        self.table.put(name)
        self.uploaded.append((name, self.table.clock.ms))

    def do_commit_late(self, _) -> None:
        """A slow writer commits what it uploaded, if the purges since then were bound to leave it alone."""
        if self.uploaded:
            name, _ = self.uploaded.pop(0)
            self.table.log().add_files([make_add(name)])
            self.moved(self.live[-1] | {name})

    def do_wait(self, hours: int) -> None:
        self.table.wait(hours)

    def do_purge(self, hours: int) -> None:
        now_ms = self.table.clock.ms
        cutoff_ms = now_ms - hours * HOUR_MS
        self.uploaded = [(name, put_ms) for name, put_ms in self.uploaded if put_ms > cutoff_ms]
        expected = self.must_go(cutoff_ms)
        before = self.table.splits
        dry = self.table.purge(hours, log_retention=self.log_retention, dry_run=True)
        row = self.table.purge(hours, log_retention=self.log_retention)
        assert dry["orphaned_files_found"] == row["orphaned_files_found"] == row["orphaned_files_deleted"]
        while len(self.live) <= self.table.newest:
            self.moved_quietly()
        if expected is not None:
            assert before - self.table.splits == expected
        self.check()

    def must_go(self, cutoff_ms: int) -> set[str] | None:
        """The files that have to go by the rules; None where versions are gone, so that they are not so plain."""
        if self.log_retention is not None:
            return None
        recorded = self.table.horizon
        old = [at for at, time_ms in enumerate(self.committed_ms) if time_ms <= cutoff_ms]
        horizon = max([recorded, *old])
        if horizon not in old and horizon > 0:
            return set()
        kept = frozenset().union(*self.live[horizon:])
        return {key for key in self.table.splits - kept if self.table.modified_ms[key] <= cutoff_ms}

    def check(self) -> None:
        splits, horizon = self.table.splits, self.table.horizon
        log = self.table.log()
        for version, live in enumerate(self.live):
            if version < horizon:
                with pytest.raises(RetentionError):
                    log.snapshot(version=version)
            elif self.log_retention is None or version == len(self.live) - 1:
                assert set(live_paths(log, version=version)) == live <= splits
            else:
                try:
                    found = set(live_paths(log, version=version))
                except RetentionError:
                    continue
                assert found == live <= splits
        assert {name for name, _ in self.uploaded} <= splits


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(_steps, min_size=3, max_size=25), last=st.integers(0, 60))
def test_every_version_from_the_horizon_on_stays_whole_and_the_rest_goes(steps, last) -> None:
    model = Model(log_hours=None)
    for step, number in steps:
        model.run(step, number)
    model.do_purge(last)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(_steps, min_size=3, max_size=25), last=st.integers(0, 60), log_hours=st.integers(0, 60))
def test_it_also_holds_where_versions_are_cleaned_up(steps, last, log_hours) -> None:
    model = Model(log_hours=log_hours)
    for step, number in steps:
        model.run(step, number)
    model.do_purge(last)
    model.do_wait(100)
    model.do_purge(last)
