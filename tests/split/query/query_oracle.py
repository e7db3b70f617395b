"""A small table in memory, an index of it, and a plain evaluator that says which rows a query has to find."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any

import tantivy

from indextables.split.query import compile_query, parse_query
from indextables.split.query import tree as t


@dataclasses.dataclass(frozen=True)
class TestField:
    __test__ = False

    column: str
    name: str
    kind: str
    type: str
    tokenizer: str = "raw"
    record: str = "basic"
    fast: bool = False


FIELDS = (
    TestField("message", "f0", "text", "string", "default", "position"),
    TestField("note", "f1", "text", "string", "whitespace", "position"),
    TestField("host", "f2", "string", "string"),
    TestField("status", "f3", "int", "int64"),
    TestField("seconds", "f4", "float", "double", fast=True),
    TestField("ok", "f5", "bool", "bool"),
    TestField("attrs", "f6", "json", "struct<...>", "default", "position", fast=True),
    TestField("odd name", "f7", "string", "string", fast=True),
    TestField("a.b", "f8", "uint", "uint64"),
    TestField("ip", "f9", "ip", "string"),
    TestField("raw", "f10", "bytes", "binary"),
    TestField("tags", "f11", "json", "list<item: string>", "default", "basic"),
    TestField("code", "f12", "text", "string", "ngram(2,3)", "position"),
)
_WORD = re.compile(r"[^\W_]+")
_LITERALS = {"int": int, "uint": int, "float": float, "string": str, "ip": str, "bytes": bytes.fromhex, "text": str}


class TestCatalog:
    __test__ = False
    fields = FIELDS

    def find(self, column: str) -> TestField | None:
        return next((field for field in FIELDS if field.column == column), None)

    @property
    def longest_name(self) -> int:
        return max(len(field.column.lower()) for field in self.fields)

    def nan_field(self, column: str) -> None:
        return None

    def parse_span(self, column: str, text: str) -> None:
        return None

    def text_fields(self) -> Sequence[TestField]:
        return [field for field in FIELDS if field.kind == "text"][:2]

    def tokens(self, column: str, text: str) -> list[str]:
        return _analyzer(self.find(column).tokenizer).analyze(text)

    def placed_tokens(self, column: str, text: str) -> list[tuple[int, str]]:
        found = _analyzer(self.find(column).tokenizer).pre_tokenize(text).tokens
        return [(token.position, token.text) for token in found]

    def parse_literal(self, column: str, text: str) -> Any:
        field = self.find(column)
        if field.kind != "bool":
            return _LITERALS[field.kind](text)
        if text not in {"true", "false"}:
            raise ValueError("expected `true` or `false`")
        return text == "true"


def _analyzer(tokenizer: str) -> tantivy.TextAnalyzer:
    if tokenizer == "raw":
        return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).build()
    if tokenizer == "whitespace":
        return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    splitter = tantivy.Tokenizer.simple() if tokenizer == "default" else tantivy.Tokenizer.ngram(2, 3)
    return tantivy.TextAnalyzerBuilder(splitter).filter(tantivy.Filter.lowercase()).build()


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    numbers = {
        "int": builder.add_integer_field,
        "uint": builder.add_unsigned_field,
        "float": builder.add_float_field,
        "bool": builder.add_boolean_field,
        "ip": builder.add_ip_addr_field,
        "bytes": builder.add_bytes_field,
    }
    for field in FIELDS:
        if field.kind in numbers:
            numbers[field.kind](field.name, indexed=True, fast=field.fast)
            continue
        add = builder.add_json_field if field.kind == "json" else builder.add_text_field
        add(field.name, fast=field.fast, tokenizer_name=f"it:{field.tokenizer}", index_option=field.record)
    builder.add_unsigned_field("_row", fast=True)
    return builder.build()


SCHEMA = _schema()
CATALOG = TestCatalog()


class Table:
    """Rows, and their index."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self.rows = list(rows)
        index = tantivy.Index(SCHEMA)
        for field in FIELDS:
            index.register_tokenizer(f"it:{field.tokenizer}", _analyzer(field.tokenizer))
            index.register_fast_field_tokenizer(f"it:{field.tokenizer}", _analyzer("raw"))
        writer = index.writer(15_000_000, 1)
        for number, row in enumerate(rows):
            writer.add_document(_document(number, row))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._searcher = index.searcher()

    def search(self, text: str) -> list[int]:
        return self.run(parse_query(text), text)

    def run(self, tree: t.Node, text: str = "") -> list[int]:
        return sorted(self.scores(tree, text))

    def scores(self, tree: t.Node, text: str = "") -> dict[int, float]:
        query = compile_query(tree, CATALOG, SCHEMA, text=text)
        hits = self._searcher.search(query, max(1, len(self.rows))).hits
        places = [place for _, place in hits]
        rows = self._searcher.fast_field_values("_row", places)
        return dict(zip(rows, [score for score, _ in hits], strict=True))

    def expected(self, tree: t.Node) -> list[int]:
        return [number for number, row in enumerate(self.rows) if evaluate(tree, row)]


