"""Log rows: the same every time, of a table's schema, with words in as many of them as is said."""

from __future__ import annotations

import re

import pyarrow.compute as pc
import pytest
from bench.log_rows import SCHEMA, TEXT_COLUMN, log_rows, only_here, searches

_NUM_ROWS = 5_000


@pytest.fixture(scope="module")
def rows():
    return log_rows(_NUM_ROWS)


def _words(message):
    return re.findall(r"[0-9a-z]+", message.lower())


def _holds(words, phrase):
    wanted = phrase.split()
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


def test_rows_are_the_same_every_time(rows):
    assert rows.schema == SCHEMA
    assert log_rows(_NUM_ROWS).equals(rows)


@pytest.mark.parametrize("search", [*searches(_NUM_ROWS), only_here()], ids=lambda search: search.name)
def test_words_and_substrings_are_in_as_many_rows_as_is_said(rows, search):
    messages = rows[TEXT_COLUMN].to_pylist()
    by_words = [
        all(_holds(words, phrase) for phrase in search.required)
        and not any(_holds(words, phrase) for phrase in search.excluded)
        for words in map(_words, messages)
    ]
    by_substrings = [
        all(phrase in message for phrase in search.required)
        and not any(phrase in message for phrase in search.excluded)
        for message in messages
    ]
    assert sum(by_words) == search.num_hits
    assert by_substrings == by_words


def test_excluded_words_and_words_of_a_phrase_also_stand_alone(rows):
    messages = rows[TEXT_COLUMN].to_pylist()
    *_, phrase, boolean = searches(_NUM_ROWS)
    for word in phrase.required[0].split():
        assert sum(word in message for message in messages) > phrase.num_hits
    for word in boolean.required + boolean.excluded:
        assert sum(word in message for message in messages) > boolean.num_hits


def test_rows_ascend_in_time_and_trace_ids_are_unique(rows):
    moments = rows["ts"].cast("int64").to_pylist()
    assert moments == sorted(moments)
    assert pc.count_distinct(rows["trace_id"]).as_py() == _NUM_ROWS
