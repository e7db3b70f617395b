"""Tokenizers as the engine knows them: made by name, registered with every index that is made or opened."""

from __future__ import annotations

import functools

import tantivy

from indextables.errors import SchemaError
from indextables.split.fields import FieldMap, IndexField, Kind
from indextables.split.literals import json_text
from indextables.split.tokenizers import gram_lengths, is_tokenizer, known_tokenizers, stemmed_language

_ANALYZED = frozenset({Kind.TEXT, Kind.STRING, Kind.JSON})


def make_analyzer(tokenizer: str, max_token_length: int) -> tantivy.TextAnalyzer:
    """The analyzer of a tokenizer; terms of more than `max_token_length` bytes are left out."""
    if not is_tokenizer(tokenizer):
        raise SchemaError(
            f"cannot use the tokenizer `{tokenizer}` because there is none of that name",
            hint=f"there are {known_tokenizers()}",
        )
    filters = [tantivy.Filter.remove_long(max_token_length + 1)]
    if tokenizer not in {"raw", "whitespace"}:
        filters.append(tantivy.Filter.lowercase())
    language = stemmed_language(tokenizer)
    if language is not None:
        filters.append(tantivy.Filter.stemmer(language))
    builder = tantivy.TextAnalyzerBuilder(_splitter(tokenizer))
    for filter_ in filters:
        builder = builder.filter(filter_)
    return builder.build()


def analyzer_name(field: IndexField) -> str:
    """The name under which a field's analyzer is registered."""
    return f"it:{field.tokenizer}:{field.max_token_length}"


def register(index: tantivy.Index, fields: FieldMap) -> None:
    """Make an index know the analyzers of its fields. Fast fields keep their text whole."""
    whole = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).build()
    for field in {analyzer_name(field): field for field in fields.fields if field.kind in _ANALYZED}.values():
        index.register_tokenizer(analyzer_name(field), make_analyzer(field.tokenizer, field.max_token_length))
        index.register_fast_field_tokenizer(analyzer_name(field), whole)


def tokens(field: IndexField, text: str) -> list[str]:
    """What the index holds of a text."""
    if field.kind not in _ANALYZED:
        raise ValueError(f"column `{field.column}` is indexed as `{field.kind}`, which has no words")
    analyzer = _analyzer(field.tokenizer, field.max_token_length)
    return list(analyzer.analyze(_analyzed_text(field, text)))


def placed_tokens(field: IndexField, text: str) -> list[tuple[int, str]]:
    """The same with the place of each; a word that is left out leaves its place empty."""
    analyzer = _analyzer(field.tokenizer, field.max_token_length)
    return [(token.position, token.text) for token in analyzer.pre_tokenize(_analyzed_text(field, text)).tokens]


def _analyzed_text(field: IndexField, text: str) -> str:
    return json_text(text) if field.kind is Kind.JSON else text


_analyzer = functools.lru_cache(maxsize=64)(make_analyzer)


def _splitter(tokenizer: str) -> tantivy.Tokenizer:
    lengths = gram_lengths(tokenizer)
    if lengths is not None:
        return tantivy.Tokenizer.ngram(*lengths)
    if tokenizer == "raw":
        return tantivy.Tokenizer.raw()
    return tantivy.Tokenizer.whitespace() if tokenizer == "whitespace" else tantivy.Tokenizer.simple()
