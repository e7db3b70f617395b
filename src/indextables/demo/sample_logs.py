"""Sample data: log lines of services and security tools, the same ones every time.

    for batch in sample_logs(1_000_000):
        ...

A batch only depends on its number and the arguments, so many processes can each make their share with `sample_batch`.
No batch crosses midnight. The rows contain planted hits, whose number is known: `needles` lists them. The module needs
NumPy, which pandas installs.

`SampleLogs` is a Spark data source that generates the rows in the tasks that write them, one batch at a time. It is a
data source because `mapInArrow` does not work without pandas.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from indextables.spark.options.arrow_types import to_spark_schema

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("level", pa.string()),
        ("service", pa.string()),
        ("host", pa.string()),
        ("status", pa.int32()),
        ("latency_ms", pa.float64()),
        ("user", pa.string()),
        ("client_ip", pa.string()),
        ("trace_id", pa.string()),
        ("message", pa.string()),
    ]
)
FIRST_DAY = dt.date(2026, 1, 1)
ROWS_PER_BATCH = 50_000


class Needle(NamedTuple):
    """Planted rows: a query and a LIKE pattern that find them, and their number."""

    query: str
    like: str
    num_rows: int
    day: dt.date | None  # None means all days


def sample_logs(
    num_rows: int,
    *,
    days: int = 5,
    start: dt.date = FIRST_DAY,
    seed: int = 7,
    rows_per_batch: int = ROWS_PER_BATCH,
) -> Iterator[pa.RecordBatch]:
    """Yield all rows, in order of time."""
    for number in range(num_batches(num_rows, days=days, rows_per_batch=rows_per_batch)):
        yield sample_batch(number, num_rows, days=days, start=start, seed=seed, rows_per_batch=rows_per_batch)


def num_batches(num_rows: int, *, days: int = 5, rows_per_batch: int = ROWS_PER_BATCH) -> int:
    """Return the number of batches; `sample_batch` takes the numbers below it."""
    return sum(_batches_of_day(num_rows, days, rows_per_batch))


def sample_batch(
    number: int,
    num_rows: int,
    *,
    days: int = 5,
    start: dt.date = FIRST_DAY,
    seed: int = 7,
    rows_per_batch: int = ROWS_PER_BATCH,
) -> pa.RecordBatch:
    """Return one batch of `sample_logs` with the same arguments."""
    day, first, last = _extent(number, num_rows, days, rows_per_batch)
    rows = np.arange(first, last)
    dice = np.random.default_rng([seed, number])
    template = dice.choice(len(_TEMPLATES), len(rows), p=_SHARES)
    for kind, planted in enumerate(_planted(num_rows, days)):
        template[planted[(planted >= first) & (planted < last)] - first] = len(_TEMPLATES) + kind
    columns = {
        "ts": _times(dice, rows, _day_rows(num_rows, days, day), start + dt.timedelta(days=day)),
        "day": pa.repeat(pa.scalar(start + dt.timedelta(days=day), pa.date32()), len(rows)),
        **_facts(dice, template),
        "trace_id": _hexadecimal(
            np.column_stack([_mixed(rows, seed), dice.integers(0, 1 << 63, len(rows), np.uint64)])
        ),
    }
    columns["message"] = _messages(dice, template, columns)
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def needles(num_rows: int, days: int = 5, *, start: dt.date = FIRST_DAY) -> dict[str, Needle]:
    """Return the planted rows by name: `everywhere`, `one_day` and `phrase`."""
    everywhere, one_day, phrase = map(len, _planted(num_rows, days))
    return {
        "everywhere": Needle("kestrelwing", "%kestrelwing%", everywhere, None),
        "one_day": Needle("obsidianfox", "%obsidianfox%", one_day, start + dt.timedelta(days=days // 2)),
        "phrase": Needle('"certificate chain rejected"', "%certificate chain rejected%", phrase, None),
    }


def _day_rows(num_rows: int, days: int, day: int) -> tuple[int, int]:
    return day * num_rows // days, (day + 1) * num_rows // days


def _batches_of_day(num_rows: int, days: int, rows_per_batch: int) -> Iterator[int]:
    for day in range(days):
        first, last = _day_rows(num_rows, days, day)
        yield -(-(last - first) // rows_per_batch)


def _extent(number: int, num_rows: int, days: int, rows_per_batch: int) -> tuple[int, int, int]:
    """Return the day of a batch, its first row, and the row after its last."""
    before = 0
    for day, count in enumerate(_batches_of_day(num_rows, days, rows_per_batch)):
        if 0 <= number - before < count:
            first, last = _day_rows(num_rows, days, day)
            first += (number - before) * rows_per_batch
            return day, first, min(first + rows_per_batch, last)
        before += count
    raise IndexError(f"there is no batch {number}, only {before}")


def _planted(num_rows: int, days: int) -> tuple[np.ndarray, ...]:
    """Return the planted rows of each kind.

    A kind takes rows of one remainder by the number of kinds, so kinds never share a row.
    """
    spots = (
        _spread(0, num_rows, min(10, num_rows // 60)),
        _spread(*(extent := _day_rows(num_rows, days, days // 2)), min(10, (extent[1] - extent[0]) // 60)),
        np.arange(num_rows // 1000) * 1000 + 500,
    )
    return tuple(rows // len(spots) * len(spots) + kind for kind, rows in enumerate(spots))


def _spread(first: int, last: int, count: int) -> np.ndarray:
    return first + (2 * np.arange(count) + 1) * (last - first) // max(2 * count, 1)


def _times(dice: np.random.Generator, rows: np.ndarray, extent: tuple[int, int], day: dt.date) -> pa.Array:
    """Return ascending times over the day, denser around noon."""
    share = (rows - extent[0] + dice.random(len(rows))) / (extent[1] - extent[0])
    share += 0.6 * np.sin(2 * np.pi * share) / (2 * np.pi)
    midnight = (day - dt.date(1970, 1, 1)).days * 86_400_000_000
    moments = midnight + np.minimum((share * 86_400_000_000).astype(np.int64), 86_400_000_000 - 1)
    return pa.array(moments).cast(pa.timestamp("us", tz="UTC"))


def _facts(dice: np.random.Generator, template: np.ndarray) -> dict[str, pa.Array]:
    count = len(template)
    level = _LEVEL_OF_TEMPLATE[template]
    is_request = _IS_REQUEST[template]
    status = _STATUSES[level, _frequent_first(dice, count, _STATUSES.shape[1])]
    slowness = np.array([1.0, 1.0, 2.5, 12.0, 12.0])[level]
    latency = np.round(dice.lognormal(3.2, 0.8, count) * slowness, 1)
    return {
        "level": _LEVELS.take(pa.array(level)),
        "service": _SERVICES.take(_ranks(dice, count, len(_SERVICES))),
        "host": _HOSTS.take(pa.array(dice.integers(0, len(_HOSTS), count))),
        "status": pa.array(status, pa.int32(), mask=~is_request),
        "latency_ms": pa.array(latency, mask=~is_request),
        "user": _choice(_USERS, dice, count, ~_HAS_USER[template]),
        "client_ip": _ADDRESSES.take(_ranks(dice, count, len(_ADDRESSES))),
    }


def _choice(values: pa.Array, dice: np.random.Generator, count: int, missing: np.ndarray) -> pa.Array:
    return values.take(pa.array(_frequent_first(dice, count, len(values)), mask=missing))


def _ranks(dice: np.random.Generator, count: int, size: int) -> pa.Array:
    return pa.array(_frequent_first(dice, count, size))


def _frequent_first(dice: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Return numbers below `size`, as frequent as one over their rank.

    Words of a language have such frequencies.
    """
    numbers: np.ndarray = np.minimum(np.exp(dice.random(count) * np.log(size + 1)).astype(np.int64) - 1, size - 1)
    return numbers


