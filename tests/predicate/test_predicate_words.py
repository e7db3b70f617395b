"""A predicate is split into the words that sqlglot's Spark tokenizer finds, but for the differences listed here."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from indextables.errors import QueryError
from indextables.predicate.source import show_place
from indextables.predicate.words import Token, tokenize

pytest.importorskip("sqlglot")
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError


def ours(text) -> list[Token] | None:
    """The words that we find, or nothing where the text is refused."""
    try:
        return tokenize(text)
    except QueryError:
        return None


def check_against_sqlglot(text) -> None:
    try:
        raw = Spark().tokenize(text)
    except SqlglotError as error:
        listed = "Numeric string" in str(error.__cause__)
        assert listed or ours(text) is None, repr(text)
    else:
        found = ours(text) or []
        assert [placed(token) for token in found] == [*join_quotes(text, raw), ("end", "", len(text))], repr(text)
        check_ends(text, found)


def placed(token: Token) -> tuple[str, str, int]:
    return token.kind, token.text, token.start


def check_ends(text, found) -> None:
    """Tokens end behind what they spell, and never behind the start of another."""
    for token, following in itertools.pairwise(found):
        spelled = text[token.start : token.end]
        is_suffix = token.start == following.start or (token.kind, spelled[:1].isdigit()) == ("word", True)
        assert token.end <= following.start or is_suffix
        if token.kind in {"word", "symbol", "number"} and not is_suffix:
            assert spelled == token.text
        elif token.kind == "name" and spelled.startswith("`"):
            assert spelled.endswith("`")
        elif token.kind == "string":
            assert spelled[-1] in "'\""


def join_quotes(text, raw) -> list[tuple[str, str, int]]:
    """Tokens in our form. A doubled quote inside a string, which sqlglot takes for two strings, is one string again."""
    found: list[tuple[str, str, int]] = []
    end = -1
    for item in raw:
        kind = kind_of(item)
        touches = item.start == end + 1 and text[end] == text[item.start]
        if kind == "string" and found and found[-1][0] == "string" and touches:
            found[-1] = ("string", found[-1][1] + text[end] + item.text, found[-1][2])
        else:
            found.append((kind, item.text, item.start))
        end = item.end
    return found


def kind_of(item) -> str:
    name = item.token_type.name
    if name in {"STRING", "RAW_STRING"}:
        return "string"
    if name == "NUMBER":
        return "number"
    if name == "IDENTIFIER":
        return "name"
    if name.endswith("_STRING"):
        return "other"
    if name == "VAR" or item.text[:1].isalpha() or item.text[:1] == "_":
        return "word"
    return "symbol"


def brief(tokens) -> list[tuple[str, str]] | None:
    return None if tokens is None else [(token.kind, token.text) for token in tokens[:-1]]


DIFFERENCES = [
    # A statement that starts with a command is one long string to sqlglot. To us it may start with a column.
    ("show = 1", [("word", "show"), ("symbol", "="), ("number", "1")]),
    ("call < 'x'", [("word", "call"), ("symbol", "<"), ("string", "x")]),
    # Clauses of a statement are one word to sqlglot, in upper case. No predicate has them.
    ("group  by", [("word", "group"), ("word", "by")]),
    ("user-defined", [("word", "user"), ("symbol", "-"), ("word", "defined")]),
    # Hints are comments: there is no plan here to give a hint about.
    ("delete /*+ x */", [("word", "delete")]),
    ("a /*+ /* */ b */", [("word", "a")]),
    # Comments that touch: every opening counts, and no star belongs to an end and to an opening.
    ("a /*/* b */", None),
    ("a /*/* */ b */", [("word", "a")]),
    ("a /* /* */* */", [("word", "a")]),
    # A backslash before the end of a line lets a comment go on.
    ("a -- b \\\n c\n d", [("word", "a"), ("word", "d")]),
    # Templates of Jinja are no SQL.
    ("a {# b #}", [("word", "a"), ("symbol", "{"), ("symbol", "#"), ("word", "b"), ("symbol", "#"), ("symbol", "}")]),
    ("{%", [("symbol", "{"), ("symbol", "%")]),
    ("-}}", [("symbol", "-"), ("symbol", "}"), ("symbol", "}")]),
    # An exponent is a sign and digits. What comes behind is no part of the number.
    ("1e5-3", [("number", "1e5"), ("symbol", "-"), ("number", "3")]),
    ("1e5.3", [("number", "1e5"), ("symbol", "."), ("number", "3")]),
    ("1e.5", [("number", "1e"), ("symbol", "."), ("number", "5")]),
    # Parameters are not supported, so what follows one is nothing special.
    ("@1.5", [("symbol", "@"), ("number", "1.5")]),
    # Binary strings are not supported, whatever is in them; the parser says so with their place.
    ("x'no hex'", [("other", "no hex")]),
    # Two halves of a character are that character in Spark, however each of them is spelled.
    (r"'\uD83D\U0000DE00'", [("string", "\U0001f600")]),
]


@pytest.mark.parametrize(("text", "expected"), DIFFERENCES, ids=[text for text, _ in DIFFERENCES])
def test_differences_are_on_purpose(text, expected):
    assert brief(ours(text)) == expected
    try:
        raw = Spark().tokenize(text)
    except SqlglotError:
        assert expected is not None
    else:
        assert [token[:2] for token in join_quotes(text, raw)] != expected


def without_differences(text) -> str:
    """`text` with a space, or a letter behind a parameter's sign, where it would meet a difference listed above."""
    text = re.sub(r"\\(?=\n)", r"\g<0> ", text)
    text = re.sub(r"/\*(?=/\*|\+)", "/* ", text)
    text = re.sub(r"\*/(?=\*)", "*/ ", text)
    text = re.sub(r"\{(?=[#%{])|[%}](?=\})", r"\g<0> ", text)
    text = re.sub(r"[eE][+-]?[0-9]+(?=[.+-])|[eE](?=\.)", r"\g<0> ", text)
    return re.sub(r"[@$]", r"\g<0>a", text)


