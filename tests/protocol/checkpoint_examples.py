"""Generators of file tables and checkpoint contents."""

from __future__ import annotations

from hypothesis import strategies as st
from tests.protocol.protocol_examples import ACTIONS, FULL_EXAMPLES, counts, longs, maybe, names

from indextables.protocol.checkpoint_content import CheckpointContent
from indextables.protocol.file_table import AddedFile, files_table

VERSION = 7
FULL_ADD = FULL_EXAMPLES["add"][0]
FULL_SKIP = FULL_EXAMPLES["mergeskip"][0]


def added_files():
    entries = st.builds(AddedFile, ACTIONS["add"], counts, longs)
    return st.lists(entries, max_size=6, unique_by=lambda entry: entry.add.path)


file_tables = added_files().map(files_table)
skip_maps = st.lists(ACTIONS["mergeskip"], max_size=3).map(lambda skips: {skip.path: skip for skip in skips})
transaction_maps = st.dictionaries(names, st.tuples(longs, counts), max_size=3)

contents = st.builds(
    CheckpointContent,
    version=st.just(VERSION),
    timestamp_ms=maybe(longs),
    txn_id=maybe(names),
    protocol=maybe(ACTIONS["protocol"]),
    metadata=ACTIONS["metaData"],
    files=file_tables,
    skips=skip_maps,
    transactions=transaction_maps,
)


def example_content(num_files: int = 2) -> CheckpointContent:
    """A content with everything in it."""
    entries = [
        AddedFile(FULL_ADD if number == 0 else plain_add(number), number, 1_700_000_000_000 + number)
        for number in range(num_files)
    ]
    return CheckpointContent(
        version=VERSION,
        timestamp_ms=1_700_000_000_123,
        txn_id="9c3f",
        protocol=FULL_EXAMPLES["protocol"][0],
        metadata=FULL_EXAMPLES["metaData"][0],
        files=files_table(entries),
        skips={FULL_SKIP.path: FULL_SKIP},
        transactions={"stream": (17, 6)},
    )


def plain_add(number: int):
    return type(FULL_ADD)(
        path=f"splits/split-{number}.split",
        partition_values={},
        size=number,
        modification_time=1_700_000_000_000,
        data_change=True,
    )


def flips(data: bytes):
    """Every version of the bytes with one bit flipped."""
    for number in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[number // 8] ^= 1 << (number % 8)
        yield bytes(damaged)
