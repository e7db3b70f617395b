"""What tokenizers make of a text."""

from __future__ import annotations

import pytest

from indextables.errors import SchemaError
from indextables.split.index.analyzers import make_analyzer, tokens
from indextables.split.index.fields import IndexField, Kind
from indextables.split.index.tokenizers import STEMMERS


def text_field(tokenizer: str, length: int = 255, kind: Kind = Kind.TEXT) -> IndexField:
    return IndexField(column="c", name="f0", kind=kind, type="string", tokenizer=tokenizer, max_token_length=length)


@pytest.mark.parametrize(
    ("tokenizer", "text", "words"),
    [
        ("default", "Hello, big-World 42!", ["hello", "big", "world", "42"]),
        ("default", "Ärger über Öl", ["ärger", "über", "öl"]),
        ("raw", "Hello, World", ["Hello, World"]),
        ("raw", "", [""]),
        ("whitespace", "Hello, big-World\t42!", ["Hello,", "big-World", "42!"]),
        ("en_stem", "Running runners ran", ["run", "runner", "ran"]),
        ("de_stem", "Häuser laufen", ["haus", "lauf"]),
        ("fr_stem", "chevaux rapides", ["cheval", "rapid"]),
        ("ngram", "AbC", ["ab", "abc", "bc"]),
        ("ngram(1,2)", "añ", ["a", "añ", "ñ"]),
        ("default", "", []),
    ],
)
def test_words(tokenizer, text, words):
    assert tokens(text_field(tokenizer), text) == words


@pytest.mark.parametrize("code", STEMMERS)
def test_every_stemmer_is_there(code):
    assert make_analyzer(f"{code}_stem", 255).analyze("a b") is not None


@pytest.mark.parametrize("tokenizer", ["default", "whitespace", "en_stem", "raw"])
def test_long_words_are_left_out_by_their_bytes(tokenizer):
    assert tokens(text_field(tokenizer, 10), "x" * 10) == ["x" * 10]
    assert tokens(text_field(tokenizer, 10), "x" * 11) == []
    assert tokens(text_field(tokenizer, 10), "é" * 6) == []
    assert len(tokens(text_field(tokenizer), "y" * 200)) == 1


def test_an_unknown_tokenizer_is_refused():
    with pytest.raises(SchemaError, match="cannot use the tokenizer `nope`"):
        make_analyzer("nope", 255)


def test_numbers_have_no_words():
    with pytest.raises(ValueError, match="has no words"):
        tokens(text_field("raw", kind=Kind.INT), "1")


def test_time_stamps_in_json_are_words():
    assert tokens(text_field("default", kind=Kind.JSON), "2024-01-31T12:30:00Z") == ["2024", "01", "31t12", "30", "00z"]