QUOTES = [
    "'",
    '"',
    "`",
    "''",
    '""',
    "``",
    "r'",
    'R"',
    "n'",
    'N"',
    "x'",
    "'x'",
    '"y"',
    "`z`",
    "X'1f'",
    "DATE '2026-01-01'",
]
ESCAPES = [*"\\%_abfnrtvzZux01789", "\\", "\\\\", "\\'", '\\"', "\\`", "\\%", "\\_", "\\0", "\\n", "\\Z", "\\\n", "\\é"]
ESCAPES += ["\\u0041", "\\u00e9", "\\u12", "\\uD83D", "\\uDE00", "\\u0000", "\\U0001F600", "\\U00110000", "\\U0000004"]
ESCAPES += ["\\U0000D83D\\U0000DE00", "\\101", "\\177", "\\200", "\\08", "\\12"]
NUMBERS = ["0", "1", "42", "007", "1.5", ".5", "5.", "1e3", "1E-3", "2e+", "3e", "10L", "1.5BD", "2D", "3f", "4s", "5Y"]
NUMBERS += ["1_000", "6x", "7.5abc", "0x1F", "0Xg", "0x", "0x_1", "0b1", "9e9e9", "8\u017f", "1²", "٣", "1é"]
WORDS = [
    "a",
    "b1",
    "größe",
    "列",
    "_",
    "AND",
    "not",
    "r",
    "n",
    "x",
    "R",
    "e",
    "E5",
    "\u017f",
    "·",
    "😀",
    "\ufeff",
    "\x01",
]
SYMBOLS = [*"()[]{}<>=!+-*/%&|^~?@#$:;,.\\", "<=", ">=", "<>", "!=", "==", "<=>", "||", "::", "&&", "->", "=>", "?::"]
COMMENTS = ["--", "-- x\n", "--\r", "/*", "*/", "/* x */", "/* /* y */ */", "/**/", "/***/", "/*'*/", "--'\n"]
SPACES = [" ", "  ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\xa0", "\u2003", "\u3000", "\u200b"]
FRAGMENTS = [QUOTES, ESCAPES, NUMBERS, WORDS, SYMBOLS, COMMENTS, SPACES]

