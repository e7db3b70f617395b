"""Term filters: no term that was added is denied, and few others are let through."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.split.index import term_filter
from indextables.split.index.term_filter import FINE, ROUGH, TermFilter, TermFilterBuilder

_TEXT = st.text(st.characters(), max_size=12)


def filter_of(terms: dict[str, list[str]]) -> TermFilter:
    builder = TermFilterBuilder()
    for field, some in terms.items():
        builder.add_terms(field, some)
    found = TermFilter.from_bytes(builder.to_bytes())
    assert found is not None
    return found


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.lists(_TEXT, max_size=40), max_size=4))
def test_no_term_is_denied(terms) -> None:
    found = filter_of(terms)
    for field, some in terms.items():
        assert found.covers(field)
        assert all(found.may_contain(field, term) for term in some)


@pytest.mark.parametrize("pattern", ["{}", "term-{}", "{:08x}", "/api/items/{}", "{:040d}"])
def test_about_one_in_a_hundred_others_is_let_through(pattern) -> None:
    found = filter_of({"f0": [pattern.format(number) for number in range(20_000)]})
    others = sum(found.may_contain("f0", pattern.format(number)) for number in range(20_000, 60_000))
    assert 0.004 < others / 40_000 < 0.015


def test_a_filter_takes_ten_bits_a_term() -> None:
    builder = TermFilterBuilder()
    terms = [str(number) for number in range(10_000)]
    builder.add_terms("f0", terms)
    once = builder.to_bytes()
    builder.add_terms("f0", pa.array([*terms, None]))
    builder.add_terms("f0", pa.chunked_array([terms[:5], terms[5:]], pa.large_string()))
    assert builder.to_bytes() == once
    assert 12_500 <= len(once) < 12_600


def test_the_same_term_in_another_field_is_another() -> None:
    found = filter_of({"a": [str(number) for number in range(1_000)], "b": []})
    assert sum(found.may_contain("b", str(number)) for number in range(1_000)) < 40


def test_of_other_fields_nothing_is_known() -> None:
    found = filter_of({"a": ["x"], "b": []})
    assert found.covers("b")
    assert not found.may_contain("b", "x")
    assert not found.covers("c")
    assert found.may_contain("c", "x")


def test_damage_is_refused_and_newer_versions_are_passed_over() -> None:
    builder = TermFilterBuilder()
    builder.add_terms("a", ["x"])
    data = builder.to_bytes()
    for length in range(len(data)):
        with pytest.raises(ValueError, match="term filter"):
            TermFilter.from_bytes(data[:length])
    with pytest.raises(ValueError, match="other bytes"):
        TermFilter.from_bytes(b"x" + data[1:])
    assert TermFilter.from_bytes(data[:3] + b"\2" + data[4:]) is None


def test_an_empty_filter_denies_everything_it_covers() -> None:
    found = filter_of({"a": []})
    assert not found.may_contain("a", "")


def test_a_full_filter_lets_everything_through(monkeypatch) -> None:
    monkeypatch.setattr("indextables.split.index.term_filter._MOST_BITS", 64)
    found = filter_of({"a": [str(number) for number in range(1_000)]})
    assert found.may_contain("a", "anything")


def test_filters_of_one_pass_equal_single_ones_in_any_memory(monkeypatch) -> None:
    builder = TermFilterBuilder()
    builder.add_terms("f0", [str(number) for number in range(3_000)])
    both = builder.filters((ROUGH, FINE), salt=7)
    for places in (1, 3_000 * 3, 1 << 30):
        monkeypatch.setattr(term_filter, "_PLACES_AT_ONCE", places)
        assert both == [builder.to_bytes(ROUGH, salt=7), builder.to_bytes(FINE, salt=7)]
    rough = TermFilter.from_bytes(both[0])
    assert all(rough.may_contain("f0", str(number)) for number in range(3_000))


@given(st.lists(_TEXT, max_size=60), st.integers(0, 2**32 - 1))
def test_few_terms_make_the_same_filter_as_many(terms, salt) -> None:
    builder = TermFilterBuilder()
    builder.add_terms("f0", terms)
    made = builder.filters((ROUGH, FINE), salt=salt)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(term_filter, "_FEW_TERMS", -1)
        assert builder.filters((ROUGH, FINE), salt=salt) == made
