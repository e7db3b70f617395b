"""Commands, printed in any case, with any white space and comments and with clauses in any order, are read back."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.commands import parse_command
from indextables.errors import QueryError

TABLES = ("INDEXTABLES", "INDEXTABLE")
WORDS = [
    "a",
    "logs",
    "limit",
    "where",
    "target",
    "size",
    "dry",
    "run",
    "max",
    "to",
    "indextables",
    "_x1",
    "größe",
    "1a",
]
# Characters that mean something to SQL, and some that do not.
TEXT = st.text(st.sampled_from(list("ab/:.;'\"`\\ -*()\nü😀%_")), min_size=1, max_size=12)


def quoted(text: str, quote: str) -> str:
    """A string of SQL. A backslash before `%` and `_` would stay, and so would one before a quote close nothing."""
    return quote + text.replace("\\", "\\\\").replace(quote, quote * 2) + quote


def back_quoted(text: str) -> str:
    return "`" + text.replace("`", "``") + "`"


@st.composite
def targets(draw) -> tuple[list[str], tuple[str, bool]]:
    """A target as its words, and what it means."""
    if draw(st.booleans()):
        text = draw(TEXT)
        return [quoted(text, draw(st.sampled_from("'\"")))], (text, True)
    parts = draw(st.lists(st.tuples(st.booleans(), TEXT, st.sampled_from(WORDS)), min_size=1, max_size=3))
    spelled = [back_quoted(text) if is_odd else word for is_odd, text, word in parts]
    if len(parts) == 2 and spelled[0] == "indextables" and parts[1][0] and "/" in parts[1][1]:
        meaning = (parts[1][1], True)
    else:
        meaning = (".".join(plain(*part) for part in parts), False)
    words = [word for part in spelled for word in (".", part)][1:]
    return words, meaning


def plain(is_odd: bool, text: str, word: str) -> str:
    if not is_odd:
        return word
    return text if text.isascii() and text.isidentifier() else back_quoted(text)


NUMBERS = st.integers(2, 10**18 - 1)
AGES = st.tuples(st.integers(0, 9999), st.sampled_from(["DAYS", "HOURS", "DAY", "HOUR"]))
SIZES = st.sampled_from([("100M", 100 << 20), ("'1G'", 1 << 30), ("1.5k", 1536), ("77", 77), ('"2KiB"', 2048)])
COMPARISONS = st.sampled_from(
    [
        "d = 'TARGET SIZE'",
        "dry = 1",
        "target > 5L",
        "max",
        "NOT x",
        "(a = 1 OR b IN (1, 2))",
        "c IS NOT NULL",
        "e LIKE 'x;%'",
    ]
)
PREDICATES = st.lists(COMPARISONS, min_size=1, max_size=3).map(" AND ".join)


def age(name: str, *words: str) -> Any:
    return AGES.map(lambda age: ([*words, str(age[0]), age[1]], (name, f"{age[0]} {age[1].rstrip('S').lower()}s")))


def number(name: str, *words: str) -> Any:
    return NUMBERS.map(lambda count: ([*words, str(count)], (name, count)))


def flag(name: str, *words: str) -> Any:
    return st.just((list(words), (name, True)))


DRY_RUN = flag("dry_run", "DRY", "RUN")
WHERE = PREDICATES.map(lambda text: (["WHERE", text], ("where", text)))
SIZE = SIZES.map(lambda size: (["TARGET", "SIZE", size[0]], ("target_size", size[1])))
AT = TEXT.map(lambda text: (["AT", "LOCATION", quoted(text, "'")], ("target_url", text)))
SPLIT = TEXT.map(lambda text: (["SPLIT", quoted(text, "'")], ("splits", [text])))
TO = st.one_of(
    number("version", "TO", "VERSION"),
    st.datetimes().map(lambda at: (["TO", "TIMESTAMP", f"'{at.isoformat()}'"], ("timestamp", at.isoformat()))),
)
TABLE = st.sampled_from(TABLES)
# The words before the target, the clauses that must follow it, and those that may, in any order.
COMMANDS: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "checkpoint": (["CHECKPOINT", TABLE], [], []),
    "compact": (["COMPACT", TABLE], [], []),
    "truncate_time_travel": (["TRUNCATE", TABLE, "TIME", "TRAVEL"], [], [DRY_RUN]),
    "purge": (
        ["PURGE", TABLE],
        [],
        [age("older_than", "OLDER", "THAN"), age("log_retention", "TRANSACTION", "LOG", "RETENTION"), DRY_RUN],
    ),
    "state": (["DESCRIBE", TABLE, "STATE"], [], []),
    "describe_log": (["DESCRIBE", TABLE, "TRANSACTION", "LOG"], [], [flag("include_all", "INCLUDE", "ALL")]),
    "history": (["DESCRIBE", TABLE, "HISTORY"], [], [number("limit", "LIMIT")]),
    "repair": (["REPAIR", st.sampled_from(["INDEXFILES", *TABLES]), "TRANSACTION", "LOG"], [], [AT]),
    "merge_splits": (
        ["MERGE", "SPLITS"],
        [],
        [
            WHERE,
            SIZE,
            number("max_dest_splits", "MAX", "DEST", "SPLITS"),
            number("max_source_splits_per_merge", "MAX", "SOURCE", "SPLITS", "PER", "MERGE"),
            DRY_RUN,
        ],
    ),
    "reindex": (["REINDEX", TABLE], [], [WHERE, SPLIT, DRY_RUN]),
    "drop_partitions": (["DROP", TABLE, "PARTITIONS", "FROM"], [WHERE], []),
    "restore": (["RESTORE", TABLE], [TO], []),
    "prewarm": (["PREWARM", TABLE, "CACHE"], [], [WHERE]),
    "invalidate_cache": (["INVALIDATE", TABLE, "TRANSACTION", "LOG", "CACHE", "FOR"], [], []),
}
SPACES = st.sampled_from(
    [" ", "\n", "\t  ", " /* MERGE SPLITS 't */ ", "/**/", " -- it's a comment\n", "/* /* nested */ ' */"]
)


def cased(draw, word: str) -> str:
    return draw(st.sampled_from([word, word.lower(), word.capitalize()])) if word.isalpha() else word


@st.composite
def statements(draw) -> tuple[str, tuple[str, tuple[str, bool], dict[str, Any]]]:
    """A statement, and what it means."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    begin, required, optional = COMMANDS[name]
    target, meaning = draw(targets())
    chosen = draw(st.permutations([clause for clause in optional if draw(st.booleans())]))
    clauses = [draw(clause) for clause in [*required, *chosen]]
    keywords = [cased(draw, word if isinstance(word, str) else draw(word)) for word in begin]
    # Names and predicates stay as they are; the keywords of clauses are in any case.
    words = [*keywords, *target]
    for spelled, _ in clauses:
        words += [cased(draw, word) if word.isupper() else word for word in spelled]
    text = "".join(part for word in words for part in (draw(SPACES), word))
    ending = draw(st.sampled_from(["", ";", " ; -- end", "\n;;\n"]))
    return text + draw(SPACES) + ending, (name, meaning, dict(pair for _, pair in clauses))


@settings(max_examples=600)
@given(statements())
def test_commands_are_read_back(statement):
    text, meant = statement
    command = parse_command(text)
    assert (command.name, (command.target.text, command.target.is_path), command.arguments) == meant


@settings(max_examples=300)
@given(statements(), st.data())
def test_a_statement_that_is_cut_or_changed_is_read_or_refused_but_nothing_else(statement, data):
    text, _ = statement
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    changed = text[:start] + data.draw(st.sampled_from(["", "'", "(", "MERGE", " 5 ", ";"])) + text[end:]
    refused = None
    try:
        parse_command(changed)
    except QueryError as error:
        refused = error.message
    assert refused is None or refused.startswith("cannot read the ")