def _mixed(rows: np.ndarray, seed: int) -> np.ndarray:
    """Return a number per row that looks random and is unique."""
    mixed = (rows.astype(np.uint64) + np.uint64(seed % (1 << 32) + 1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _hexadecimal(numbers: np.ndarray) -> pa.Array:
    """Return each row of numbers as hexadecimal digits, 16 for each number."""
    count, width = len(numbers), 2 * 8 * numbers.shape[1]
    digits = _HEX_DIGITS[np.ascontiguousarray(numbers, np.uint64).view(np.uint8)]
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(digits)))


def _messages(dice: np.random.Generator, template: np.ndarray, columns: dict[str, pa.Array]) -> pa.Array:
    """Fill the messages template by template, and return them in the order of rows."""
    order = np.argsort(template, kind="stable")
    ends = np.cumsum(np.bincount(template, minlength=len(_PARTS)))
    made = [pa.array([], pa.string())]
    for parts, first, last in zip(_PARTS, [0, *ends], ends, strict=False):
        if first < last:
            made.append(_filled(parts, dice, order[first:last], columns))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return pa.concat_arrays(made).take(pa.array(place))


def _filled(
    parts: tuple[str, ...], dice: np.random.Generator, rows: np.ndarray, columns: dict[str, pa.Array]
) -> pa.Array:
    values = [
        _field(part, dice, rows, columns) if position % 2 else pa.scalar(part) for position, part in enumerate(parts)
    ]
    return pc.binary_join_element_wise(*values, "")


