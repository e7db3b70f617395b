"""The table of pieces: encoding, lookup by range, and refusal of what does not fit."""

import itertools
import random

import pytest

from indextables.split.partial.piece_table import PieceColumns, PieceTable


def random_table(rng: random.Random) -> PieceTable:
    members = [(f"{number}.idx", rng.randrange(0, 3_000)) for number in range(rng.randrange(1, 6))]
    pieces = []
    for member, (_, size) in enumerate(members):
        cuts = sorted({0, size, *(rng.randrange(0, size + 1) for _ in range(rng.randrange(0, 9)))})
        for start, end in itertools.pairwise(cuts):
            stored = rng.randrange(1, end - start + 1)
            pieces.append((member, start, end - start, stored, rng.getrandbits(32), rng.getrandbits(32)))
    rng.shuffle(pieces)
    columns = PieceColumns(*map(list, zip(*pieces, strict=True))) if pieces else PieceColumns([], [], [], [], [], [])
    return PieceTable(members, columns, offset=rng.randrange(4, 1 << 40), first_tail=rng.randrange(0, len(pieces) + 1))


@pytest.mark.parametrize("seed", range(50))
def test_a_table_is_decoded_as_it_was_and_finds_every_range(seed: int) -> None:
    rng = random.Random(seed)
    table = random_table(rng)
    again = PieceTable.from_bytes(table.to_bytes(), offset=table.offset)
    for name in ("members", "member", "raw_start", "raw_length", "stored_length", "stored_crc", "raw_crc"):
        assert list(getattr(again, name)) == list(getattr(table, name))
    assert (again.tails, again.tails_offset, again.end) == (table.tails, table.tails_offset, table.end)
    starts = again.stored_start
    assert all(
        start + length == following
        for start, length, following in zip(starts, again.stored_length, [*starts[1:], again.end], strict=True)
    )
    for member, (_, size) in enumerate(again.members):
        start = rng.randrange(0, size + 1)
        end = rng.randrange(start, size + 1)
        wanted = [
            piece
            for piece in again.of_member(member)
            if again.raw_start[piece] < end and start < again.raw_start[piece] + again.raw_length[piece]
        ]
        assert list(again.covering(member, start, end)) == (wanted if start < end else [])


def one(**changed: object) -> PieceTable:
    facts: dict[str, object] = {
        "member": [0, 0], "raw_start": [0, 4], "raw_length": [4, 6], "stored_length": [4, 3],
        "stored_crc": [1, 2], "raw_crc": [3, 4],
    }  # fmt: skip
    members = changed.pop("members", [("a.idx", 10)])
    first_tail = changed.pop("first_tail", 1)
    return PieceTable(members, PieceColumns(**{**facts, **changed}), offset=4, first_tail=first_tail)  # type: ignore[arg-type]


def test_a_table_that_fits_is_taken() -> None:
    assert one().is_plain(0)
    assert not one().is_plain(1)


@pytest.mark.parametrize(
    "changed",
    [
        {"raw_start": [0, 5]},
        {"raw_start": [1, 4]},
        {"raw_length": [4, 5]},
        {"raw_length": [5, 6]},
        {"member": [0, 1]},
        {"members": [("a.idx", 11)]},
        {"members": [("a.idx", 10), ("b.idx", 1)]},
        {"members": [("a.idx", 10), ("A.idx", 0)]},
        {"members": [("../a", 10)]},
        {"stored_length": [5, 3]},
        {"stored_length": [0, 3]},
        {"first_tail": 3},
    ],
)
def test_a_table_that_does_not_fit_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        one(**changed)


@pytest.mark.parametrize("seed", range(30))
def test_damaged_bytes_are_refused_or_decode_to_a_whole_table(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(random_table(rng).to_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    try:
        PieceTable.from_bytes(bytes(data[: rng.choice([len(data), rng.randrange(len(data))])]), offset=4)
    except ValueError:
        return
