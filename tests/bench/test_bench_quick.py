"""The benchmarks run, and their JSON holds every figure with both sides and a ratio."""

from __future__ import annotations

import importlib.util
import json

import pytest
from bench.__main__ import NAMES
from tests.bench.bench_runs import check_figures, run_bench

# Not imported here: Lance warns of every fork from then on, and this process runs other tests, too.
_MISSING = [name for name in ("deltalake", "pyiceberg", "lance", "duckdb") if importlib.util.find_spec(name) is None]
if _MISSING:
    pytest.skip(f"the benchmarks measure beside {_MISSING[0]}: install `indextables[bench]`", allow_module_level=True)

pytestmark = pytest.mark.slow

_DELTA = "delta-rs"
_WHOLE = "ours, written whole"
_THEIR_CHECKPOINT = "delta-rs, its checkpoint"
_PEERS = ("Lance FTS", "SQLite FTS5", "DuckDB LIKE over Parquet")
_SEARCHES = ("10 hits", "2 hits", "200 hits", "phrase, 76 hits", "boolean, 4 hits")
_GROUPINGS = ("terms of level", "terms of service", "hours", "statistics of latency_ms")
_INFINO = ("infino",) if importlib.util.find_spec("infino") is not None else ()


def _many_splits(num_splits: int) -> list[tuple[str, str]]:
    name, found = f"many-splits: {num_splits} splits", []
    counts = [f"count, {hits} hits" for hits in (0, 10, 1000)]
    rows = [f"10 rows of {hits}, {columns} columns" for hits in (10, 1000) for columns in ("3", "all")]
    for question in [*counts, *rows]:
        ways = ["one by one", "together", *(["together, by pages"] if question in rows else [])]
        found += [(f"{name}, {question}, {way}{of}", "Lance FTS") for of in ("", ", CPU") for way in ways]
        if question in {"count, 10 hits", "10 rows of 10, 3 columns"}:
            half = f"{name}, {question}, half by partition"
            found += [(f"{half}, {way}{of}", "ours, all splits") for of in ("", ", CPU") for way in ways[:2]]
    costs = (
        *("first 6 questions, empty cache", "first question, indexes on disk"),
        *("second question, which makes the links", "6 questions after it"),
        *("open files", "threads", "mappings", "disk cache"),
    )
    return [*found, *((f"{name}, new process, {cost}, together", "indextables, one by one") for cost in costs)]