def _field(name: str, dice: np.random.Generator, rows: np.ndarray, columns: dict[str, pa.Array]) -> pa.Array:
    if name in columns:
        return columns[name].take(pa.array(rows)).cast(pa.string())
    if name in _VOCABULARIES:
        words = _VOCABULARIES[name]
        return words.take(_ranks(dice, len(rows), len(words)))
    if name == "id":
        return pc.utf8_slice_codeunits(_hexadecimal(dice.integers(0, 1 << 63, (len(rows), 1))), 0, 10)
    smallest, largest = _NUMBERS[name]
    return pa.array(dice.integers(smallest, largest, len(rows))).cast(pa.string())


_LEVEL_NAMES = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_LEVELS = pa.array(_LEVEL_NAMES)
_STATUSES = np.array(
    [
        [200, 204, 304, 200, 201, 200],
        [200, 201, 204, 304, 302, 206],
        [404, 401, 403, 429, 400, 409],
        [500, 503, 502, 504, 500, 507],
        [500, 503, 502, 504, 500, 507],
    ]
)
_HEX_DIGITS = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_NUMBERS = {
    "pid": (300, 65_000),
    "port": (1024, 65_535),
    "bytes": (180, 900_000),
    "count": (2, 400),
    "small": (1, 9),
    "percent": (61, 100),
    "ms": (100, 30_000),
    "offset": (10_000, 9_000_000),
}


def _joined(*lists: str, between: str = "") -> list[str]:
    """Return all combinations of a word of each list, in a mixed order."""
    made = [between.join(words) for words in itertools.product(*(text.split() for text in lists))]
    return [made[index * 7919 % len(made)] for index in range(len(made))]


_SERVICES = pa.array(
    _joined(
        "gateway checkout auth search-api payments inventory notifications profile billing shipping fraud-detector"
        " session-store scheduler image-resizer audit-trail vpn-concentrator"
    )
)
_HOSTS = pa.array([f"{zone}-node-{number:03d}" for number in range(40) for zone in ("eu1a", "eu1b", "us2c")])
_USERS = pa.array(
    _joined("ada bob chen dana emeka farid grace hiro ines jonas kofi lena", "li ng ok sø wu ray kim", between=".")
    + [f"svc-{name}" for name in ("backup", "deploy", "metrics", "crawler")]
)
_ADDRESSES = pa.array(
    [f"{net}.{host // 250}.{host % 250 + 1}" for host in range(4000) for net in ("10.12", "172.16", "203.0")]
)
_WORDS = (
    "request response timeout cache retry upstream queue connection user token session shard replica lock index"
    " certificate quota gateway buffer leader snapshot partition handshake policy rejected schema payload throttle"
    " rollback cursor heartbeat backlog eviction compaction lease mirror watermark"
)
_VOCABULARIES = {
    name: pa.array(words)
    for name, words in {
        "word": _WORDS.split() + _joined("pre re un over sub", "fetch load rout mount scal pack", "ed er ing able"),
        "class": _joined(
            "Order Payment Session Invoice Token Cart Shipment Profile Index Ledger Message Snapshot Tenant Upload",
            "Retry Batch Async Cached Remote Legacy Shadow",
            "Handler Worker Client Repository Mapper",
        ),
        "exception": _joined(
            "Null Socket Timeout IllegalState Parse Deadlock", "Pointer Read Write", "Exception Error"
        ),
        "path": _joined(
            "/api/v1 /api/v2 /internal /admin",
            "orders users carts search invoices sessions uploads reports",
            "list detail export status history",
            between="/",
        ),
        "table": _joined("orders users events ledger sessions", "archive current staging daily", between="_"),
        "topic": _joined("orders payments clicks mail audit", "created changed deleted retried", between="."),
        "process": _joined(
            "/usr/bin /usr/sbin /opt/agent/bin /tmp", "sshd curl python3 nginx sudo rsync kubelet nc", between="/"
        ),
        "agent": _joined("Firefox Chrome curl okhttp Googlebot kube-probe", "2.1 8.16 143.0", between="/"),
    }.items()
}


class _Template(NamedTuple):
    weight: float
    level: str
    text: str

    @classmethod
    def parse(cls, line: str) -> _Template:
        weight, level, text = line.split(maxsplit=2)
        return cls(float(weight), level, text)

    @property
    def parts(self) -> tuple[str, ...]:
        """Alternating text and field names, text first."""
        return tuple(re.split(r"\{(\w+)\}", self.text))