def _document(number: int, row: dict[str, Any]) -> tantivy.Document:
    document = tantivy.Document()
    document.add_unsigned("_row", number)
    adders = {
        "int": document.add_integer,
        "uint": document.add_unsigned,
        "float": document.add_float,
        "bool": document.add_boolean,
        "ip": document.add_ip_addr,
        "bytes": document.add_bytes,
        "json": document.add_json,
    }
    for column, value in row.items():
        field = CATALOG.find(column)
        if value is not None:
            wrapped = {"$": value} if isinstance(value, list) else value
            adders.get(field.kind, document.add_text)(field.name, wrapped)
    return document


def words_of(field: TestField, value: str) -> list[str]:
    """The words of a value, made without the library."""
    if field.kind == "string":
        return [value]
    return value.split() if field.tokenizer == "whitespace" else [word.lower() for word in _WORD.findall(value)]


def evaluate(node: t.Node, row: dict[str, Any]) -> bool:
    """Whether a row fits."""
    match node:
        case t.All():
            return True
        case t.And(parts):
            return all(evaluate(part, row) for part in parts)
        case t.Or(parts):
            return any(evaluate(part, row) for part in parts)
        case t.Not(part):
            return not evaluate(part, row)
        case t.Boost(part, _):
            return evaluate(part, row)
        case t.Prefer(required, _):
            return evaluate(required, row)
    fields = CATALOG.text_fields() if node.path is None else [CATALOG.find(".".join(node.path))]
    return any(row.get(field.column) is not None and _fits(node, field, row[field.column]) for field in fields)


def _fits(leaf: t.Leaf, field: TestField, value: Any) -> bool:
    if isinstance(leaf, t.Exists):
        return field.kind != "text" or bool(words_of(field, value))
    if field.kind in {"text", "string"}:
        return _fits_words(leaf, field, words_of(field, value))
    return _fits_value(leaf, field, value)


def _fits_value(leaf: t.Leaf, field: TestField, value: Any) -> bool:
    match leaf:
        case t.Term(text) | t.Phrase(text):
            return value == CATALOG.parse_literal(field.column, text)
        case t.InSet(texts):
            return value in [CATALOG.parse_literal(field.column, text) for text in texts]
        case t.Range(low, high):
            low, high = (None if end is None else CATALOG.parse_literal(field.column, end) for end in (low, high))
            return _between(value, low, high, leaf)
    raise AssertionError(leaf)


def _between(value: Any, low: Any, high: Any, leaf: t.Range) -> bool:
    above = low is None or value > low or (leaf.includes_low and value == low)
    below = high is None or value < high or (leaf.includes_high and value == high)
    return above and below


def _fits_words(leaf: t.Leaf, field: TestField, words: list[str]) -> bool:
    def plain(text):
        return text.lower() if field.tokenizer == "default" else text

    match leaf:
        case t.Term(text):
            return _has_phrase(words, words_of(field, text), 0)
        case t.Phrase(text, slop):
            return _has_phrase(words, words_of(field, text), slop)
        case t.InSet(texts):
            return any(_has_phrase(words, words_of(field, text), 0) for text in texts)
        case t.Prefix(text):
            return any(word.startswith(plain(text)) for word in words)
        case t.Wildcard(pieces):
            parts = [re.escape(plain(one)) if isinstance(one, str) else "." if one == t.ONE else ".*" for one in pieces]
            return any(re.fullmatch("".join(parts), word, re.DOTALL) for word in words)
        case t.Regex(pattern):
            return any(re.fullmatch(pattern, word) for word in words)
        case t.Fuzzy(text, distance):
            return any(edits(word, wanted) <= distance for wanted in words_of(field, text) for word in words)
        case t.Range(low, high):
            low, high = (None if end is None else plain(end) for end in (low, high))
            return any(_between(word, low, high, leaf) for word in words)
    raise AssertionError(leaf)


def _has_phrase(words: list[str], wanted: list[str], slop: int) -> bool:
    if not wanted:
        return False
    if slop == 0:
        return any(words[start : start + len(wanted)] == wanted for start in range(len(words)))
    places = [[place - offset for place, word in enumerate(words) if word == one] for offset, one in enumerate(wanted)]
    if len(wanted) == 1:
        return bool(places[0])
    return all(
        any(abs(here - there) <= slop for here in left for there in right)
        for left, right in itertools.combinations(places, 2)
    )


def edits(left: str, right: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words."""
    rows = [list(range(len(right) + 1))]
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]