fragments = st.one_of(*map(st.sampled_from, FRAGMENTS), st.text(st.characters(exclude_categories=["Cs"]), max_size=3))
strings = st.tuples(
    st.sampled_from(["", "", "r", "R", "n", "b"]),
    st.sampled_from("'\"`"),
    st.lists(st.sampled_from([*ESCAPES, "'", '"', "`", " ", "x"]), max_size=8),
).map(lambda parts: parts[0] + parts[1] + "".join(parts[2]) + parts[1])
texts = st.lists(st.one_of(fragments, fragments, strings), min_size=1, max_size=15).map("".join)


@pytest.mark.slow
@settings(max_examples=5_000)
@given(texts)
def test_words_are_those_of_sqlglot(text):
    text = without_differences(text).replace("\0", "")
    assume(text.strip())
    check_against_sqlglot(text)


@pytest.mark.parametrize(
    ("alphabet", "length"), [("'\"`\\rnu1 ", 4), ("/*-+'\na", 5), ("019.eExL_+-' ", 4), ("()<>=!-*/&|^~?#:;,.\\", 3)]
)
def test_short_texts_are_split_as_by_sqlglot(alphabet, length):
    for size in range(1, length + 1):
        for letters in itertools.product(alphabet, repeat=size):
            text = without_differences("".join(letters))
            if text.strip():
                check_against_sqlglot(text)


def test_every_character_is_a_letter_or_a_space_as_in_sqlglot():
    characters = [chr(code) for code in range(0x80, 0x3100)]
    check_against_sqlglot(" ".join(f"a{character}b 1{character} {character}" for character in characters))


@pytest.mark.parametrize(
    ("text", "what", "start"),
    [
        ("a = 'x", "quote", 4),
        ("a = 'x''", "quote", 4),
        ("a = 'x\\'", "quote", 4),
        ('a = "x\\', "quote", 4),
        ("a = r'x", "quote", 5),
        ("a = r'x''y", "quote", 8),
        ("a = n'x", "quote", 5),
        ("'a' = `b", "quote", 6),
        ("a\n = `b``", "quote", 5),
        ("a /* b", "comment", 2),
        ("a /* /* */", "comment", 2),
        ("a /*/", "comment", 2),
    ],
)
def test_what_is_left_open_is_shown(text, what, start):
    with pytest.raises(QueryError) as caught:
        tokenize(text)
    assert f"a {what} is left open, at {show_place(text, start)}" in str(caught.value)


HOSTILE = ["'", '"', "`", "\\", "'\\", "''\\", "r'", "/", "*", "/*", "*/", "/*/", "-", "--", "1", "0x", "1e", "1.", "."]
HOSTILE += ["1²", "1L", "a", "a.", " ", "'a'", "'\\u0041", "'\\uD83D", "`a``", "<", "<<-", "?:", "1e+", "x'", "\n", "é"]


@pytest.mark.one_case
@pytest.mark.parametrize("before", ["a ", "a '", "a `", "a /*", "a 0x", "a 1."])
@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_the_length_only(before, piece):
    text = before + piece * (100_000 // len(piece))
    times = []
    while not times or (times[-1] > 1 and len(times) < 3):  # a busy machine may slow one try down, not three
        start = time.thread_time()
        ours(text)
        times.append(time.thread_time() - start)
    assert min(times) < 1


FILTER = """
import sys
import pyarrow as pa
import indextables as it

table = it.Table.create(sys.argv[1], pa.schema([("day", pa.string()), ("n", pa.int64())]), partition_by=("day",))
assert table.files("day >= '2026-01-01' AND day NOT LIKE '2027%'").num_rows == 0
assert not [name for name in sys.modules if name.startswith("sqlglot")]
"""


def test_a_process_that_filters_does_without_sqlglot(tmp_path):
    command = [sys.executable, "-c", FILTER, str(tmp_path / "table")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
