"""One flipped bit anywhere in a log, a split or a cache: the right answer or an error, never a wrong answer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.flips import counting
from tests.flips.tables import KINDS

from indextables.split.index import index_cache
from indextables.split.partial.sparse_cache import SparseEntry

_INDEX = ("index tails", "index piece table")
_ALWAYS_NOTICED = ("rows", "seal", "page table", "term filter", "page indexes", "footer", "trailer", *_INDEX)


@pytest.fixture
def most(request) -> int:
    """How many bits are flipped in every region of every file."""
    return 16 if request.config.getoption("--all") else 3


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_flips_in_a_log(tmp_path, kind, truncated, most) -> None:
    report = counting.flip_log(tmp_path, kind, most=most, truncated=truncated)
    assert report.wrong == []
    assert report.refused["version"] > 0
    if truncated:
        assert sum(report.refused.values()) > sum(report.right.values()) / 4


def test_flips_in_a_split(tmp_path, most) -> None:
    report = counting.flip_split(tmp_path, most=most)
    assert report.wrong == []
    assert all(report.refused[f"split {name}"] for name in _ALWAYS_NOTICED)


def test_flips_in_a_filter_sheet_change_no_answer(tmp_path, most) -> None:
    report = counting.flip_sheet(tmp_path, most=8 * most)
    assert report.wrong == []
    assert report.refused.total() == 0
    assert set(report.right) == {"filter sheet header", "filter sheet windows"}


def test_flips_in_the_cache(tmp_path, most) -> None:
    report = counting.flip_cache(tmp_path, most=most)
    assert report.wrong == []
    assert report.refused.total() == 0
    made_again = {"index record", "index file term", "decoded manifest", "row copy", "note of a row copy"}
    assert made_again <= set(report.right)


def test_flips_in_a_split_that_is_fetched_in_parts(tmp_path, most) -> None:
    with counting.in_parts():
        report = counting.flip_split(tmp_path, most=4 * most, only="split index")
    assert report.wrong == []
    assert all(report.refused[f"split {name}"] for name in _INDEX)
    assert report.refused["split index pieces"] > 0
    assert report.right["split index pieces"] > 0  # no search needs that piece


def test_flips_in_partly_fetched_indexes(tmp_path, most) -> None:
    with counting.in_parts():
        report = counting.flip_parts(tmp_path, most=2 * most)
    assert report.wrong == []
    assert report.refused.total() == 0
    assert report.mended["index record"] > 0
    assert sum(report.mended[f"index file {kind}"] for kind in ("term", "idx", "pos")) > 0


def test_fsck_finds_every_flip(tmp_path, most) -> None:
    report = counting.flip_under_fsck(tmp_path, most=most - 1)
    assert report.wrong == []
    assert {"split magic", "split rows", "split footer", "version", "state", "manifest", "filter sheet"} <= set(
        report.refused
    )


def test_wrong_answers_are_noticed(tmp_path, monkeypatch) -> None:
    """Without checksums there are wrong answers, and the count shows them."""
    monkeypatch.setattr(index_cache, "_checksum", lambda path: "")
    report = counting.flip_cache(tmp_path, most=3)
    assert [wrong for wrong in report.wrong if wrong.startswith(("search", "aggregate"))]


def test_wrong_answers_in_parts_are_noticed(tmp_path, monkeypatch) -> None:
    """Without a comparison of each piece there are wrong answers, and the count shows them."""

    def trust(entry: SparseEntry, pieces: Sequence[int]) -> None:
        for piece in pieces:
            entry._trusted[piece] = 1

    monkeypatch.setattr(SparseEntry, "_compare", trust)
    with counting.in_parts():
        report = counting.flip_parts(tmp_path, most=6)
    assert report.wrong
