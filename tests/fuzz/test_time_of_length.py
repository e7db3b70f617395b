"""The time that a text takes grows with its length and no faster, whatever it is made of."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from indextables.commands import parse_command
from indextables.config import Config
from indextables.errors import IndexTablesError
from indextables.predicate import bind, parse_predicate, to_arrow
from indextables.split.index.fields import map_fields
from indextables.split.query import parse_query
from indextables.split.query.parse import _parse
from indextables.split.search.row_matcher import RowMatcher

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("f", pa.float64()),
        ("ok", pa.bool_()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("wide", pa.decimal128(30, 2)),
        ("s", pa.string()),
        ("m", pa.string()),
        ("j", pa.string()),
        ("st", pa.struct([("a", pa.int64())])),
        ("list", pa.list_(pa.string())),
        ("raw", pa.binary()),
        ("ip", pa.string()),
    ]
)
FIELDS = map_fields(SCHEMA, Config.resolve(options={"indexing.m": "text", "indexing.j": "json", "indexing.ip": "ip"}))
ROW = pa.RecordBatch.from_pylist([{"id": 1, "m": "a b", "j": '{"a": 1}', "s": "a"}], schema=SCHEMA)
SHORT, LONG = 4_000, 16_000
QUICK_SECONDS = 0.15
MOST_GROWTH = 9  # 4 is linear, 16 quadratic

Make = Callable[[int], str]


def times(piece: str, before: str = "", behind: str = "") -> Make:
    """A piece again and again, in a text of about so many characters."""
    return lambda length: before + piece * (length // len(piece)) + behind


def numbered(before: str, behind: str) -> Make:
    return lambda length: before + " ".join(map(str, range(length // 5))) + behind


QUERIES: dict[str, Make] = {
    "path": times(".a", "j", ":x"),
    "path, number": times(".a", "j", ":5"),
    "path, phrase": times(".a", "j", ':"x y z"'),
    "path, prefix": times(".a", "j", ":x*"),
    "path, regex": times(".a", "j", ":/x.*/"),
    "path, fuzzy": times(".a", "j", ":xy~1"),
    "path, exists": times(".a", "_exists_:j"),
    "path, phrase of many words": lambda length: "j" + ".a" * 900 + ':"' + "x y " * (length // 4) + '"',
    "path, set": lambda length: "j" + ".a" * 900 + ":IN [" + " ".join(map(str, range(length // 5))) + "]",
    "path of a struct": times(".a", "st", ":5"),
    "path of a list": times(".a", "list", ":x"),
    "path of quoted names": times('."a"', "j", ":x"),
    "path of escaped dots": times("\\.a", "j.b", ":x"),
    "path of nothing": times(".a", "nosuch", ":x"),
    "long key": times("a", "j.", ":x"),
    "long name": times("a", "", ":x"),
    "word": times("a"),
    "words": times("a "),
    "text": times("a", "m:"),
    "string": times("a", "s:"),
    "or": times("a OR ", "", "a"),
    "and": times("a AND ", "", "a"),
    "not": times("NOT ", "", "a"),
    "signs": times("-a "),
    "needed": times("+a "),
    "phrase": times("ab ", '"', '"'),
    "slop": times("ab ", '"', '"~2'),
    "prefix": times("a", "m:", "*"),
    "wildcards": times("a*", "m:"),
    "question marks": times("?", "m:"),
    "regex": times("a", "m:/", "/"),
    "regex of choices": times("a|", "m:/", "a/"),
    "regex of options": times("a?", "m:/", "/"),
    "regex of groups": lambda length: "m:/" + "(" * (length // 2) + "a" + ")" * (length // 2) + "/",
    "fuzzy": times("a", "m:", "~2"),
    "range of text": times("a", "m:[", " TO b]"),
    "range of strings": times("a", "s:>"),
    "whole number": times("1", "id:"),
    "float": times("1", "f:"),
    "exponent": times("1", "f:1e"),
    "decimal": times("1", "wide:"),
    "time": times("1", "at:"),
    "date": times("0", "at:2026-01-", "1"),
    "boolean": times("t", "ok:"),
    "bytes": times("ab", "raw:"),
    "address": times("1:", "ip:"),
    "set of numbers": numbered("id:IN [", "]"),
    "set of strings": numbered("s:IN [", "]"),
    "set of words": numbered("m:IN [", "]"),
    "boosts": times("a^2 "),
    "parentheses": times("(a) "),
    "open parentheses": times("("),
    "fields": times("m:a "),
    "group": times("a ", "m:(", ")"),
    "ranges": times("id:[1 TO 2] "),
    "existence": times("_exists_:m "),
    "backslashes": times("\\a"),
    "blanks": times(" ", "", "a"),
    "quotes": times('"'),
    "back-quotes": times("`"),
    "brackets": times("["),
    "stars": times("*"),
    "colons": times(":", "m"),
    "dots": times(".", "", ":a"),
    "tildes": times("a~"),
    "slashes": times("/"),
}
PREDICATES: dict[str, Make] = {
    "and": times("id = 1 AND ", "", "id = 2"),
    "or": times("id = 1 OR ", "", "id = 2"),
    "not": times("NOT ", "", "id = 1"),
    "parentheses": lambda length: "(" * (length // 2) + "id = 1" + ")" * (length // 2),
    "set": times("1, ", "id IN (", "2)"),
    "path": times(".a", "st", " = 1"),
    "text": times("a", "s = '", "'"),
    "quotes": times("''", "s = '", "'"),
    "pattern": times("a%", "s LIKE '", "'"),
    "number": times("1", "id = "),
    "digits": times("1", "wide = 0."),
    "time": times("1", "at = '", "'"),
    "minus": times("- ", "id = ", "1"),
    "blanks": times(" ", "id =", "1"),
    "comments": times("/* */", "id = ", "1"),
    "name": times("a", "`", "` = 1"),
    "between": times("id BETWEEN 1 AND 2 AND ", "", "id = 2"),
}
STATEMENTS: dict[str, Make] = {
    "path": times("a", "MERGE SPLITS '", "'"),
    "name": times(".a", "MERGE SPLITS t"),
    "predicate": times("id = 1 AND ", "MERGE SPLITS t WHERE ", "id = 2 DRY RUN"),
    "clauses": times("DRY RUN ", "REINDEX INDEXTABLES t "),
    "comments": times("/* */", "MERGE SPLITS t "),
    "semicolons": times(";", "MERGE SPLITS t "),
    "words": times("a ", "MERGE SPLITS t "),
}


def run_query(text: str) -> None:
    _parse.cache_clear()
    RowMatcher(parse_query(text), FIELDS).matches(ROW)


def run_predicate(text: str) -> None:
    to_arrow(bind(parse_predicate(text), SCHEMA))


CASES = [
    *((run_query, "query", name, make) for name, make in QUERIES.items()),
    *((run_predicate, "predicate", name, make) for name, make in PREDICATES.items()),
    *((parse_command, "statement", name, make) for name, make in STATEMENTS.items()),
]


@pytest.mark.one_case
@pytest.mark.parametrize(
    ("run", "make"), [pytest.param(run, make, id=f"{kind}: {name}") for run, kind, name, make in CASES]
)
def test_time_grows_with_the_length_and_no_faster(run, make) -> None:
    seconds(run, make(100))  # what is done once is done now
    took = seconds(run, make(LONG))
    if took > QUICK_SECONDS:
        before = min(seconds(run, make(SHORT)) for _ in range(2))
        took = min(took, seconds(run, make(LONG)))
        assert took / before < MOST_GROWTH, f"{before:.3f} s became {took:.3f} s"


def seconds(run: Callable[[str], object], text: str) -> float:
    """The processor's time for a text, also where it is refused."""
    start = time.process_time()
    with contextlib.suppress(IndexTablesError):
        run(text)
    return time.process_time() - start
