"""One contract, run over every store."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import tempfile
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opened import memory_store, open_at
from store_workers import race_content, race_to_create
from tests.doubles.metered_store import MeteredStore
from tests.servers import KINDS

from indextables.errors import ObjectExistsError, ObjectNotFoundError, StorageError
from indextables.store import ObjectStore, parse_location
from indextables.store.local.disk import Disk
from indextables.store.local.store import LocalStore

# Every store is rooted at a prefix that an overzealous client would decode or encode.
ROOT = "day=2026%3A01 x#é"
NAMES = ["local", "memory", "metered", *KINDS]
ODD_KEYS = [
    "plain",
    "day=2026-01-01/part-0.split",
    "day=2026%3A01%3A01 00%253A/x",
    "with space/and  two",
    "%",
    "%2",
    "%20",
    "100%/50%25",
    "a#1",
    "#",
    "a:b",
    "a+b&c=d",
    "a?b=c",
    "quote'\"`",
    "brackets[0]{1}(2)<3>",
    "tilde~and^caret|pipe*star",
    "comma,semi;at@dollar$!",
    "_hidden/.dot",
    "...",
    "__HIVE_DEFAULT_PARTITION__/-",
    "ünïcödé/日本語/😀",
    "combining-e\u0301",
    "n" * 200,
]


@pytest.fixture(params=NAMES)
def kind(request) -> str:
    return request.param


@pytest.fixture
def store(kind, request, tmp_path) -> ObjectStore:
    if kind == "local":
        return open_at(str(tmp_path / ROOT))
    if kind == "memory":
        return memory_store()
    if kind == "metered":
        return MeteredStore(memory_store())
    server = request.getfixturevalue("servers")(kind)
    return open_at(f"{server.url}/{uuid.uuid4()}/{ROOT}", **server.options)


def keys(store: ObjectStore, prefix: str = "", after: str = "") -> list[str]:
    return [meta.key for meta in store.list(prefix, after=after)]


# Putting and getting


def test_store_put_if_absent_creates_once(store):
    store.put_if_absent("log/0", b"first")
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("log/0", b"second")
    assert store.get("log/0") == b"first"


def test_store_put_if_absent_after_a_delete_creates_anew(store):
    store.put_if_absent("k", b"first")
    store.delete("k")
    store.put_if_absent("k", b"second")
    assert store.get("k") == b"second"


def test_store_put_creates_and_replaces(store):
    store.put("k", b"a longer first content")
    first = store.head("k")
    store.put("k", b"second")
    assert store.get("k") == b"second"
    assert store.head("k").size == 6
    assert store.head("k").e_tag != first.e_tag
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("k", b"third")


def test_store_put_if_absent_of_a_large_object_creates_once(store):
    first, second = os.urandom(1 << 20) * 5, os.urandom(1 << 20) * 6
    store.put_if_absent("k", first)
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("k", second)
    assert store.get("k") == first


def test_store_empty_objects_are_objects(store):
    store.put_if_absent("created", b"")
    store.put("put", b"")
    assert store.get("created") == b""
    assert store.get("put") == b""
    assert store.head("put").size == 0
    assert keys(store) == ["created", "put"]
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("created", b"x")


def test_store_get_of_a_missing_key(store):
    store.put("other", b"x")
    for missing in ("k", "other2", "d/k"):
        with pytest.raises(ObjectNotFoundError):
            store.get(missing)
        with pytest.raises(ObjectNotFoundError):
            store.head(missing)
        with pytest.raises(ObjectNotFoundError):
            store.get_range(missing, 0, 1)


def test_store_a_directory_is_no_object(store):
    store.put("d/k", b"x")
    with pytest.raises(ObjectNotFoundError):
        store.get("d")
    with pytest.raises(ObjectNotFoundError):
        store.head("d")
    store.delete("d")
    store.delete("d/k/x")
    store.delete_many(["d", "d/k/x"])
    assert store.get("d/k") == b"x"


def test_store_put_file_of_several_parts(store, tmp_path):
    content = os.urandom(1 << 20) * 20
    source = tmp_path / "big file"
    source.write_bytes(content)
    store.put_file("splits/big", str(source))
    assert store.head("splits/big").size == len(content)
    assert store.get("splits/big") == content
    assert store.get_range("splits/big", (15 << 20) - 3, (15 << 20) + 3) == content[-3:] + content[:3]


def test_store_put_file_replaces_and_takes_empty_files(store, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"")
    store.put("k", b"before")
    store.put_file("k", str(source))
    assert store.get("k") == b""


def test_store_put_file_of_no_file(store, tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(StorageError, match="no such file") as caught:
            store.put_file("k", str(path))
        assert type(caught.value) is StorageError
    assert keys(store) == []


def test_store_put_of_many_megabytes(store):
    content = os.urandom(1 << 20) * 12
    store.put("big", content)
    assert store.get("big") == content


# Ranges


def test_store_ranges(store):
    store.put("k", bytes(range(200)))
    assert store.get_range("k", 0, 200) == bytes(range(200))
    assert store.get_range("k", 199, 200) == b"\xc7"
    assert store.get_ranges("k", []) == []
    wanted = [(150, 160), (0, 1), (5, 5), (0, 200), (150, 155), (200, 200)]
    assert store.get_ranges("k", wanted) == [bytes(range(start, end)) for start, end in wanted]


def test_store_distant_ranges_of_a_large_object(store):
    content = os.urandom(5 << 20)
    store.put("k", content)
    wanted = [(4 << 20, (4 << 20) + 10), (0, 10), (2 << 20, (2 << 20) + 100_000)]
    assert store.get_ranges("k", wanted) == [content[start:end] for start, end in wanted]


@pytest.mark.parametrize("wanted", [(5, 11), (10, 11), (11, 12), (0, 1 << 40)])
def test_store_ranges_beyond_the_end(store, wanted):
    store.put("k", b"0123456789")
    with pytest.raises(StorageError):
        store.get_range("k", *wanted)
    with pytest.raises(StorageError):
        store.get_ranges("k", [(0, 1), wanted])


@pytest.mark.parametrize("wanted", [(-1, 5), (5, 4), (-5, -1), (0, 1 << 70)])
def test_store_ranges_that_are_none(store, wanted):
    store.put("k", b"0123456789")
    with pytest.raises(StorageError, match="not a valid range"):
        store.get_range("k", *wanted)


def test_store_empty_ranges_ask_nothing(store):
    assert store.get_range("missing", 3, 3) == b""
    assert store.get_ranges("missing", [(0, 0), (9, 9)]) == [b"", b""]


# Keys


def test_store_odd_keys_round_trip(store):
    for number, key in enumerate(ODD_KEYS):
        store.put_if_absent(key, str(number).encode())
    assert keys(store) == sorted(ODD_KEYS)
    for number, key in enumerate(ODD_KEYS):
        assert store.get(key) == str(number).encode()
        assert store.head(key).key == key
        assert keys(store, after=key) == [other for other in sorted(ODD_KEYS) if other > key]
        if "/" in key:
            assert key in keys(store, prefix=key.rpartition("/")[0])
    store.delete(ODD_KEYS[0])
    store.delete_many(ODD_KEYS)
    assert keys(store) == []


def test_store_keys_with_a_backslash_round_trip_or_are_refused(store, kind):
    if kind == "seaweedfs":
        pytest.skip("SeaweedFS takes a backslash for a slash, and says nothing")
    if store.location.family == "az":
        with pytest.raises(StorageError, match="backslash"):
            store.put("back\\slash", b"x")
        assert keys(store) == []
        return
    store.put("back\\slash", b"x")
    assert keys(store) == ["back\\slash"]
    assert store.get("back\\slash") == b"x"


BAD_KEYS = ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\x00b", "a\nb", "\x7f", "\ud800", "x" * 256]


@pytest.mark.parametrize("key", BAD_KEYS, ids=ascii)
def test_store_bad_keys_are_refused_by_every_verb(store, key, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"x")
    verbs: list[Callable[[], object]] = [
        lambda: store.put_if_absent(key, b"x"),
        lambda: store.put(key, b"x"),
        lambda: store.put_file(key, str(source)),
        lambda: store.get(key),
        lambda: store.get_range(key, 0, 1),
        lambda: store.get_ranges(key, [(0, 1)]),
        lambda: store.head(key),
        lambda: store.delete(key),
        lambda: store.delete_many([key]),
    ]
    if key:
        verbs.append(lambda: list(store.list(key)))
    for verb in verbs:
        with pytest.raises(StorageError, match="cannot use the key") as caught:
            verb()
        str(caught.value).encode()


# Listing


def test_store_list_of_an_empty_place(store):
    assert keys(store) == []
    assert keys(store, "nothing/here") == []
    assert keys(store, "nothing", "nothing/here") == []


def test_store_list_is_sorted_by_whole_keys(store):
    written = ["a/z", "a.b", "a0", "a-b/c", "a/b/c", "a/b.c", "B", "é", "z"]
    for key in written:
        store.put(key, key.encode())
    assert keys(store) == sorted(written)
    assert [meta.size for meta in store.list()] == [len(key.encode()) for key in sorted(written)]


def test_store_list_prefix_is_a_directory(store):
    for key in ("log/1", "log/2", "log2/1", "log", "logs", "x/log/1"):
        if key != "log":
            store.put(key, b"")
    assert keys(store, "log") == ["log/1", "log/2"]
    assert keys(store, "log/1") == []
    assert keys(store, "lo") == []


def test_store_list_after_a_name(store):
    for version in range(12):
        store.put(f"log/{version:020d}.json", b"")
    assert keys(store, "log", f"log/{9:020d}.json") == [f"log/{10:020d}.json", f"log/{11:020d}.json"]
    assert len(keys(store, "log", "log/")) == 12
    assert len(keys(store, "log", "log")) == 12
    assert len(keys(store, "log", "a")) == 12
    assert keys(store, "log", "log0") == []
    assert keys(store, "log", "log/zzz") == []
    assert len(keys(store, "log", f"log/{5:020d}")) == 7
    assert len(keys(store, "", "/a//b")) == 12


def test_store_list_and_head_tell_the_same(store):
    store.put_if_absent("d/k", b"content")
    store.put("d/l", b"other content")
    for meta in store.list():
        head = store.head(meta.key)
        assert (meta.key, meta.size, meta.e_tag) == (head.key, head.size, head.e_tag)
        assert abs(meta.modified_ms - head.modified_ms) < 1000
        assert meta.e_tag
    assert len({meta.e_tag for meta in store.list()}) == 2


def test_store_list_of_more_than_a_page(store):
    written = [f"many/{number:05d}" for number in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b""), written))
    assert keys(store) == written
    assert keys(store, "many", written[-10]) == written[-9:]
    store.delete_many(iter(written[1:]))
    assert keys(store) == written[:1]


# Deleting


def test_store_delete_of_what_is_missing_is_no_error(store):
    store.put("k", b"x")
    store.delete("k")
    store.delete("k")
    store.delete("never/was")
    assert keys(store) == []


def test_store_delete_many_passes_over_what_is_missing(store):
    for key in ("a", "b/c", "b/d"):
        store.put(key, b"x")
    store.delete_many([])
    store.delete_many(["missing", "a", "b/missing", "b/c", "b/c"])
    assert keys(store) == ["b/d"]


def test_store_delete_many_checks_all_keys_first(store):
    store.put("a", b"x")
    with pytest.raises(StorageError, match="cannot use the key"):
        store.delete_many(["a", ""])
    assert keys(store) == ["a"]


# Races


def race_in_threads(store: ObjectStore, num_rounds: int, contents: list[bytes]) -> None:
    """Create every content at once at the same key, round by round: one succeeds, and is left."""
    barrier = threading.Barrier(len(contents))

    def create(number: int, content: bytes) -> bool:
        barrier.wait(60)
        try:
            store.put_if_absent(f"log/{number}", content)
        except ObjectExistsError:
            return False
        return True

    with ThreadPoolExecutor(len(contents)) as pool:
        for number in range(num_rounds):
            won = list(pool.map(create, itertools.repeat(number), contents))
            assert won.count(True) == 1
            assert store.get(f"log/{number}") == contents[won.index(True)]


def test_store_concurrent_creates_have_one_winner(store, kind):
    # SeaweedFS lets the losers of a race wait for seconds.
    num_rounds, num_workers = (1, 4) if kind == "seaweedfs" else (5, 8)
    race_in_threads(store, num_rounds, [race_content(worker) for worker in range(num_workers)])


def test_store_concurrent_creates_of_large_objects_have_one_winner(store, kind):
    if kind == "moto":
        pytest.skip("moto looks whether a large object is there before it has read all of it")
    contents = [bytes([worker]) * (5 << 20) for worker in range(3)]
    race_in_threads(store, 1 if kind == "seaweedfs" else 3, contents)


def test_local_creates_from_many_processes_have_one_winner(tmp_path):
    store = open_at(str(tmp_path / "table"))
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(4), context.Queue()
    started = [
        context.Process(target=race_to_create, args=(pickle.dumps(store), worker, 40, barrier, answers), daemon=True)
        for worker in range(4)
    ]
    for process in started:
        process.start()
    winners = {number: worker for worker, won in (answers.get(timeout=60) for _ in started) for number in won}
    for process in started:
        process.join(30)
        assert process.exitcode == 0
    assert sorted(winners) == list(range(40))
    assert all(store.get(f"log/{number}") == race_content(worker) for number, worker in winners.items())
    assert sorted(path.name for path in (tmp_path / "table/log").iterdir()) == sorted(map(str, range(40)))


def test_store_reads_beside_a_replacement_are_whole(store):
    contents = [bytes([number]) * 100_000 for number in range(20)]
    store.put("k", contents[0])
    done = threading.Event()

    def replace() -> None:
        for content in contents:
            store.put("k", content)
        done.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(replace)
        while not done.is_set() and not writing.done():
            assert store.get("k") in contents
        writing.result()
    assert store.get("k") == contents[-1]


# Against a plain model

segments = st.text(alphabet="ab.-0 %=#é", min_size=1, max_size=3).filter(lambda text: text not in (".", ".."))
some_keys = st.lists(segments, min_size=1, max_size=3).map("/".join)
afters = st.one_of(st.just(""), some_keys, st.text(alphabet="ab./- é", max_size=5))


def without_directories(chosen: set[str]) -> set[str]:
    """The keys of which none is a directory of another: a local disk cannot hold both."""
    return {key for key in chosen if not any(other.startswith(f"{key}/") for other in chosen)}


def model_stores(directory: str) -> list[ObjectStore]:
    return [LocalStore(parse_location(f"{directory}/{ROOT}"), disk=HastyDisk()), memory_store()]


class HastyDisk(Disk):
    """Syncs nothing, for the sake of speed."""

    def write_new(self, path: str, chunks) -> None:
        with open(path, "xb") as file:
            file.writelines(chunks)

    def sync_directory(self, path: str) -> None:
        pass


@given(st.sets(some_keys, max_size=12).map(without_directories), st.lists(st.tuples(some_keys, afters), max_size=6))
@settings(max_examples=150)
def test_store_listing_equals_a_sorted_model(written, questions):
    with tempfile.TemporaryDirectory() as directory:
        for store in model_stores(directory):
            for key in written:
                store.put(key, b"")
            for asked, after in [*questions, *((key, key) for key in written)]:
                for prefix in ("", asked, asked.rpartition("/")[0]):
                    below = f"{prefix}/" if prefix else ""
                    expected = sorted(key for key in written if key.startswith(below) and key > after)
                    assert keys(store, prefix, after) == expected, (store, prefix, after)


actions = st.tuples(
    st.sampled_from(["create", "put", "delete", "delete_many", "get"]),
    st.sampled_from(["a", "b/c", "b/d", "b.c", "e=%2F/f"]),
    st.binary(max_size=3),
)


@given(st.lists(actions, max_size=25))
@settings(max_examples=100)
def test_store_equals_a_dictionary(steps):
    with tempfile.TemporaryDirectory() as directory:
        for store in model_stores(directory):
            model: dict[str, bytes] = {}
            for verb, key, data in steps:
                assert _apply(store, verb, key, data) == _apply_to_model(model, verb, key, data)
                assert [(meta.key, meta.size) for meta in store.list()] == sorted(
                    (known, len(content)) for known, content in model.items()
                )


def _apply(store: ObjectStore, verb: str, key: str, data: bytes) -> object:
    try:
        if verb == "create":
            return store.put_if_absent(key, data)
        if verb == "put":
            return store.put(key, data)
        if verb == "delete":
            return store.delete(key)
        if verb == "delete_many":
            return store.delete_many([key, "never"])
        return store.get(key)
    except StorageError as error:
        return type(error)


def _apply_to_model(model: dict[str, bytes], verb: str, key: str, data: bytes) -> object:
    if verb == "get":
        return model.get(key, ObjectNotFoundError)
    if verb == "create" and key in model:
        return ObjectExistsError
    if verb in ("create", "put"):
        model[key] = data
    else:
        model.pop(key, None)
    return None


# Around the verbs


def test_store_errors_name_verb_and_key(store):
    with pytest.raises(ObjectNotFoundError, match="cannot read `some/key`"):
        store.get("some/key")
    store.put("some/key", b"")
    with pytest.raises(ObjectExistsError, match="cannot create `some/key`"):
        store.put_if_absent("some/key", b"")


def test_store_knows_its_place(store):
    assert store.location.relative(store.location) is None
    assert store.is_remote is (store.location.family in ("s3", "az", "gs"))


def test_store_opened_again_sees_the_same(store, request):
    store.put("k", b"x")
    again = pickle.loads(pickle.dumps(store))
    assert again.get("k") == b"x"
    assert again.location == store.location


def test_local_files_are_where_they_are_said_to_be(tmp_path):
    open_at(str(tmp_path / ROOT)).put("a/b%20c", b"x")
    assert (tmp_path / ROOT / "a" / "b%20c").read_bytes() == b"x"


# Counting


def test_metered_store_counts_every_call_by_verb(tmp_path):
    store = MeteredStore(memory_store())
    source = tmp_path / "source"
    source.write_bytes(b"xyz")
    store.put("a", b"x")
    store.put_file("b", str(source))
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("a", b"x")
    store.get("a")
    store.get_range("b", 0, 1)
    store.get_ranges("b", [(0, 1), (1, 2)])
    assert [meta.key for meta in store.list()] == ["a", "b"]
    assert [meta.key for meta in store.list("", after="a")] == ["b"]
    store.head("a")
    store.delete("a")
    store.delete_many(["a", "b"])
    ones = ("put", "put_file", "put_if_absent", "get", "get_range", "get_ranges", "head", "delete", "delete_many")
    assert store.calls == {**dict.fromkeys(ones, 1), "list": 2}


def test_metered_store_counts_across_threads():
    store = MeteredStore(memory_store())
    store.put("k", b"x")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: store.head("k"), range(2000)))
    assert store.calls["head"] == 2000


def test_metered_store_has_no_secret_in_its_repr_and_pickles(tmp_path):
    store = MeteredStore(open_at(f"{tmp_path}/t"))
    store.put("k", b"x")
    again = pickle.loads(pickle.dumps(store))
    assert again.get("k") == b"x"
    assert again.calls == {"get": 1}
    assert repr(store) == f"MeteredStore(LocalStore('{tmp_path}/t'))"
    assert Path(store.location.path) == tmp_path / "t"


def test_contract_get_of_the_object_that_was_seen(store):
    store.put("k", b"first")
    seen = store.head("k").e_tag
    listed = next(iter(store.list())).e_tag
    assert store.get("k", e_tag=seen) == store.get("k", e_tag=listed) == b"first"
    store.put("k", b"second, and longer")
    assert store.get("k", e_tag=store.head("k").e_tag) == b"second, and longer"
    with pytest.raises(ObjectNotFoundError):
        store.get("k", e_tag=seen)


# Pages


def test_store_pages_hold_every_object_with_its_facts(store):
    for key in ODD_KEYS:
        store.put(f"at/{key}", key.encode())
    store.put("other", b"x")
    found = [meta for page in store.pages() for meta in page]
    assert sorted(found) == sorted(store.list())
    assert len(found) == len(ODD_KEYS) + 1
    assert sorted(meta for page in store.pages("at") for meta in page) == sorted(store.list("at"))


def test_store_pages_of_nothing_are_none(store):
    assert list(store.pages()) == []
    store.put("a/b", b"x")
    assert list(store.pages("a/c")) == []
    assert list(store.pages("a/b")) == []
    with pytest.raises(StorageError, match="cannot use the key"):
        list(store.pages("../elsewhere"))
