"""Hashes of terms: no term that was added is denied, very few others pass, and damage is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.split.index import term_hashes
from indextables.split.index.term_filter import FINE, TermFilter, TermFilterBuilder
from indextables.split.index.term_hashes import LOW_BITS, TermHashes, encode_hashes, hash_of, read_filter

_TEXT = st.text(st.characters(), max_size=12)


def encoded(terms: dict[str, list[str]]) -> bytes:
    builder = TermFilterBuilder()
    for field, some in terms.items():
        builder.add_terms(field, some)
    return encode_hashes(builder.distinct_crcs(), builder.fields)


def hashes_of(terms: dict[str, list[str]]) -> TermHashes:
    found = read_filter(encoded(terms))
    assert isinstance(found, TermHashes)
    return found


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.lists(_TEXT, max_size=40), max_size=4))
def test_no_term_is_denied(terms) -> None:
    found = hashes_of(terms)
    for field, some in terms.items():
        assert found.covers(field)
        assert all(found.may_contain(field, term) for term in some)


@given(st.lists(_TEXT, max_size=60))
def test_few_terms_are_encoded_as_many_are(terms) -> None:
    made = encoded({"f0": terms})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(term_hashes, "_FEW_TERMS", -1)
        assert encoded({"f0": terms}) == made


@given(st.lists(_TEXT, max_size=60, unique=True))
def test_the_values_are_the_hashes_of_the_terms(terms) -> None:
    found = hashes_of({"f0": terms})
    expected = {hash_of("f0", term, found.exponent + LOW_BITS) for term in terms}
    assert set(found.values().to_pylist()) == expected


@pytest.mark.parametrize("num_terms", [900, 5_000, 40_000])
def test_very_few_others_pass_and_a_term_takes_21_bits(num_terms) -> None:
    data = encoded({"f0": [f"term-{number}" for number in range(num_terms)]})
    found = read_filter(data)
    assert all(found.may_contain("f0", f"term-{number}") for number in range(0, num_terms, 7))
    assert sum(found.may_contain("f0", f"other-{number}") for number in range(50_000)) <= 4
    assert 8 * (len(data) - 60) <= 21.2 * num_terms


def test_of_other_fields_nothing_is_known() -> None:
    found = hashes_of({"a": ["x"], "b": []})
    assert not found.may_contain("b", "x")
    assert not found.covers("c")
    assert found.may_contain("c", "x")


def test_damage_is_refused() -> None:
    data = encoded({"a": ["x", "y"]})
    for length in range(len(data)):
        with pytest.raises(ValueError, match="term filter"):
            read_filter(data[:length])
    for length in (1, 0xFF):
        with pytest.raises(ValueError, match="term filter"):
            read_filter(data[:4] + bytes([length]) + data[5:])
    with pytest.raises(ValueError, match="number of terms"):
        read_filter(data[:-1] + b"\xff")


def test_filters_of_earlier_releases_are_read_and_ours_are_unknown_to_them() -> None:
    builder = TermFilterBuilder()
    builder.add_terms("a", ["x"])
    assert isinstance(read_filter(builder.to_bytes(FINE, salt=3)), TermFilter)
    assert TermFilter.from_bytes(encoded({"a": ["x"]})) is None
