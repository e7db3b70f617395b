"""Pages of the local store: what stands in directories, as the disk gives it."""

from __future__ import annotations

import shutil

import pytest

from indextables.store import parse_location
from indextables.store.local.store import LocalStore


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "t"
    place.mkdir()
    return place


@pytest.fixture
def store(place) -> LocalStore:
    return LocalStore(parse_location(str(place)))


def keys(store: LocalStore) -> list[str]:
    return sorted(meta.key for page in store.pages() for meta in page)


def test_they_are_short_and_hold_no_temporary_file(store, place):
    for number in range(2_100):
        path = place / f"d{number % 3}" / f"{number}.split"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (place / ".indextables-1.tmp").write_bytes(b"x")
    assert [len(page) for page in store.pages()] == [1000, 1000, 100]
    assert len(set(keys(store))) == 2_100


def test_they_follow_links_but_no_loop(store, place, tmp_path):
    store.put("a/x", b"1")
    (place / "a" / "loop").symlink_to(place)
    (place / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "y").write_bytes(b"2")
    (place / "b").symlink_to(tmp_path / "elsewhere")
    assert keys(store) == ["a/x", "b/y"]


def test_what_vanishes_meanwhile_is_passed_over(store, place):
    store.put("d/x", b"1")
    for number in range(1_500):
        (place / f"{number}").touch()
    pages = store.pages()
    assert len(next(pages)) == 1000
    shutil.rmtree(place)
    assert sum(len(page) for page in pages) <= 501
