"""Statements of ours become commands, everything else is left alone, and what is wrong is shown with its place."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from indextables.commands import COMMANDS, parse_command
from indextables.errors import QueryError
from indextables.predicate.source import show_place

MERGE = "MERGE SPLITS t"

EVERY_CLAUSE = [
    ("CHECKPOINT INDEXTABLES t", "checkpoint", {}),
    ("COMPACT INDEXTABLES t", "compact", {}),
    ("TRUNCATE INDEXTABLES TIME TRAVEL t", "truncate_time_travel", {}),
    ("TRUNCATE INDEXTABLES TIME TRAVEL t DRY RUN", "truncate_time_travel", {"dry_run": True}),
    ("PURGE INDEXTABLE t", "purge", {}),
    ("PURGE INDEXTABLE t OLDER THAN 7 DAYS", "purge", {"older_than": "7 days"}),
    ("PURGE INDEXTABLE t OLDER THAN 0 HOURS DRY RUN", "purge", {"older_than": "0 hours", "dry_run": True}),
    ("PURGE INDEXTABLE t OLDER THAN 1 DAY", "purge", {"older_than": "1 days"}),
    ("PURGE INDEXTABLE t TRANSACTION LOG RETENTION 1 HOUR", "purge", {"log_retention": "1 hours"}),
    (
        "PURGE INDEXTABLE t DRY RUN TRANSACTION LOG RETENTION 30 DAYS OLDER THAN 24 HOURS",
        "purge",
        {"older_than": "24 hours", "log_retention": "30 days", "dry_run": True},
    ),
    ("DESCRIBE INDEXTABLES STATE t", "state", {}),
    ("DESC INDEXTABLES STATE t", "state", {}),
    ("DESCRIBE INDEXTABLES TRANSACTION LOG t", "describe_log", {}),
    ("DESCRIBE INDEXTABLES TRANSACTION LOG t INCLUDE ALL", "describe_log", {"include_all": True}),
    ("DESCRIBE INDEXTABLES HISTORY t", "history", {}),
    ("DESCRIBE INDEXTABLES HISTORY t LIMIT 10", "history", {"limit": 10}),
    ("REPAIR INDEXFILES TRANSACTION LOG t", "repair", {}),
    ("REPAIR INDEXTABLES TRANSACTION LOG t AT LOCATION 's3://b/x'", "repair", {"target_url": "s3://b/x"}),
    ("MERGE SPLITS t", "merge_splits", {}),
    ("REINDEX INDEXTABLES t", "reindex", {}),
    ("PREWARM INDEXTABLES CACHE t", "prewarm", {}),
    ("PREWARM INDEXTABLES CACHE FOR t WHERE d = '1'", "prewarm", {"where": "d = '1'"}),
    ("reindex indextable t where d = '1' dry run", "reindex", {"where": "d = '1'", "dry_run": True}),
    ("REINDEX INDEXTABLES t WHERE d = '1' SPLIT 'a.split'", "reindex", {"where": "d = '1'", "splits": ["a.split"]}),
    ("MERGE SPLITS t TARGET SIZE 100M", "merge_splits", {"target_size": 100 << 20}),
    ("MERGE SPLITS t TARGET SIZE '1.5G'", "merge_splits", {"target_size": 3 << 29}),
    ("MERGE SPLITS t TARGET SIZE 4096", "merge_splits", {"target_size": 4096}),
    ("MERGE SPLITS t MAX DEST SPLITS 3", "merge_splits", {"max_dest_splits": 3}),
    ("MERGE SPLITS t MAX SOURCE SPLITS PER MERGE 20", "merge_splits", {"max_source_splits_per_merge": 20}),
    (
        "MERGE SPLITS t WHERE d = '1' TARGET SIZE 1K MAX DEST SPLITS 3 MAX SOURCE SPLITS PER MERGE 2 DRY RUN",
        "merge_splits",
        {
            "where": "d = '1'",
            "target_size": 1024,
            "max_dest_splits": 3,
            "max_source_splits_per_merge": 2,
            "dry_run": True,
        },
    ),
    (
        "DROP INDEXTABLES PARTITIONS FROM t WHERE d < 5 AND e IN (1, 2)",
        "drop_partitions",
        {"where": "d < 5 AND e IN (1, 2)"},
    ),
    ("RESTORE INDEXTABLES t TO VERSION 0", "restore", {"version": 0}),
    ("RESTORE INDEXTABLES t TO TIMESTAMP '2026-01-31T12:00:00Z'", "restore", {"timestamp": "2026-01-31T12:00:00Z"}),
    ("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR t", "invalidate_cache", {}),
]
WITHOUT_TABLE = [
    ("DESCRIBE INDEXTABLES MERGE JOBS", "merge_jobs"),
    ("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE", "invalidate_cache"),
    ("FLUSH INDEXTABLES SEARCHER CACHE", "flush_search_cache"),
]


@pytest.mark.parametrize(("text", "name", "arguments"), EVERY_CLAUSE)
def test_every_command_with_its_clauses(text, name, arguments):
    for spelled in (text, text.replace("INDEXTABLES", "INDEXTABLE"), f"{text} ;", f"/* a /* b */ */ -- c\n {text}\n;;"):
        command = parse_command(spelled)
        assert (command.name, command.arguments, command.text) == (name, arguments, spelled)
        assert (command.target.text, command.target.is_path) == ("t", False)
        assert spelled[command.target.place :].startswith("t")


@pytest.mark.parametrize(("text", "name"), WITHOUT_TABLE)
def test_commands_without_a_table(text, name):
    for spelled in (text, text.lower(), text.replace("INDEXTABLES", "INDEXTABLE")):
        command = parse_command(spelled)
        assert (command.name, command.target, command.arguments) == (name, None, {})


def test_every_command_is_read_and_every_example_is_true():
    assert {name for _, name, _ in EVERY_CLAUSE} | {name for _, name in WITHOUT_TABLE} == set(COMMANDS)
    for name, spec in COMMANDS.items():
        assert parse_command(spec.example).name == name


@pytest.mark.parametrize(
    ("written", "text", "is_path"),
    [
        ("'/data/my logs'", "/data/my logs", True),
        ('"s3://bucket/logs"', "s3://bucket/logs", True),
        (r"'it\'s'", "it's", True),
        ("'it''s'", "it's", True),
        ("r'a\\b'", "a\\b", True),
        ("indextables.`/data/logs`", "/data/logs", True),
        ("IndexTables . `s3://b/x`", "s3://b/x", True),
        ("indextables.logs", "indextables.logs", False),
        ("indextables.`logs`", "indextables.logs", False),
        ("other.`/data/logs`", "other.`/data/logs`", False),
        ("logs", "logs", False),
        ("`my logs`", "`my logs`", False),
        ("a.`b``c` /* x */ . d", "a.`b``c`.d", False),
        ("limit", "limit", False),
        ("`limit`.where.MERGE", "limit.where.MERGE", False),
        ("größe", "größe", False),
        ("1a", "1a", False),
        ("`1`", "`1`", False),
    ],
)
def test_targets(written, text, is_path):
    for command in (f"CHECKPOINT INDEXTABLES {written}", f"MERGE SPLITS {written} DRY RUN"):
        target = parse_command(command).target
        assert (target.text, target.is_path) == (text, is_path)
        assert command[target.place :].startswith(written)


@pytest.mark.parametrize(
    "name",
    ["limit", "where", "target", "max", "dry", "to", "at", "include", "older", "transaction", "indextables", "for"],
)
def test_no_word_is_reserved(name):
    assert parse_command(f"MERGE SPLITS {name} WHERE {name} = 1 TARGET SIZE 1G").arguments["where"] == f"{name} = 1"
    assert parse_command(f"DESCRIBE INDEXTABLES HISTORY {name} LIMIT 3").target.text == name
    assert parse_command(f"RESTORE INDEXTABLES {name} TO VERSION 3").target.text == name
    assert parse_command(f"DESCRIBE INDEXTABLES TRANSACTION LOG {name} INCLUDE ALL").target.text == name


@pytest.mark.parametrize(
    "where",
    [
        "a = 'TARGET SIZE 1G' AND b = 2",
        "`DRY RUN` = 1",
        "target = 1",
        "dry",
        "max IN (1, 2) OR (dry = 1 AND target > 5)",
        "a = 5L AND b = 1.5BD",
        "a BETWEEN DATE '2026-01-01' /* DRY RUN */ AND DATE '2026-02-01'",
        "NOT (a IS NULL OR b LIKE '%;%')",
    ],
)
@pytest.mark.parametrize(
    "rest", ["", " ;", " DRY RUN", " TARGET SIZE 1G", " MAX DEST SPLITS 3 DRY RUN", "\nmax source splits per merge 5;"]
)
def test_a_predicate_ends_where_the_next_clause_begins(where, rest):
    assert parse_command(f"MERGE SPLITS t WHERE {where}{rest}").arguments["where"] == where
    assert parse_command(f"MERGE SPLITS t DRY RUN WHERE {where}").arguments == {"dry_run": True, "where": where}


NOT_OURS = [
    "",
    ";",
    "   ",
    "-- MERGE SPLITS t",
    "/* MERGE SPLITS t */ SELECT 1",
    "/* left open MERGE SPLITS t",
    "'left open",
    "SELECT 'MERGE SPLITS t'",
    "'MERGE' SPLITS t",
    "`MERGE` SPLITS t",
    "MERGE INTO t USING s ON a = b WHEN MATCHED THEN DELETE",
    "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON a = b",
    "MERGE 'SPLITS' t",
    "MERGE `SPLITS` t",
    "TRUNCATE TABLE indextables",
    "DROP TABLE indextables",
    "DROP INDEX i ON t",
    "DROP VIEW IF EXISTS v",
    "REPAIR TABLE t",
    "MSCK REPAIR TABLE t",
    "RESTORE TABLE t TO VERSION AS OF 3",
    "DESCRIBE t",
    "DESCRIBE TABLE indextables",
    "DESCRIBE EXTENDED indextables",
    "DESCRIBE indextables",
    "DESCRIBE indextables;",
    "DESC indextables",
    "DESCRIBE indextables.logs",
    "DESCRIBE indextables level",
    "DESCRIBE indextables level;",
    "DESCRIBE indextables address.city",
    "DESCRIBE indextables `state`",
    "DESCRIBE indextables PARTITION (day = '1')",
    "DESCRIBE indextables AS JSON",
    "DESCRIBE `indextables` state",
    "DESCRIBE indextable_1 x y",
    "CHECKPOINT",
    "MERGE",
    "CHECKPOINT TABLE t",
    "PURGE TABLE t",
    "SPLITS MERGE t",
    "WITH x AS (SELECT 1) SELECT * FROM x",
    "EXPLAIN MERGE SPLITS t",
]


@pytest.mark.parametrize("text", NOT_OURS)
def test_what_is_not_ours_is_left_alone(text):
    assert parse_command(text) is None


TABLE = "a table (its name, or a path in quotes)"
WRONG = [
    ("CHECKPOINT INDEXTABLES ^", f"it ends where {TABLE} is expected"),
    ("CHECKPOINT INDEXTABLES ^;", f"`;` is found where {TABLE} is expected"),
    ("CHECKPOINT INDEXTABLES t ^u", "`u` is found where the end is expected"),
    ("CHECKPOINT INDEXTABLES t ^LIMIT 3", "`LIMIT` is found where the end is expected"),
    ("CHECKPOINT INDEXTABLES t.^", "it ends where a name is expected"),
    ("CHECKPOINT INDEXTABLES t.^'x'", "`'x'` is found where a name is expected"),
    ("CHECKPOINT INDEXTABLES ^''", "the path is empty"),
    ("CHECKPOINT INDEXTABLES a.^``", "a name is empty"),
    ("CHECKPOINT INDEXTABLES ^5", f"`5` is found where {TABLE} is expected"),
    ("CHECKPOINT INDEXTABLES ^5L", f"`5L` is found where {TABLE} is expected"),
    ("CHECKPOINT INDEXTABLES ^x'00'", f"`x'00'` is found where {TABLE} is expected"),
    ("CHECKPOINT INDEXTABLES ^'t", "it cannot be split into words: a quote is left open"),
    ("CHECKPOINT INDEXTABLES t; ^SELECT 1", "`SELECT` is found where the end is expected"),
    ("CHECKPOINT ^INDEXTABEL t", "`INDEXTABEL` is found where `INDEXTABLES` is expected"),
    ("COMPACT INDEXTABLES t ^DRY RUN", "`DRY` is found where the end is expected"),
    ("TRUNCATE INDEXTABLES ^t", "`t` is found where `TIME` is expected"),
    ("TRUNCATE INDEXTABLES TIME ^t", "`t` is found where `TRAVEL` is expected"),
    ("TRUNCATE INDEXTABLES TIME TRAVEL t DRY ^", "it ends where `RUN` is expected"),
    ("TRUNCATE INDEXTABLES TIME TRAVEL t DRY RUN ^DRY RUN", "`DRY` is found where the end is expected"),
    ("PURGE INDEXTABLE t OLDER ^7 DAYS", "`7` is found where `THAN` is expected"),
    ("PURGE INDEXTABLE t OLDER THAN ^DAYS", "`DAYS` is found where a whole number is expected"),
    ("PURGE INDEXTABLE t OLDER THAN ^-1 DAYS", "`-` is found where a whole number is expected"),
    ("PURGE INDEXTABLE t OLDER THAN ^1.5 DAYS", "`1.5` is not a whole number of at least 0"),
    ("PURGE INDEXTABLE t OLDER THAN 7 ^WEEKS", "`WEEKS` is found where `DAYS` or `HOURS` is expected"),
    ("PURGE INDEXTABLE t OLDER THAN 7 DAYS ^OLDER THAN 8 DAYS", "this clause is given twice"),
    ("PURGE INDEXTABLE t DRY RUN ^DRY RUN", "this clause is given twice"),
    ("DESCRIBE INDEXTABLES STATE ^", f"it ends where {TABLE} is expected"),
    ("DESCRIBE INDEXTABLES ^STAT t", "`STAT` is found where `HISTORY`, `MERGE`, `STATE` or `TRANSACTION` is expected"),
    ("DESCRIBE INDEXTABLES TRANSACTION ^t", "`t` is found where `LOG` is expected"),
    ("DESCRIBE INDEXTABLES TRANSACTION LOG t INCLUDE ^", "it ends where `ALL` is expected"),
    ("DESCRIBE INDEXTABLES HISTORY t LIMIT ^", "it ends where a whole number is expected"),
    ("DESCRIBE INDEXTABLES HISTORY t LIMIT ^0", "`0` is not a whole number of at least 1"),
    ("DESCRIBE INDEXTABLES HISTORY t LIMIT ^10L", "`10L` is not a whole number of at least 1"),
    ("DESCRIBE INDEXTABLES HISTORY t LIMIT ^1234567890123456789", "is not a whole number of at least 1"),
    ("DESCRIBE INDEXTABLES MERGE JOBS ^t", "`t` is found where the end is expected"),
    ("REPAIR INDEXFILES ^'/x'", "`'/x'` is found where `TRANSACTION` is expected"),
    ("REPAIR INDEXFILES TRANSACTION LOG '/x' AT ^'/y'", "`'/y'` is found where `LOCATION` is expected"),
    ("REPAIR INDEXFILES TRANSACTION LOG '/x' AT LOCATION ^y", "`y` is found where a path in quotes is expected"),
    ("REPAIR INDEXFILES TRANSACTION LOG '/x' AT LOCATION ^''", "the path is empty"),
    ("MERGE ^SPLIT t", "`SPLIT` is found where `SPLITS` is expected"),
    ("MERGE SPLITS t ^TARGT SIZE 1G", "`TARGT` is found where `DRY`, `MAX`, `TARGET`, `WHERE` or the end is expected"),
    ("MERGE SPLITS t TARGET ^1G", "`1G` is found where `SIZE` is expected"),
    ("MERGE SPLITS t TARGET SIZE ^", "it ends where a size such as `100M` is expected"),
    ("MERGE SPLITS t TARGET SIZE ^big", "`big` is found where a size such as `100M` is expected"),
    ("MERGE SPLITS t TARGET SIZE ^1X", "`1X` is not a size of at least 1"),
    ("MERGE SPLITS t TARGET SIZE ^0", "`0` is not a size of at least 1"),
    ("MERGE SPLITS t MAX ^SPLITS 3", "`SPLITS` is found where `DEST` or `SOURCE` is expected"),
    ("MERGE SPLITS t MAX DEST SPLITS ^0", "`0` is not a whole number of at least 1"),
    ("MERGE SPLITS t MAX SOURCE SPLITS ^5", "`5` is found where `PER` is expected"),
    ("MERGE SPLITS t MAX SOURCE SPLITS PER MERGE ^1", "`1` is not a whole number of at least 2"),
    ("MERGE SPLITS t WHERE ^", "it ends where a predicate is expected"),
    ("MERGE SPLITS t WHERE ^DRY RUN", "`DRY` is found where a predicate is expected"),
    ("MERGE SPLITS t WHERE a = 1 ^WHERE b = 2", "cannot read the predicate because `WHERE` is not understood here"),
    ("MERGE SPLITS t WHERE a ^+ 1 = 2 DRY RUN", "cannot read the predicate because arithmetic is not supported"),
    ("MERGE SPLITS t WHERE a =^ DRY RUN", "it ends where a column or a literal is expected"),
    ("MERGE SPLITS t WHERE (a = 1 DRY RUN^", "cannot read the predicate"),
    ("MERGE SPLITS t WHERE\n  a = 1 AND\n  ^f(b) = 2", "functions such as `f(...)` are not supported"),
    ("MERGE SPLITS ^/data/logs", f"`/` is found where {TABLE} is expected"),
    ("MERGE SPLITS s3^://bucket/logs", "`:` is found where"),
    ("DROP INDEXTABLES ^FROM t", "`FROM` is found where `PARTITIONS` is expected"),
    ("DROP INDEXTABLES PARTITIONS ^t", "`t` is found where `FROM` is expected"),
    ("DROP INDEXTABLES PARTITIONS FROM t^", "it ends where `WHERE` is expected"),
    ("DROP INDEXTABLES PARTITIONS FROM t WHERE a = 1 ^DRY RUN", "`DRY` is found where the end is expected"),
    ("RESTORE INDEXTABLES t^", "it ends where `TO` is expected"),
    ("RESTORE INDEXTABLES t TO ^3", "`3` is found where `TIMESTAMP` or `VERSION` is expected"),
    ("RESTORE INDEXTABLES t TO VERSION ^'3'", "`'3'` is found where a whole number is expected"),
    ("RESTORE INDEXTABLES t TO TIMESTAMP ^5", "`5` is found where a timestamp in quotes is expected"),
    ("RESTORE INDEXTABLES t TO TIMESTAMP ^'soon'", "`soon` is not a timestamp"),
    ("INVALIDATE INDEXTABLES ^CACHE", "`CACHE` is found where `TRANSACTION` is expected"),
    ("INVALIDATE INDEXTABLES TRANSACTION LOG CACHE ^t", "`t` is found where `FOR` or the end is expected"),
    ("FLUSH INDEXTABLES ^CACHE", "`CACHE` is found where `SEARCHER` is expected"),
    ("FLUSH INDEXTABLES SEARCHER CACHE ^FOR t", "`FOR` is found where the end is expected"),
]


@pytest.mark.parametrize(("marked", "reason"), WRONG)
def test_what_is_wrong_is_shown_with_its_place(marked, reason):
    text, place = marked.replace("^", ""), marked.index("^")
    place = len(text.rstrip()) if place == len(text) else place
    with pytest.raises(QueryError) as caught:
        parse_command(text)
    message = str(caught.value)
    assert reason in message
    if "(a = 1 DRY RUN" not in text:
        assert f", at {show_place(text, place)}" in message
    assert "$" not in message.replace("$END", "$")
    assert "Token(" not in message


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("MERGE SPLITS t TARGT SIZE 1G", "did you mean `TARGET`?"),
        ("MERGE SPLIT t", "did you mean `SPLITS`?"),
        ("DESCRIBE INDEXTABLES HISTROY t", "did you mean `HISTORY`?"),
        ("MERGE SPLITS /data/logs", "put a path in quotes."),
        ("MERGE SPLITS s3://bucket/logs", "put a path in quotes."),
        ("MERGE SPLITS t MAX DEST SPLITS -1", f"it is written `{COMMANDS['merge_splits'].usage}`"),
        ("MERGE SPLITS t TARGET", f"it is written `{COMMANDS['merge_splits'].usage}`"),
        ("desc indextable history", f"it is written `{COMMANDS['history'].usage}`"),
    ],
)
def test_hints_say_what_to_do(text, advice):
    with pytest.raises(QueryError) as caught:
        parse_command(text)
    assert caught.value.hint.startswith(advice)


def test_secrets_in_an_address_are_not_shown():
    for text in (
        "MERGE SPLITS 's3://me:hunter2hunter2@bucket/logs' TARGT",
        "MERGE SPLITS 's3://me:hunter2hunter2@bucket/logs' WHERE a + 1",
        "MERGE SPLITS 's3://me:hunter2hunter2@bucket/logs' '",
    ):
        with pytest.raises(QueryError) as caught:
            parse_command(text)
        assert "hunter2" not in str(caught.value)


def test_other_statements_cost_next_to_nothing():
    long = "SELECT " + ", ".join(f"column_{number}" for number in range(200_000))
    merge = "MERGE INTO t USING s ON " + long
    started = time.process_time()
    for _ in range(1000):
        assert parse_command(long) is None
        assert parse_command(merge) is None
    assert time.process_time() - started < 1


def test_statements_of_others_may_be_of_any_length_and_hold_anything():
    assert parse_command("SELECT '" + "x" * 2_000_000 + "'") is None
    assert parse_command("SELECT '\0'") is None
    with pytest.raises(QueryError, match="statement because it is 2,000,"):
        parse_command("CHECKPOINT INDEXTABLES '" + "x" * 2_000_000 + "'")
    with pytest.raises(QueryError, match="because of the character `U\\+0000`"):
        parse_command("CHECKPOINT INDEXTABLES '\0'")


PROGRAM = """
import sys
from indextables.commands import parse_command

assert parse_command("SELECT 1") is None
assert not [name for name in sys.modules if name.split(".")[0] in ("lark", "pyspark")]
assert parse_command("MERGE SPLITS t").name == "merge_splits"
assert not [name for name in sys.modules if name.split(".")[0] == "pyspark"]
"""


def test_the_parser_is_loaded_when_it_is_needed():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
