"""What people write: queries, predicates, SQL commands, addresses, settings; and the offsets that Spark gives back."""

from __future__ import annotations

import datetime
import functools
import json
import os
import random
from collections.abc import Sequence

import pyarrow as pa
from tests.fuzz.engine import Target, need
from tests.fuzz.mutate import change_json, change_words, damage_bytes, json_text, odd_value

from indextables.commands.parse import parse_command
from indextables.config import Config, settings
from indextables.errors import ConfigError, QueryError
from indextables.ingest.log_lines import parse_line
from indextables.location import parse_location, redact
from indextables.predicate import bind, parse_predicate, to_arrow
from indextables.protocol.paths import escape_partition_value, normalize_path, unescape_partition_value
from indextables.runtime.scratch import directory_until_exit
from indextables.split.index.index_cache import IndexCache
from indextables.split.query import parse_query
from indextables.split.search.searcher import SplitSearcher
from indextables.split.split_file import SplitFile
from indextables.split.writer import SplitWriter
from indextables.store import open_store


def words_of(text: str) -> list[str]:
    return text.split()


ROWS = pa.table(
    {
        "id": pa.array(range(20), pa.int64()),
        "level": pa.array([("info", "error", None)[number % 3] for number in range(20)]),
        "message": pa.array([f"disk {number} is full of words" for number in range(20)]),
        "at": pa.array(range(20), pa.timestamp("us", tz="UTC")),
        "x": pa.array([number / 4 for number in range(20)]),
        "ok": pa.array([number % 2 == 0 for number in range(20)]),
    }
)
QUERIES = (
    "error AND NOT debug",
    'message:"disk full"~3 OR level:info^2.5',
    "id:[3 TO 9} +full -words",
    "message:/fu.*l/ message:fu?l* message:dsik~1",
    "level:IN [info error] (a OR (b AND c))",
    '_exists_:level at:>="1970-01-01T00:00:00Z" x:<2.5 ok:true',
    "`message`:a\\:b && id:7 || *",
)
QUERY_WORDS = (
    *words_of("AND OR NOT && || ! + - ( ) [ ] { } TO IN ^2 ~1 ~9 * ? : / < <= > >= , . _exists_: *:* message: id: at:"),
    *words_of("x: ok: level: `no`: /(a|b)*c/ /[/ /a{1000}/ /(.*)*x/ a*b*c*d*e*f* 1970-01-01 NaN 1e400 true 0x1F"),
    *("[* TO *]", "\\", " ", '"', "'"),
)
PREDICATES = (
    "id = 3 AND level <> 'error'",
    "id IN (1, 2, 3) OR NOT (message LIKE '%full%' AND x >= 2.5)",
    "at BETWEEN TIMESTAMP '1970-01-01 00:00:00' AND '1970-01-02' AND ok",
    "level IS NOT NULL AND level <=> 'info' AND CAST('7' AS INT) = id",
    "x > 1e300 AND `id` < 10L AND DATE '2026-01-01' <= at",
)
PREDICATE_WORDS = (
    *words_of("AND OR NOT IN BETWEEN LIKE IS NULL TRUE FALSE CAST AS DATE TIMESTAMP ESCAPE ( ) , = <> <=> < > != . ::"),
    *words_of("- + * id level message at x ok nothing 'a' '%' 1 1.5 9e99 1e-400 0x1F 10L 5BD DECIMAL(38,10) INTERVAL"),
    *("X'FF'", "'\\\\'", " ", "/*", "--"),
)
COMMANDS = (
    "DESCRIBE INDEXTABLES STATE '/data/logs'",
    "REINDEX INDEXTABLES '/data/logs' WHERE id > 3 SPLIT 'part-1.split' DRY RUN",
    "MERGE SPLITS '/data/logs' WHERE id > 3 AND level = 'x' TARGET SIZE 100M MAX DEST SPLITS 5",
    "PURGE INDEXTABLE '/data/logs' OLDER THAN 7 DAYS DRY RUN",
    "DROP INDEXTABLES PARTITIONS FROM '/data/logs' WHERE day = '2026-01-01'",
    "RESTORE INDEXTABLE '/data/logs' TO VERSION 3",
    "REPAIR INDEXFILES TRANSACTION LOG '/data/logs' AT LOCATION '/data/new'",
    "TRUNCATE INDEXTABLES TIME TRAVEL `a`.`b c`",
    "CHECKPOINT INDEXTABLES logs;",
)
COMMAND_WORDS = (
    *PREDICATE_WORDS,
    *words_of(" ".join(COMMANDS)),
    "INDEXTABLES",
    "9" * 30,
    "1T",
    "`",
    ";",
    "s3://k:s@b/t",
)
ADDRESSES = (
    "s3://bucket/a/b",
    "s3a://bucket/a=b/%20",
    "abfss://box@account.dfs.core.windows.net/x",
    "file:///data/t",
    "file:/data/t",
    "gs://bucket",
    "az://box/x",
    "/data/logs",
    "relative/../path",
    "memory://x/y",
    "https://user:pass@host/x?sig=abcdef",
)
ADDRESS_WORDS = (
    "://",
    ":",
    "/",
    "//",
    "..",
    ".",
    "@",
    "%2e%2e",
    "%",
    "#",
    "?",
    "s3",
    "\\",
    "~",
    "[",
    "core.windows.net",
)


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _from(rng: random.Random, texts: Sequence[str], words: Sequence[str]) -> bytes:
    if rng.random() < 0.1:
        return "".join(rng.choice(words) + rng.choice(("", " ")) for _ in range(rng.randrange(1, 60))).encode()
    text = change_words(rng, rng.choice(texts), words)
    if rng.random() < 0.1:
        text = damage_bytes(rng, text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    return text.encode("utf-8", "surrogatepass")


@functools.cache
def searcher() -> SplitSearcher:
    """A split of the rows, open."""
    place = directory_until_exit()
    config = Config.resolve(
        options={"indexing.typemap.message": "text", "cache.disk.path": os.path.join(place, "cache")}
    )
    store = open_store(os.path.join(place, "table"), config)
    with SplitWriter(store, ROWS.schema, config) as writer:
        for batch in ROWS.to_batches():
            writer.write(batch)
        (add,) = writer.finish()
    return SplitSearcher(SplitFile.open(store, add.path, size=add.size), "fuzz", IndexCache(config))


def use_query(data: bytes) -> None:
    """The rows that a query finds are as many as are counted, and among those that there are."""
    text = text_of(data)
    tree = parse_query(text)
    need(parse_query(text) == tree, "the same text is another query")
    found = searcher().row_numbers(tree, text).to_pylist()
    need(found == sorted(set(found)) and all(row < ROWS.num_rows for row in found), "it finds rows that are none")
    need(searcher().count(tree, text) == len(found), "it counts others than it finds")
    need(sorted(searcher().best(tree, text).rows.to_pylist()) == found, "the best rows are others")


def use_predicate(data: bytes) -> None:
    text = text_of(data)
    bound = bind(parse_predicate(text), ROWS.schema)
    found = ROWS.filter(to_arrow(bound))
    need(found.num_rows <= ROWS.num_rows, "more rows than there are")


def use_command(data: bytes) -> None:
    command = parse_command(text_of(data))
    need(command is None or command.text == text_of(data), "the text of a command is another")


def use_address(data: bytes) -> None:
    location = parse_location(text_of(data))
    need(".." not in location.path.split("/"), "a path leaves its place")
    need(parse_location(location.url) == location or location.family in ("az", "file"), "its URL is another place")


def use_path(data: bytes) -> None:
    table = parse_location("s3://bucket/table")
    path = normalize_path(text_of(data), table)
    need(normalize_path(path, table) == path, "a path has two spellings")
    need(not {"", ".", ".."} & set(path.split("/")), "a path leaves the table")
    value = text_of(data)
    need(unescape_partition_value(escape_partition_value(value)) == (value or None), "a value comes back otherwise")


def setting_bytes(rng: random.Random) -> bytes:
    chosen = rng.choice(settings.ALL)
    shown = chosen.kind.show(chosen.default) if chosen.default is not None else "text"
    text = change_words(
        rng, str(shown), ("1K", "-1", "1.5", "true", "all", "auto", " ", "ms", "days", "1e9", "9" * 25, ",")
    )
    value = text if rng.random() < 0.8 else odd_value(rng)
    layer = rng.choice(("options", "session", "properties", "clause"))
    return json.dumps([layer, rng.choice(("", "spark.indextables.")) + chosen.key, value]).encode()


def use_setting(data: bytes) -> None:
    layer, key, value = json.loads(data)
    config = Config.resolve(**{layer: {key: value}})
    for name, found in config.items():
        need(name and found is not Ellipsis, "a setting has no value")
    repr(config)


def offset_bytes(rng: random.Random) -> bytes:
    position = {"version": 3, "passed": 2, "whole": True}
    offset = {"tableId": "t", "begin": position, "position": {**position, "version": 5}}
    return json_text(change_json(rng, offset)) if rng.random() < 0.9 else damage_bytes(rng, json.dumps(offset).encode())


def use_offset(data: bytes) -> None:
    from indextables.spark.source.stream_reader import StreamOffset

    try:
        offset = json.loads(data)
    except (ValueError, RecursionError):
        return  # Spark reads the JSON
    found = StreamOffset.read(offset)
    need(StreamOffset.read(found.json()) == found, "an offset comes back otherwise")


def use_message(data: bytes) -> None:
    """Messages without secrets, whatever stands around them."""
    text = text_of(data)
    need("s3cr3t-value" not in redact(f"{text} s3cr3t-value {text}", ["s3cr3t-value"]), "a secret is shown")


LOG_LINES = (
    "2026-01-01T12:00:00.123Z INFO started",
    "2026-01-01 12:00:00,123 - root - ERROR - boom",
    "[Sat Nov 01 12:00:00.1 2025] [core:error] [pid 1] x",
    "Jan  5 12:00:00 host app[12]: WARNING: x",
    "<34>1 2003-10-11T22:14:15.003Z host su - - x",
    '::1 - frank [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1',
    'ts=1 caller=a.go:1 level=warn msg="a b"',
    "we saw an ERROR there",
)
LOG_WORDS = (
    "ERROR",
    "[info]",
    "level=",
    "warn",
    "Nov  1 ",
    "12:00:00",
    " 2024 ",
    " CET ",
    "IST",
    "+02",
    " - ",
    "<7>",
    "]",
)
_LEVELS = "TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|SEVERE|CRITICAL|CRIT|FATAL|ALERT|EMERG|PANIC"
_WRITTEN = datetime.datetime(2031, 3, 1, 12, tzinfo=datetime.UTC)


def use_log_line(data: bytes) -> None:
    """A line is kept whole, and nothing is read of it that does not stand there."""
    text = text_of(data).replace("\n", " ")
    entry = parse_line(text, 1, _WRITTEN)
    need(entry.message == text, "a line is not kept whole")
    need(entry.level is None or f"|{entry.level}|" in f"|{_LEVELS}|", "a level is none")
    need(entry.level is None or entry.level in text.upper() or text.startswith("<"), "a level is invented")
    year = "" if entry.moment is None or entry.has_assumed_year or not entry.moment[0].isdigit() else entry.moment[:4]
    need(year in text, "a year is invented")
    need(not entry.has_assumed_year or str(entry.moment)[:4] in ("2030", "2031", "unre"), "a year is far away")
    prose = parse_line(f"he told me: {text}", 1, _WRITTEN)
    need(prose.level is None, "a word in a sentence is a level")


TARGETS: Sequence[Target] = (
    Target("log-line", lambda rng: _from(rng, LOG_LINES, LOG_WORDS), use_log_line, ()),
    Target("query", lambda rng: _from(rng, QUERIES, QUERY_WORDS), use_query, (QueryError,), 0.5),
    Target("predicate", lambda rng: _from(rng, PREDICATES, PREDICATE_WORDS), use_predicate, (QueryError,)),
    Target("sql-command", lambda rng: _from(rng, COMMANDS, COMMAND_WORDS), use_command, (QueryError,)),
    Target("address", lambda rng: _from(rng, ADDRESSES, ADDRESS_WORDS), use_address, (ConfigError,)),
    Target("split-path", lambda rng: _from(rng, ADDRESSES, ADDRESS_WORDS), use_path, (ValueError,)),
    Target("setting", setting_bytes, use_setting, (ConfigError,)),
    Target("stream-offset", offset_bytes, use_offset, (ConfigError,)),
    Target("message", lambda rng: _from(rng, ADDRESSES, (*ADDRESS_WORDS, "sig=", "Bearer ", "AKIA")), use_message, ()),
)