_FIGURES = [
    ("commits: 12 through one handle", _DELTA),
    ("commits: 12, delta-rs opened anew for each", _DELTA),
    ("commits: 12, delta-rs opened anew, checkpoint every 10", _DELTA),
    ("commits: 12, both opened anew for each", _DELTA),
    ("open: 40 versions, files as Arrow", _DELTA),
    ("open: 40 versions, files as Arrow, delta-rs with checkpoint", _DELTA),
    ("refresh: 10 versions, just changed", _DELTA),
    ("refresh: 10 versions, just changed, delta-rs with checkpoint", _DELTA),
    ("refresh: 10 versions, settled", _DELTA),
    ("refresh: 10 versions, settled, delta-rs with checkpoint", _DELTA),
    ("refresh: 40 versions, just changed", _DELTA),
    ("refresh: 40 versions, just changed, delta-rs with checkpoint", _DELTA),
    ("refresh: 40 versions, settled", _DELTA),
    ("refresh: 40 versions, settled, delta-rs with checkpoint", _DELTA),
    ("cold: 300 files to Arrow, no local cache", _DELTA),
    ("cold: 300 files to Arrow, no local cache", "pyiceberg, plan_files"),
    ("cold: 300 files to Arrow, no local cache", "pyiceberg, inspect.files"),
    ("second: 300 files to Arrow, local cache warm", _DELTA),
    ("second: 300 files to Arrow, local cache warm", "pyiceberg, plan_files"),
    ("start: import, CPU", _DELTA),
    ("start: `indextables --help`, CPU", None),
    ("start: `indextables count`, CPU", "import pyarrow, tantivy"),
    ("start: process, import, open and list 300 files, no local cache, CPU", _DELTA),
    ("start: process, import, open and list 300 files, local cache warm, CPU", _DELTA),
    ("partition: one of 100 of 400 files", "ours, listing it all"),
    ("partition: one of 100 of 400 files, 100 manifests", "ours, listing it all"),
    ("partition: all 400 files, manifest by manifest", "ours, as one Arrow table"),
    ("partition: all 400 files, manifest by manifest, peak memory", "ours, as one Arrow table"),
    ("state: 5 files added to 300, handle stays open, one after another", _WHOLE),
    ("state: 5 files added to 300, handle stays open, after a compaction", _WHOLE),
    ("state: 5 files added to 300, new handle, local cache warm, after a compaction", _WHOLE),
    ("state: 5 files added to 300, new handle, no local cache, after a compaction", _WHOLE),
    ("state: 5 files added to 300, handle stays open, one after another", _THEIR_CHECKPOINT),
    ("state: 5 files added to 300, bytes", _WHOLE),
    ("state: 5 files added to 300, bytes", _THEIR_CHECKPOINT),
    ("versions: 20, with checkpoint", "ours, without checkpoint"),
    ("versions: 40, with checkpoint", "ours, without checkpoint"),
    ("formats: 200 files, Avro state", "ours, JSON checkpoint"),
    ("formats: 300 files, Avro state", "ours, JSON checkpoint"),
    ("parallel: 8 versions, 4 at once, each read 10 ms late (simulated)", "ours, one at a time"),
    *(
        (f"growth: {work}, {count} files", "ours, 300 files" if count == 400 else None)
        for work in ("commit a few files", "write the state after a few files were added", "list one partition")
        for count in (300, 400)
    ),
    *(
        (f"growth: {work}, {count} files", None)
        for work in (
            "list all files by manifest",
            "memory, listing all files by manifest",
            "memory, compaction",
        )
        for count in (300, 400)
    ),
    *(
        (f"manifests: {work}, 4, CPU", "ours, 2")
        for work in ("commit a few files", "write the state after a few files were added", "list one partition")
    ),
    ("index: 1000 rows, build", "tantivy, bare loop"),
    *(("index: 1000 rows, build", peer) for peer in _PEERS),
    *(("index: 1000 rows, build, CPU", peer) for peer in ("tantivy, bare loop", "Lance FTS")),
    *(("index: 1000 rows, size", peer) for peer in _PEERS),
    ("index: 1000 rows, size with the log", "Lance FTS"),
    *((f"ingest: 1000 rows, {kind}", "ours, one process") for kind in ("csv", "csv, CPU", "jsonl", "jsonl, CPU")),
    *((f"ingest: 1000 rows, {kind}", "ours, one process") for kind in ("log", "log, CPU")),
    ("ingest: append of 10 rows, CPU", None),
    *(
        (f"search: {search}, {columns} columns", peer)
        for columns in ("all", "3")
        for search in _SEARCHES
        for peer in _PEERS
    ),
    *(
        (f"search: new word each time, {band}, {way}{of}", peer)
        for band in ("few hits", "many hits")
        for way in ("count", "3 columns", "all columns")
        for of in ("", ", CPU")
        for peer in ("Lance FTS", "SQLite FTS5", *_INFINO)
    ),
    *(
        (f"rows: {num_hits} hits, all columns, {way}{of}", peer)
        for num_hits in (10, 2, 200)
        for of in ("", ", CPU")
        for way, peer in (("decoded", "Lance FTS"), ("by pages", "Lance FTS"), ("decoded", "indextables by pages"))
    ),
    *_many_splits(4),
    *_many_splits(8),
    *(
        (f"repeated: {question}{of}", "ours, no answer kept")
        for question in (
            *("count", "terms of level", "hours", "10 rows, 3 columns", "10 rows, all columns"),
            *("10 best rows, all columns", "count, a new word each time"),
        )
        for of in ("", ", CPU")
    ),
    *(
        (f"predicates: {predicate}, {figure}", "DuckDB over Parquet")
        for predicate in (
            *("range of a number", "bound of a whole number", "keyword", "unique keyword", "range of time", "text"),
        )
        for figure in ("index at hand", "by rows", "index at hand, CPU", "by rows, CPU", "peak memory")
    ),
    *((f"aggregate: count, {search}", peer) for search in _SEARCHES for peer in _PEERS),
    *(
        (f"aggregate: {grouping}, {subject}", peer)
        for subject in ("200 hits", "all rows")
        for grouping in _GROUPINGS
        for peer in _PEERS
    ),
    ("cold-split: open and first search, 10 hits", None),
    ("cold-split: the same, its index in the cache", None),
    ("cold-split: open and first count", None),
    ("cold-split: of it, open the table", None),
    ("cold-split: of it, open the split", None),
    ("cold-split: of it, read the term filter", None),
    ("cold-split: of it, extract the index and ask it", None),
    ("cold-split: of it, ask it again", None),
    ("cold-split: of it, fetch the rows", None),
    ("cold-split: size of the split", None),
    ("rare-term: in 1 of 4 splits of 250 rows, fetched", "all splits whole"),
    ("rare-term: in 1 of 4 splits of 250 rows, first search", None),
    ("rare-term: in 1 of 4 splits of 400 rows, fetched", "all splits whole"),
    ("rare-term: in 1 of 4 splits of 400 rows, first search", None),
    (
        "far-splits: search 4 small splits, each read 30 ms late (simulated)",
        "ours, as many at once as there are cores",
    ),
    ("filters: a word that none of 300 splits holds, requests", None),
    ("filters: a word that none of 300 splits holds, fetched", None),
    ("filters: a word that none of 300 splits holds, first search", None),
    ("filters: sheet of 300 splits, size", None),
    ("filters: sheet of 300 splits, written from hashes in memory", None),
    ("cold-parts: a rare word in 2,000 rows, fetched", "indexes fetched whole"),
    ("cold-parts: a rare word in 2,000 rows, first search", "indexes fetched whole"),
    ("cold-parts: a phrase in 2,000 rows, fetched", "indexes fetched whole"),
    ("cold-parts: a phrase in 2,000 rows, first search", "indexes fetched whole"),
    ("cold-parts: an id in 2,000 rows, fetched", "indexes fetched whole"),
    ("cold-parts: an id in 2,000 rows, first search", "indexes fetched whole"),
    (
        "cold-parts: a word in 2 of 4 splits of 400 rows, each read 30 ms late (simulated)",
        "indexes fetched whole",
    ),
    (
        "cold-parts: a word in 4 of 4 splits of 400 rows, each read 30 ms late (simulated)",
        "indexes fetched whole",
    ),
    ("merge: 4 splits of 250 rows", "indexing the rows again"),
    ("merge: 4 splits of 250 rows, size", "indexing the rows again"),
    ("merge: 4 splits of 250 rows, first count after it", "indexing the rows again"),
    ("merge: 4 splits of 250 rows, planning 300 files", None),
    ("purge: list 300 objects in memory and decide", None),
]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def quick_run(places):
    out, temporary = places
    names = [name for name in NAMES if not name.startswith("spark-")]
    done = run_bench(*names, "--quick", "--rounds", "1", "--json", str(out / "figures.json"), temporary=temporary)
    assert done.returncode == 0, done.stderr
    return done, json.loads((out / "figures.json").read_text())


