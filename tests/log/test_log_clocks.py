"""Writers whose clock is days ahead of the store's: what they may claim, and what time travel makes of it."""

from __future__ import annotations

import logging

import msgspec
import pytest
from tests.aging import AgingStore
from tests.conftest import SCHEMA, make_add

import indextables as it
from indextables.clock import SYSTEM_CLOCK
from indextables.config import Config
from indextables.log.store_clock import PROBE_PREFIX, StoreClock
from indextables.maintain.fsck.fsck import fsck
from indextables.protocol.names import version_key
from indextables.protocol.version_file import commit_info, decode_version, encode_version
from indextables.runtime.pools import InlinePools
from indextables.store import open_store

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
START_MS = 1_700_000_000_000


class HostClock:
    """The clock of one host: the true time, and how far it is off."""

    def __init__(self, place: Place, ahead_ms: int) -> None:
        self._place = place
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return self._place.ms + self._ahead_ms

    def monotonic(self) -> float:
        return self._place.ms / 1000

    def __getattr__(self, name):
        return getattr(SYSTEM_CLOCK, name)


class Place:
    """A table whose store has the true time."""

    def __init__(self) -> None:
        self.url = f"memory://clocks-{SYSTEM_CLOCK.uuid()}/table"
        self.ms = START_MS
        self.store = AgingStore(open_store(self.url, Config.resolve()), lambda: self.ms)
        self.log().initialize(SCHEMA)

    def log(self, ahead_ms: int = 0, **options) -> it.TransactionLog:
        clock = HostClock(self, ahead_ms)
        options = {"checkpoint.enabled": "false", **options}
        return it.TransactionLog(self.url, options=options, store=self.store, clock=clock, pools=InlinePools())

    def append(self, ahead_ms: int = 0, log: it.TransactionLog | None = None) -> int:
        """A commit ten minutes after the last."""
        self.ms += 10 * MINUTE_MS
        return (log or self.log(ahead_ms)).add_files([make_add(f"{self.ms}.split")])

    def claimed_ms(self, version: int) -> int:
        actions = decode_version(self.store.get(version_key(version)), version, self.store.location)
        return commit_info(actions).timestamp


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.mark.parametrize("ahead_days", [2, 30, 3650])
def test_no_commit_claims_a_time_that_the_store_has_not_reached(place, ahead_days, caplog) -> None:
    place.append()
    version = place.append(ahead_days * DAY_MS)
    assert place.claimed_ms(version) == place.ms
    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert f"{ahead_days * 86400} seconds ahead" in warning
    assert not [meta.key for meta in place.store.list("_transaction_log") if meta.key.startswith(PROBE_PREFIX)]


def test_a_handle_learns_from_its_first_commit(place) -> None:
    """An hour ahead is not asked about, but seen afterwards: the second commit is dated by the store."""
    log = place.log(60 * MINUTE_MS)
    first = place.append(log=log)
    place.ms += 3 * 60 * MINUTE_MS
    second = place.append(log=log)
    assert place.claimed_ms(first) == START_MS + 70 * MINUTE_MS
    assert place.claimed_ms(second) == place.ms


def test_a_clock_that_is_right_or_behind_is_believed_without_a_call(place, monkeypatch) -> None:
    monkeypatch.setattr(StoreClock, "_measure", lambda self: pytest.fail("the store was asked"))
    for ahead_ms in (0, MINUTE_MS // 2, -30 * DAY_MS, 0):
        version = place.append(ahead_ms)
        assert place.claimed_ms(version) >= place.ms + min(ahead_ms, 0)


def test_a_table_that_rested_is_committed_to_as_always(place) -> None:
    place.append()
    place.ms += 400 * DAY_MS
    version = place.append()
    assert place.claimed_ms(version) == place.ms


def spoiled(place: Place) -> list[int]:
    """Versions 1 to 7, of which one was dated five days ahead, with all that came after; when each was committed."""
    times = [START_MS]
    for _ in range(7):
        times.append(place.ms + 10 * MINUTE_MS)
        place.append()
    key_times = dict(place.store._modified_ms)
    for version in range(3, 8):
        info, *actions = decode_version(place.store.get(version_key(version)), version, place.store.location)
        info = msgspec.structs.replace(info, timestamp=times[3] + 5 * DAY_MS)
        place.store.put(version_key(version), encode_version([info, *actions], compress=True))
    place.store._modified_ms.update(key_times)
    return times


def test_time_travel_is_right_where_versions_were_dated_in_the_future(place) -> None:
    times = spoiled(place)
    for version, time_ms in enumerate(times):
        for moment_ms in (time_ms, time_ms + 9 * MINUTE_MS):
            assert place.log().snapshot(timestamp=moment_ms).version == version
    assert place.log().snapshot(timestamp=place.ms + 3 * DAY_MS).version == 7


def test_the_history_says_when_versions_were_committed(place) -> None:
    times = spoiled(place)
    shown = [int(row["timestamp"].timestamp() * 1000) for row in place.log().history().to_pylist()]
    assert shown == times[::-1]


def test_fsck_tells_of_the_first_version_that_is_dated_in_the_future(place) -> None:
    assert not [row for row in fsck(place.log()).to_pylist() if row["check"] == "version"]
    spoiled(place)
    rows = [row for row in fsck(place.log()).to_pylist() if row["check"] == "version"]
    assert [(row["severity"], row["version"]) for row in rows] == [("warning", 3)]
    assert "the clock of its writer" in rows[0]["problem"]


@pytest.mark.parametrize("ahead_days", [0, 9])
def test_a_cooldown_lasts_as_long_as_was_asked_for(place, ahead_days) -> None:
    """Also on top of a version that was dated in the future, and by a host that is ahead itself."""
    spoiled(place)
    place.log(ahead_days * DAY_MS).record_skipped_file("a.split", reason="bad", cooldown_hours=24)
    assert place.log().is_in_cooldown("a.split")
    place.ms += DAY_MS + MINUTE_MS
    assert not place.log().is_in_cooldown("a.split")


def test_time_travel_by_a_state_whose_version_is_gone(place) -> None:
    spoiled(place)
    log = place.log(**{"checkpoint.enabled": "true"})
    log.checkpoint()
    place.append()
    it.Table(log, log.snapshot()).truncate_time_travel()
    kept = place.log(**{"checkpoint.enabled": "true"})
    assert kept.snapshot(timestamp=place.ms).version == kept.snapshot().version


def test_a_copied_table_keeps_its_times(place) -> None:
    """A copy is younger than what it holds: the times that versions claim count."""
    times = [START_MS]
    for _ in range(4):
        times.append(place.ms + 10 * MINUTE_MS)
        place.append()
    place.ms += 50 * DAY_MS
    for key in list(place.store._modified_ms):
        place.store._modified_ms[key] = place.ms
    for version, time_ms in enumerate(times):
        assert place.log().snapshot(timestamp=time_ms).version == version