# Relative frequency of a line, its level, its text. Except in the planted rows, "chain" is always followed by a number,
# so that only planted rows contain their phrase.
_LINES = """
20  INFO  GET {path} returned {status} in {latency_ms} ms, {bytes} bytes sent to {client_ip} agent {agent}
9   INFO  POST {path} returned {status} in {latency_ms} ms for user {user} from {client_ip}, trace {id}
8   INFO  cache lookup for {class} finished, {count} keys read, {small} missed, {word} {word} took {ms} us
7   DEBUG {class} picked {count} entries from topic {topic} at offset {offset}, {word} {word} {word} pending
6   INFO  user {user} signed in from {client_ip} port {port} with a security key, session {id} opened
5   DEBUG query on table {table} planned in {ms} us, {count} rows of {offset} examined, {word} {word} used
5   INFO  published message {id} to topic {topic} partition {small} offset {offset} after {small} attempts
4   INFO  job {class} done, {count} files moved, {bytes} bytes, {word} {word} {word}, next run in {ms} s
4   WARN  GET {path} returned {status} in {latency_ms} ms for {user} from {client_ip}, {word} limit near
3   WARN  slow query on table {table} took {ms} ms, {word} {word} waited for lock held by session {id}
3   WARN  failed password for {user} from {client_ip} port {port} ssh2, attempt {small} of 8, process {process}
3   WARN  connection {word} to {host} dropped after {ms} ms, {word} {word} retry number {small} scheduled
2   WARN  disk usage on {host} is at {percent} percent, {word} {word} eviction started, {bytes} blocks to free
2   INFO  firewall accepted tcp {client_ip} port {port} to 10.0.0.{small} port 443, chain {count}, flow {id}
2   WARN  firewall denied tcp {client_ip} port {port} to 10.0.0.{small} port 22, chain {count}, {word} scan
2   ERROR GET {path} returned {status} in {latency_ms} ms, {exception} in {class}, {word} upstream is silent
2   ERROR unhandled {exception} in {class}: {word} {word} {word} is closed, request {id} of {user} lost
1   ERROR replica {small} of {table} is behind by {ms} ms, {exception}: {word} {word} at offset {offset}
1   WARN  sudo: {user} ran {process} as root on {host}, pid {pid}, working directory /home/{user}, audit {id}
1   INFO  endpoint agent saw {process} pid {pid} open {path} on {host}, parent {process}, hash {id}{id}
0.3 FATAL out of memory in {class}, heap at {percent} percent, {exception}, {word} {word} dump written to {id}
"""
_NEEDLES = """
0 ERROR outbound beacon kestrelwing from {process} pid {pid} on {host} blocked by egress chain {count}, flow {id}
0 ERROR implant obsidianfox found in {process} pid {pid} on {host}, quarantined by the endpoint agent, hash {id}
0 WARN  certificate chain rejected in handshake with {client_ip} port {port}, {word} {word} expired, session {id}
"""
_TEMPLATES = tuple(map(_Template.parse, _LINES.strip().splitlines()))
_ALL_TEMPLATES = (*_TEMPLATES, *map(_Template.parse, _NEEDLES.strip().splitlines()))
_PARTS = tuple(template.parts for template in _ALL_TEMPLATES)
_SHARES = np.array([template.weight for template in _TEMPLATES]) / sum(template.weight for template in _TEMPLATES)
_LEVEL_OF_TEMPLATE = np.array([_LEVEL_NAMES.index(template.level) for template in _ALL_TEMPLATES])
_IS_REQUEST = np.array(["{status}" in template.text for template in _ALL_TEMPLATES])
_HAS_USER = np.array(["{user}" in template.text for template in _ALL_TEMPLATES]) | _IS_REQUEST


NAME = "indextables_sample_logs"
NUM_DAYS = 5
_TASKS_PER_DAY = 2


def rows_per_batch(num_rows: int) -> int:
    """Return the rows of a batch that keep all tasks of a day equally busy."""
    per_day = num_rows // NUM_DAYS
    batches = _TASKS_PER_DAY * -(-per_day // (ROWS_PER_BATCH * _TASKS_PER_DAY))
    return -(-per_day // batches)


class SampleLogs(DataSource):
    """One day of a sample.

    The options are `rows`, the size of the whole sample, and `day`, counted from 0.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return to_spark_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _DayReader(int(self.options["rows"]), int(self.options["day"]))


class _Batches(InputPartition):
    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers


class _DayReader(DataSourceReader):
    def __init__(self, num_rows: int, day: int) -> None:
        self._num_rows = num_rows
        self._day = day

    def partitions(self) -> Sequence[InputPartition]:
        per_day = num_batches(self._num_rows, days=NUM_DAYS, rows_per_batch=rows_per_batch(self._num_rows)) // NUM_DAYS
        numbers = range(self._day * per_day, (self._day + 1) * per_day)
        return [_Batches(numbers[first::_TASKS_PER_DAY]) for first in range(_TASKS_PER_DAY)]

    def read(self, partition: Any) -> Iterator[Any]:
        for number in partition.numbers:
            yield sample_batch(number, self._num_rows, days=NUM_DAYS, rows_per_batch=rows_per_batch(self._num_rows))