def test_every_figure_has_its_sides_and_a_ratio(quick_run):
    _, report = quick_run
    check_figures(report, _FIGURES)


def test_a_refresh_is_one_list_call(quick_run):
    _, report = quick_run
    calls = [
        figure["store_calls"]
        for figure in report["figures"]
        if figure["name"].startswith("refresh:") and figure["store_calls"]
    ]
    assert calls == [{"list": 1}] * 4


def test_a_rare_term_is_sought_by_ranges_and_not_in_whole_splits(quick_run):
    _, report = quick_run
    fetched = [
        figure for figure in report["figures"] if figure["name"].startswith("rare-term:") and figure["store_calls"]
    ]
    assert len(fetched) == 2
    for figure in fetched:
        assert set(figure["store_calls"]) == {"get_ranges"}
        assert figure["store_calls"]["get_ranges"] > 4
        assert figure["ratio"] < 1


def test_a_small_split_that_is_far_is_one_request(quick_run):
    _, report = quick_run
    (figure,) = [figure for figure in report["figures"] if figure["name"].startswith("far-splits:")]
    assert figure["store_calls"] == {"get_ranges": 4}


def test_the_environment_is_named_and_the_machine_is_not(quick_run):
    _, report = quick_run
    assert set(report["environment"]) == {
        "python",
        "indextables",
        "deltalake",
        "pyiceberg",
        "pylance",
        "duckdb",
        *_INFINO,
        "sqlite",
        "num_cores",
        "fsync_median_ms",
    }


def test_the_table_shows_every_figure(quick_run):
    done, _ = quick_run
    for name, _ in _FIGURES:
        assert name in done.stdout


def test_nothing_is_left_behind(quick_run, places):
    assert [path.name for path in places[1].iterdir() if path.name.startswith("indextables-bench-")] == []


def test_an_unknown_name_is_an_error(tmp_path):
    done = run_bench("nonsense", temporary=tmp_path)
    assert done.returncode == 2
    assert "nonsense" in done.stderr


def test_a_drawing_needs_the_benchmark_that_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="the drawing needs matplotlib: install `indextables[bench]`")
    done = run_bench("open", "--quick", "--plot", str(tmp_path / "growth.svg"), temporary=tmp_path)
    assert done.returncode == 2
    assert "growth" in done.stderr
