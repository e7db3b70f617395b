"""Compile leaves on text: split into words by a tokenizer, or one whole value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import tantivy

from indextables.split.query import patterns
from indextables.split.query.catalog import STRING, Catalog, Field, Literal
from indextables.split.query.tree import (
    Exists,
    Fuzzy,
    InSet,
    Leaf,
    Phrase,
    Piece,
    Prefix,
    Range,
    Regex,
    Term,
    Wildcard,
)
from indextables.split.query.values import (
    LOOK_AT_ROWS,
    Unsupported,
    all_of,
    any_of,
    check_length,
    literal,
    refuse,
    regex_query,
)

# Words in upper case, long enough for n-grams, that are in no list of stop words.
_PROBE = "QXQXQXQXQXQX"
_MAX_NEAR = 16
# The library takes seconds to prepare longer ones.
_MAX_FUZZY = 1_000
_MAX_BOUND = 500


class TextLeaves:
    def __init__(self, catalog: Catalog, schema: tantivy.Schema, field: Field) -> None:
        self._catalog = catalog
        self._schema = schema
        self._field = field

    def compile(self, leaf: Leaf) -> tantivy.Query:
        if isinstance(leaf, Term):
            return self._words(leaf.text, leaf)
        if isinstance(leaf, Phrase):
            return self._words(leaf.text, leaf, leaf.slop)
        if isinstance(leaf, InSet):
            return self._set(leaf)
        if isinstance(leaf, Exists):
            return self._exists()
        if isinstance(leaf, Range):
            return self._range(leaf)
        if self._field.type.startswith("decimal"):
            refuse(leaf, self._field)
        if isinstance(leaf, Fuzzy):
            return fuzzy(leaf, self._field.name, self._field, self._catalog, self._schema)
        return regex_query(self._schema, self._field.name, pattern_of(leaf, self._normal))

    def _normal(self, text: str) -> str:
        return normal(self._catalog, self._field, text)

    def _words(self, text: str, leaf: Leaf, slop: int = 0) -> tantivy.Query:
        if self._field.kind != STRING:
            if leaf.path is not None:
                check_word(text, self._field, self._catalog)
            return words(text, slop, self._field.name, self._field, self._catalog, self._schema)
        if slop:
            refuse(leaf, self._field, "the column is not split into words")
        value = self._whole(text)
        if value is None:
            return tantivy.Query.empty_query()
        return tantivy.Query.term_query(self._schema, self._field.name, value, "basic")

    def _set(self, leaf: InSet) -> tantivy.Query:
        if self._field.kind != STRING:
            return any_of(self._words(text, leaf) for text in leaf.texts)
        values = [self._whole(text) for text in leaf.texts]
        kept = [value for value in values if value is not None]
        return tantivy.Query.term_set_query(self._schema, self._field.name, kept)

    def _whole(self, text: str) -> Literal:
        value = literal(self._catalog, self._field, text)
        if isinstance(value, str):
            check_length(value.encode(), self._field)
        return value

    def _exists(self) -> tantivy.Query:
        if self._field.fast:
            return tantivy.Query.exists_query(self._field.name)
        return regex_query(self._schema, self._field.name, patterns.EVERYTHING)

    def _range(self, leaf: Range) -> tantivy.Query:
        low, high = self._bound(leaf.low), self._bound(leaf.high)
        if low is None and high is None:
            return self._exists()
        if max(len((low or "").encode()), len((high or "").encode())) > _MAX_BOUND:
            raise Unsupported(f"a bound of text has at most {_MAX_BOUND} bytes")
        found = patterns.between(low, high, includes_low=leaf.includes_low, includes_high=leaf.includes_high)
        return any_of(regex_query(self._schema, self._field.name, pattern) for pattern in found)

    def _bound(self, text: str | None) -> str | None:
        if text is None or self._field.kind != STRING:
            return None if text is None else self._normal(text)
        return str(literal(self._catalog, self._field, text))


def check_word(text: str, field: Field, catalog: Catalog) -> None:
    """Refuse a single word that is too long for the index, but may exist in the rows."""
    if field.tokenizer == "raw" and text and not catalog.tokens(field.column, text):
        raise Unsupported(f"the index of `{field.column}` holds no value of that length", LOOK_AT_ROWS)


def words(text: str, slop: int, name: str, field: Field, catalog: Catalog, schema: tantivy.Schema) -> tantivy.Query:
    """Return a query for the words of a text: one as a term, several as a phrase."""
    tokens = catalog.tokens(field.column, text)
    if not tokens:
        return tantivy.Query.empty_query()
    if field.tokenizer.startswith("ngram"):
        # All n-grams of a text have one position, so a phrase of them equals their conjunction.
        return all_of(tantivy.Query.term_query(schema, name, token, "freq") for token in dict.fromkeys(tokens))
    if len(tokens) == 1:
        return tantivy.Query.term_query(schema, name, tokens[0], "freq")
    if field.record != "position":
        raise Unsupported(
            f"`{text[:60]}` is several words, and the index of `{field.column}` keeps no positions",
            "search for each word, or set `indexing.text.indexRecordOption` to `position`",
        )
    placed = catalog.placed_tokens(field.column, text)
    return _near(placed, slop, name, schema) if slop else _phrase(placed, 0, name, schema)


def _phrase(placed: Sequence[tuple[int, str]], slop: int, name: str, schema: tantivy.Schema) -> tantivy.Query:
    first = placed[0][0]
    return tantivy.Query.phrase_query(schema, name, [(place - first, token) for place, token in placed], slop)


def _near(placed: list[tuple[int, str]], slop: int, name: str, schema: tantivy.Schema) -> tantivy.Query:
    """Require every two words to be as near as in the phrase.

    The library's result for three words at once has no clear meaning.
    """
    if len(placed) > _MAX_NEAR:
        raise Unsupported(f"a phrase with slop has at most {_MAX_NEAR} words, and this has {len(placed):,}")
    return all_of(_phrase(pair, slop, name, schema) for pair in itertools.combinations(placed, 2))


def fuzzy(leaf: Fuzzy, name: str, field: Field, catalog: Catalog, schema: tantivy.Schema) -> tantivy.Query:
    """Return a query for words close to the text."""
    tokens = [leaf.text] if field.kind == STRING else catalog.tokens(field.column, leaf.text)
    if not tokens:
        return tantivy.Query.empty_query()
    if len(tokens) > 1:
        shown = ", ".join(f"`{token}`" for token in tokens[:5])
        raise Unsupported(f"a fuzzy search is for one word, and `{field.column}` splits it into {shown}")
    if len(tokens[0]) > _MAX_FUZZY:
        raise Unsupported(f"a fuzzy search takes at most {_MAX_FUZZY:,} characters, and this has {len(tokens[0]):,}")
    return tantivy.Query.fuzzy_term_query(schema, name, tokens[0], leaf.distance, leaf.transposition)


def pattern_of(leaf: Leaf, normal: Callable[[str], str]) -> str:
    """Return a prefix, a wildcard or a regular expression as a pattern over words."""
    if isinstance(leaf, Prefix):
        return patterns.escape(normal(leaf.text)) + patterns.EVERYTHING
    if isinstance(leaf, Wildcard):
        pieces: list[Piece] = [normal(piece) if isinstance(piece, str) else piece for piece in leaf.pieces]
        return patterns.wildcard(pieces)
    if isinstance(leaf, Regex):
        return leaf.pattern
    raise TypeError(f"a `{type(leaf).__name__}` has no pattern")


def normal(catalog: Catalog, field: Field, text: str) -> str:
    """Return part of a word in index form: in lower case if the tokenizer does so."""
    if field.kind == STRING:
        return text
    probe = catalog.tokens(field.column, _PROBE)
    is_lower = bool(probe) and all(token == token.lower() for token in probe)
    # Character by character, as Tantivy does it: no Greek final sigma.
    return "".join(character.lower() for character in text) if is_lower else text
