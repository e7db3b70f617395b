"""The store of the simulator against the product's own store in memory: the same calls, the same answers."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulator.memory import DictStore

from indextables.config import Config
from indextables.errors import StorageError
from indextables.store import open_store

_KEYS = st.sampled_from(["a", "b", "log/1", "log/2", "logs/1", "log/deep/1"])
_DATA = st.binary(max_size=5)
_CALLS = st.one_of(
    st.tuples(st.sampled_from(["put_if_absent", "put"]), _KEYS, _DATA),
    st.tuples(st.sampled_from(["get", "head", "delete"]), _KEYS),
    st.tuples(st.just("get_range"), _KEYS, st.integers(0, 3), st.integers(3, 6)),
    st.tuples(st.sampled_from(["list", "pages"]), st.sampled_from(["", "log", "nothing"])),
)
_places = itertools.count()


def answer(store, verb: str, *arguments) -> object:
    """What a call gives, without what each store decides by itself: e-tags and times."""
    try:
        found = getattr(store, verb)(*arguments)
    except StorageError as error:
        return type(error)
    if verb == "head":
        return found[:2]
    if verb == "list":
        return [meta[:2] for meta in found]
    if verb == "pages":
        return sorted(meta[:2] for page in found for meta in page)
    return found


@settings(max_examples=100, deadline=None)
@given(st.lists(_CALLS, max_size=25))
def test_a_dict_is_a_store(calls) -> None:
    mine = DictStore("memory://dict/table")
    real = open_store(f"memory://simulator-{next(_places)}/table", Config.resolve())
    for call in calls:
        assert answer(mine, *call) == answer(real, *call), call


def test_e_tags_are_those_of_the_content() -> None:
    store = DictStore("memory://dict/table")
    tags = []
    for content in (b"1", b"2", b"1"):
        store.put("a", content)
        tags.append(store.head("a").e_tag)
    assert tags[0] == tags[2] != tags[1]
