"""Log rows to index and search: the same rows for the same number, with words planted in known numbers of them.

Messages are words of a Zipf vocabulary around numbers, addresses and ids, in some eighty to a hundred and twenty bytes.
No planted word is part of another word, so that a search for substrings finds the same rows as one for words.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("service", pa.string()),
        ("host", pa.string()),
        ("status", pa.int32()),
        ("latency_ms", pa.float64()),
        ("trace_id", pa.string()),
        ("message", pa.string()),
    ]
)
TEXT_COLUMN = "message"
FEW_COLUMNS = ("ts", "service", "status")

_SEED = 500_000
_START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_LONGEST_PAUSE_US = 345_600  # half a million rows are a day
_LEVELS = {"INFO": 70, "DEBUG": 15, "WARN": 10, "ERROR": 5}
_STATUSES = {200: 80, 201: 6, 204: 3, 302: 2, 400: 3, 404: 3, 429: 1, 500: 1, 503: 1}
_SERVICES = [
    f"{area}-{part}" for area in ("auth", "billing", "cart", "search", "media") for part in ("api", "db", "job", "web")
]
_NUM_HOSTS = 200
_NUM_WORDS = 20_000
_WORDS_PER_MESSAGE = (5, 9)
_SYLLABLES = [first + second for first in "bdfglmnprstvz" for second in ("a", "e", "i", "o", "u", "an", "er", "il")]
_TEMPLATES = (
    "{words} took {number} ms for user {small}",
    "request req-{id} to {address} {words} after {number} bytes",
    "[worker-{small}] {words} offset={number}",
    "{words} id={id} attempt {small} of 5",
    "GET /v1/items/{number} from {address}: {words}",
)


class WordSearch(NamedTuple):
    """Rows whose message has all of some words or phrases, and none of others."""

    name: str
    required: tuple[str, ...]
    excluded: tuple[str, ...]
    num_hits: int


RARE, SOME, MANY, PHRASE = "axolotl", "brownout", "timeout", "connection refused"
_ONLY_HERE = "quokka"
_BOTH, _NOT = ("checkout", "declined"), "sandbox"


def searches(num_rows: int) -> tuple[WordSearch, ...]:
    """What is sought in so many rows: scattered hits, from very few to a fifth of the rows, a phrase, and a boolean."""
    counts = _Counts.of(num_rows)
    return (
        WordSearch(f"{counts.rare} hits", (RARE,), (), counts.rare),
        WordSearch(f"{counts.some} hits", (SOME,), (), counts.some),
        WordSearch(f"{counts.many} hits", (MANY,), (), counts.many),
        WordSearch(f"phrase, {counts.phrase} hits", (PHRASE,), (), counts.phrase),
        WordSearch(f"boolean, {counts.wanted} hits", _BOTH, (_NOT,), counts.wanted),
    )


def only_here() -> WordSearch:
    """A word that the last row alone holds."""
    return WordSearch("1 hit", (_ONLY_HERE,), (), 1)


def log_rows(num_rows: int) -> pa.Table:
    """So many rows in the order of their time."""
    choose = random.Random(_SEED)
    pauses = choose.choices(range(_LONGEST_PAUSE_US), k=num_rows)
    start_us = int(_START.timestamp()) * 1_000_000
    columns = {
        "ts": pa.array([start_us + pause for pause in itertools.accumulate(pauses)], pa.int64()).cast(SCHEMA[0].type),
        "level": choose.choices(list(_LEVELS), list(_LEVELS.values()), k=num_rows),
        "service": choose.choices(_SERVICES, [1 / (rank + 1) for rank in range(len(_SERVICES))], k=num_rows),
        "host": choose.choices([f"node-{number:03d}.internal" for number in range(_NUM_HOSTS)], k=num_rows),
        "status": choose.choices(list(_STATUSES), list(_STATUSES.values()), k=num_rows),
        "latency_ms": [round(choose.lognormvariate(3, 1), 3) for _ in range(num_rows)],
        "trace_id": [f"{choose.getrandbits(64):016x}" for _ in range(num_rows)],
        "message": list(_messages(choose, num_rows)),
    }
    return pa.table(columns, SCHEMA)


class _Counts(NamedTuple):
    """How many rows hold what is planted."""

    rare: int
    some: int
    many: int
    phrase: int
    both: int
    unwanted: int

    @classmethod
    def of(cls, num_rows: int) -> _Counts:
        both = max(5, num_rows * 115 // 500_000)
        return cls(10, num_rows // 500, num_rows // 5, num_rows * 38 // 500, both, both // 5)

    @property
    def wanted(self) -> int:
        return self.both - self.unwanted


def _messages(choose: random.Random, num_rows: int) -> Iterator[str]:
    planted = _planted(choose, num_rows)
    words = _vocabulary(choose)
    weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(words))))
    least, most = _WORDS_PER_MESSAGE
    for row in range(num_rows):
        chosen = choose.choices(words, cum_weights=weights, k=choose.randint(least, most))
        for word in planted.get(row, ()):
            chosen.insert(choose.randrange(len(chosen) + 1), word)
        yield choose.choice(_TEMPLATES).format(
            words=" ".join(chosen),
            number=choose.randrange(100_000),
            small=choose.randrange(100),
            id=f"{choose.getrandbits(32):08x}",
            address=f"10.{choose.randrange(4)}.{choose.randrange(256)}.{choose.randrange(256)}",
        )


def _planted(choose: random.Random, num_rows: int) -> dict[int, list[str]]:
    """The words that each row gets, by its number."""
    counts = _Counts.of(num_rows)
    planted: dict[int, list[str]] = {num_rows - 1: [_ONLY_HERE]}

    def plant(rows: Sequence[int], *words: str) -> None:
        for row in rows:
            planted.setdefault(row, []).extend(words)

    def scattered(count: int) -> list[int]:
        return choose.sample(range(num_rows), count)

    plant(scattered(counts.rare), RARE)
    plant(scattered(counts.some), SOME)
    plant(scattered(counts.many), MANY)
    # The words of the phrase also stand alone, and never both where the phrase does not.
    first, last = PHRASE.split()
    rows = scattered(counts.phrase * 2)
    plant(rows[: counts.phrase], PHRASE)
    plant(rows[counts.phrase : counts.phrase * 3 // 2], first)
    plant(rows[counts.phrase * 3 // 2 :], last)
    # Each word of the boolean stands in many more rows than both of them do.
    rows = scattered(num_rows // 20)
    both, one = rows[: counts.both], rows[counts.both :]
    plant(both, *_BOTH)
    plant(both[: counts.unwanted], _NOT)
    plant(one[::2], _BOTH[0])
    plant(one[1::2], _BOTH[1])
    plant(one[::4], _NOT)
    return planted


def _vocabulary(choose: random.Random) -> list[str]:
    """Made-up words, the most frequent first; none holds a planted one."""
    taken = {RARE, SOME, MANY, _ONLY_HERE, _NOT, *_BOTH, *PHRASE.split()}
    words: dict[str, None] = {}
    while len(words) < _NUM_WORDS:
        word = "".join(choose.choices(_SYLLABLES, k=choose.randint(2, 5)))
        if not any(one in word for one in taken):
            words[word] = None
    return list(words)
