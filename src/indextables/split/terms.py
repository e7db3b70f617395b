"""The terms that a column of rows brings into an index, for the term filter of a split.

A filter must never rule out a split that holds the term, so every term is here; one too many costs nothing. Texts of
plain ASCII are split with Arrow's kernels, all others by the engine's own analyzer, which alone knows what is a letter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.split.analyzers import tokens
from indextables.split.fields import FieldMap, IndexField, Kind, is_text
from indextables.split.tokenizers import gram_lengths, stemmed_language

_NOT_ALPHANUMERIC = "[^0-9A-Za-z]+"
_WHITE_SPACE = "[\t\n\x0c\r ]+"


def filtered_fields(fields: FieldMap, schema: pa.Schema) -> tuple[IndexField, ...]:
    """The fields whose terms a filter can hold: whole words of columns of text. All pieces of all texts would be too
    many, and other types have terms of their own making."""
    return tuple(
        field
        for field in fields.fields
        if field.kind in (Kind.TEXT, Kind.STRING)
        and is_text(schema.field(field.column).type)
        and gram_lengths(field.tokenizer) is None
    )


def distinct_terms(column: pa.Array[Any], field: IndexField) -> Iterable[str] | pa.Array[Any]:
    """The terms of a column, at least each of them, without nulls."""
    texts = pc.unique(pc.cast(column, pa.string())).drop_null()
    if field.tokenizer == "raw":
        return texts
    is_plain = pc.string_is_ascii(texts)
    odd = (term for text in texts.filter(pc.invert(is_plain)).to_pylist() for term in tokens(field, text))
    return {*_plain_terms(texts.filter(is_plain), field), *odd}


def _plain_terms(texts: pa.Array[Any], field: IndexField) -> Iterable[str]:
    pattern = _WHITE_SPACE if field.tokenizer == "whitespace" else _NOT_ALPHANUMERIC
    words = pc.unique(pc.list_flatten(pc.split_pattern_regex(texts, pattern)))
    if field.tokenizer == "whitespace":
        return list(words.to_pylist())
    lowered: list[str] = pc.unique(pc.ascii_lower(words)).to_pylist()
    if stemmed_language(field.tokenizer) is None:
        return lowered
    return [term for word in lowered for term in tokens(field, word)]
