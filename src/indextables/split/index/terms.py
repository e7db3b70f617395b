"""Collect the terms of a column for the term filter of a split.

A filter must never exclude a split that holds the term, so every term is collected; an extra one costs nothing. ASCII
texts are split with Arrow's kernels, all others by the engine's analyzer, since only the engine knows its letters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indextables.split.index.analyzers import tokens
from indextables.split.index.documents import indexed_texts
from indextables.split.index.fields import FieldMap, IndexField, Kind, is_text
from indextables.split.index.tokenizers import gram_lengths, stemmed_language

_LOWER_WORDS = bytes(ord(chr(byte).lower()) if chr(byte).isalnum() and byte < 128 else 32 for byte in range(256))
_WORDS = bytes(32 if byte in b"\t\n\x0c\r " else byte for byte in range(256))


def filtered_fields(fields: FieldMap, schema: pa.Schema) -> tuple[IndexField, ...]:
    """Return the fields for the filter: whole words of text columns.

    N-grams would be too many, and other types have terms in forms of their own.
    """
    return tuple(
        field
        for field in fields.fields
        if field.kind in (Kind.TEXT, Kind.STRING)
        and is_text(schema.field(field.column).type)
        and gram_lengths(field.tokenizer) is None
    )


def distinct_terms(column: pa.Array[Any], field: IndexField) -> Iterable[str] | pa.Array[Any]:
    """Return a superset of the terms of a column, without nulls."""
    texts = pc.unique(pc.cast(column, pa.string())).drop_null()
    if field.tokenizer == "raw":
        return indexed_texts(texts) if field.kind is Kind.STRING else texts
    is_plain = pc.string_is_ascii(texts)
    words = _plain_words(texts.filter(is_plain), field)
    is_stemmed = stemmed_language(field.tokenizer) is not None
    if not is_stemmed and pc.all(is_plain, min_count=0).as_py():
        return words
    odd = (term for text in texts.filter(pc.invert(is_plain)).to_pylist() for term in tokens(field, text))
    plain = words.to_pylist()
    return {*((term for word in plain for term in tokens(field, word)) if is_stemmed else plain), *odd}


def _plain_words(texts: pa.Array[Any], field: IndexField) -> pa.Array[Any]:
    table = _WORDS if field.tokenizer == "whitespace" else _LOWER_WORDS
    return pc.unique(pc.list_flatten(pc.split_pattern(_translated(texts, table), " ")))


def _translated(texts: pa.Array[Any], table: bytes) -> pa.Array[Any]:
    """Replace every byte of ASCII texts at once; much faster than a regex."""
    validity, offsets, data = texts.buffers()
    replaced = pa.py_buffer(data.to_pybytes().translate(table) if data is not None else b"")
    return pa.Array.from_buffers(pa.string(), len(texts), [validity, offsets, replaced], offset=texts.offset)
