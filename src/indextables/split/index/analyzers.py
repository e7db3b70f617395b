"""Make the engine's tokenizers by name, and register them with an index."""

from __future__ import annotations

import functools

import tantivy

from indextables.errors import SchemaError
from indextables.split.index.fields import FieldMap, IndexField, Kind
from indextables.split.index.literals import json_text
from indextables.split.index.tokenizers import gram_lengths, is_tokenizer, known_tokenizers, stemmed_language

_ANALYZED = frozenset({Kind.TEXT, Kind.STRING, Kind.JSON})


def make_analyzer(tokenizer: str, max_token_length: int) -> tantivy.TextAnalyzer:
    """Return a tokenizer's analyzer; it drops terms over `max_token_length` bytes."""
    if not is_tokenizer(tokenizer):
        raise SchemaError(
            f"cannot use the tokenizer `{tokenizer}` because there is no tokenizer of that name",
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
    """Return the registered name of a field's analyzer."""
    return f"it:{field.tokenizer}:{field.max_token_length}"


def register(index: tantivy.Index, fields: FieldMap) -> None:
    """Register the analyzers of an index's fields; fast fields keep their text whole."""
    for name, analyzer in _named_analyzers(fields):
        index.register_tokenizer(name, analyzer)
        index.register_fast_field_tokenizer(name, _whole_text())


def tokens(field: IndexField, text: str) -> list[str]:
    """Return the terms that the index holds for a text."""
    if field.kind not in _ANALYZED:
        raise ValueError(f"column `{field.column}` is indexed as `{field.kind}`, which has no words")
    analyzer = _analyzer(field.tokenizer, field.max_token_length)
    return list(analyzer.analyze(_analyzed_text(field, text)))


def placed_tokens(field: IndexField, text: str) -> list[tuple[int, str]]:
    """Return the terms with their positions; a dropped word leaves its position empty."""
    analyzer = _analyzer(field.tokenizer, field.max_token_length)
    return [(token.position, token.text) for token in analyzer.pre_tokenize(_analyzed_text(field, text)).tokens]


def _analyzed_text(field: IndexField, text: str) -> str:
    return json_text(text) if field.kind is Kind.JSON else text


_analyzer = functools.lru_cache(maxsize=64)(make_analyzer)


@functools.lru_cache(maxsize=64)
def _named_analyzers(fields: FieldMap) -> list[tuple[str, tantivy.TextAnalyzer]]:
    """Return the analyzers of an index's fields by their registered names."""
    named = {analyzer_name(field): field for field in fields.fields if field.kind in _ANALYZED}
    return [(name, _analyzer(field.tokenizer, field.max_token_length)) for name, field in named.items()]


@functools.cache
def _whole_text() -> tantivy.TextAnalyzer:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).build()


def _splitter(tokenizer: str) -> tantivy.Tokenizer:
    lengths = gram_lengths(tokenizer)
    if lengths is not None:
        return tantivy.Tokenizer.ngram(*lengths)
    if tokenizer == "raw":
        return tantivy.Tokenizer.raw()
    return tantivy.Tokenizer.whitespace() if tokenizer == "whitespace" else tantivy.Tokenizer.simple()
