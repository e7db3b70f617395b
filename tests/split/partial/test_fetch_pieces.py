"""Missing pieces are fetched once, by few reads, and every byte of them is verified."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time

import pytest
from tests.split.partial.stored_pieces import OFFSET, StoredPieces, opened

from indextables.errors import CorruptSplitError, StorageError
from indextables.split.partial.fetch_pieces import fetch_pieces, fill_stored, spans
from indextables.split.partial.sparse_cache import SparseEntry

_MOST = 4 << 20


@pytest.mark.parametrize("seed", range(20))
def test_spans_cover_the_pieces_by_few_reads_of_what_is_near(seed) -> None:
    rng = random.Random(seed)
    table = StoredPieces(seed, most_bytes=rng.choice([300, 40_000])).table
    wanted = rng.sample(range(table.num_pieces), rng.randrange(table.num_pieces + 1))
    gap = rng.choice([0, 10, 1_000, 1 << 20])
    found = spans(table, wanted, gap)
    assert sorted(piece for span in found for piece in span.pieces) == sorted(wanted)
    end = None
    for span in found:
        assert end is None or span.start - end > gap
        end = span.end
        places = [(table.stored_start[piece], table.stored_length[piece]) for piece in span.pieces]
        assert (span.start, span.end) == (places[0][0], sum(places[-1]))
        for (start, length), (following, _) in itertools.pairwise(places):
            assert 0 <= following - start - length <= gap


def test_a_long_span_is_cut_for_parallel_reads() -> None:
    table = StoredPieces(1, num_members=2, most_bytes=12 << 20).table
    found = spans(table, range(table.num_pieces), 0)
    assert len(found) > 1
    assert max(span.end - span.start for span in found) <= _MOST
    assert [span.end for span in found[:-1]] == [span.start for span in found[1:]]


@pytest.mark.parametrize("seed", range(10))
def test_what_was_fetched_is_there_and_nothing_is_fetched_again(tmp_path, seed) -> None:
    rng = random.Random(seed)
    stored = StoredPieces(seed)
    entry = opened(tmp_path, stored)
    there: set[int] = set()
    for _ in range(12):
        wanted = rng.sample(range(stored.num_pieces), rng.randrange(1, 8))
        gap = rng.choice([0, 100, 100_000])
        before = len(stored.reads)
        cost = fetch_pieces(entry, wanted, stored.read, "a.split", gap=gap)
        new = stored.reads[before:]
        assert cost == (len(new), sum(end - start for start, end in new))
        if not set(wanted) - there:
            assert cost == (0, 0)
        if not gap:
            assert cost.num_bytes == sum(stored.table.stored_length[piece] for piece in set(wanted) - there)
        there |= set(wanted)
        stored.check(entry, there)
        assert entry.missing(range(stored.num_pieces)) == sorted(set(range(stored.num_pieces)) - there)


def test_every_flipped_bit_of_a_piece_is_refused(tmp_path) -> None:
    stored = StoredPieces(3, num_members=2, most_bytes=600)
    right = stored.stored
    entry = opened(tmp_path, stored)
    for position in range(len(right)):
        flipped = bytearray(right)
        flipped[position] ^= 1 << position % 8
        stored.stored = bytes(flipped)
        with pytest.raises(CorruptSplitError, match=r"a\.split"):
            fetch_pieces(entry, range(stored.num_pieces), stored.read, "a.split", gap=0)
        there = set(range(stored.num_pieces)) - set(entry.missing(range(stored.num_pieces)))
        stored.check(entry, there)
        entry.close()
        entry = opened(tmp_path, stored, str(position))
    stored.stored = right
    fetch_pieces(entry, range(stored.num_pieces), stored.read, "a.split", gap=0)
    assert entry.is_complete


def test_pieces_with_valid_checksums_of_other_bytes_are_refused(tmp_path) -> None:
    """A forged table: what is stored has its checksum, and does not unpack to what is promised."""
    stored = StoredPieces(3)
    entry = opened(tmp_path, stored)
    table = stored.table
    packed = next(piece for piece in range(table.num_pieces) if not table.is_plain(piece))
    crcs = list(table.raw_crc)
    crcs[packed] ^= 1
    table.raw_crc = crcs
    with pytest.raises(CorruptSplitError, match="does not match"):
        fetch_pieces(entry, [packed], stored.read, "a.split", gap=0)
    lengths = list(table.raw_length)
    lengths[packed] += 1
    table.raw_length = lengths
    with pytest.raises(CorruptSplitError, match=r"cannot be unpacked|does not match"):
        fetch_pieces(entry, [packed], stored.read, "a.split", gap=0)
    assert entry.missing([packed]) == [packed]


def test_an_error_of_the_store_is_passed_on_and_leaves_the_rest(tmp_path) -> None:
    stored = StoredPieces(4)
    entry = opened(tmp_path, stored)

    def fail(ranges):
        if ranges[0][0] > OFFSET + 1_000:
            raise StorageError("the store is away")
        return stored.read(ranges)

    with pytest.raises(StorageError, match="away"):
        fetch_pieces(entry, range(0, stored.num_pieces, 2), fail, "a.split", gap=0)
    fetch_pieces(entry, range(stored.num_pieces), stored.read, "a.split", gap=0)
    stored.check(entry, range(stored.num_pieces))


def test_threads_fetch_a_piece_once(tmp_path) -> None:
    stored = StoredPieces(5)
    entry = opened(tmp_path, stored)

    def slowly(ranges):
        time.sleep(0.02)
        return stored.read(ranges)

    def fetch() -> None:
        fetch_pieces(entry, range(stored.num_pieces), slowly, "a.split", gap=0)

    threads = [threading.Thread(target=fetch) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(end - start for start, end in stored.reads) == len(stored.stored)
    stored.check(entry, range(stored.num_pieces))


def test_far_ranges_are_read_at_the_same_time_by_a_bounded_number_of_threads(tmp_path) -> None:
    stored = StoredPieces(6, num_members=30, most_bytes=2_000)
    entry = opened(tmp_path, stored)
    wanted = range(0, stored.num_pieces, 2)
    running, most, lock = [0], [0], threading.Lock()

    def slowly(ranges):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.03)
        with lock:
            running[0] -= 1
        return stored.read(ranges)

    assert len(wanted) > 100
    fetch_pieces(entry, wanted, slowly, "a.split", gap=0)
    assert 8 < most[0] <= 32
    stored.check(entry, wanted)


def test_a_fill_opens_each_file_once_and_one_at_a_time(tmp_path, monkeypatch) -> None:
    stored = StoredPieces(7, num_members=30, most_bytes=3_000)
    entry = opened(tmp_path, stored)
    before = len(os.listdir("/proc/self/fd"))
    most, names = [0], []
    open_member = SparseEntry._open

    def watched(self: SparseEntry, member: int, flags: int) -> int:
        handle = open_member(self, member, flags)
        names.append(member)
        most[0] = max(most[0], len(os.listdir("/proc/self/fd")))
        return handle

    monkeypatch.setattr(SparseEntry, "_open", watched)
    fetch_pieces(entry, range(stored.num_pieces), stored.read, "a.split", gap=0)
    assert most[0] <= before + 1
    assert len(names) == len(set(names))
    stored.check(entry, range(stored.num_pieces))


def test_no_descriptor_is_left(tmp_path) -> None:
    stored = StoredPieces(7)
    entry = opened(tmp_path, stored)
    before = len(os.listdir("/proc/self/fd"))
    fetch_pieces(entry, range(stored.num_pieces), stored.read, "a.split", gap=0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_bytes_at_hand_are_not_fetched_again(tmp_path) -> None:
    stored = StoredPieces(8)
    table = stored.table
    entry = opened(tmp_path, stored)
    tails = stored.stored[table.tails_offset - OFFSET :]
    fill_stored(entry, table.tails, tails + b"and more", table.tails_offset, "a.split")
    assert fetch_pieces(entry, table.tails, stored.read, "a.split", gap=0) == (0, 0)
    stored.check(entry, table.tails)
    other = opened(tmp_path, stored, "b")
    for wrong in (tails[:-1], b"", b"x" + tails[1:], tails[1:]):
        with pytest.raises(CorruptSplitError, match="checksum"):
            fill_stored(other, table.tails, wrong, table.tails_offset, "a.split")
    assert other.missing(table.tails) == list(table.tails)
