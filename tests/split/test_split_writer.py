"""Rows in, splits out: what is written can be read, searched and pruned, and a writer that fails leaves nothing."""

from __future__ import annotations

import datetime as dt
import os

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tantivy
from hypothesis import given, settings
from tests.doubles.faulty_store import Fault, FaultyStore

import indextables as it
from indextables.config import Config
from indextables.errors import SchemaError, StorageError
from indextables.split.index.analyzers import tokens
from indextables.split.index.builder import make_schema, open_index
from indextables.split.index.fields import FieldMap, map_fields
from indextables.split.index.terms import distinct_terms, filtered_fields
from indextables.split.split_file import SplitFile, SplitFileWriter
from indextables.split.writer import SplitWriter
from indextables.store import open_store

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("day", pa.date32()),
        ("level", pa.string()),
        ("message", pa.string()),
        ("took", pa.float64()),
    ]
)
TEXT = {"indexing.typemap.message": "text"}


def rows(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "id": number,
                "day": dt.date(2026, 1, 1 + number % 28),
                "level": None if number % 7 == 0 else ["INFO", "ERROR"][number % 2],
                "message": f"request {number} from host-{number % 13} took a while",
                "took": number / 4,
            }
            for number in range(first, first + count)
        ],
        schema=SCHEMA,
    )


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "t"), Config.resolve())


def write(store, *batches: pa.RecordBatch, **options) -> list[it.actions.Add]:
    config = Config.resolve(options={**TEXT, **options})
    with SplitWriter(
        store, SCHEMA, config, partition_columns=("day",), partition_values={"day": "2026-01-01"}
    ) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


def opened(store, add: it.actions.Add) -> SplitFile:
    return SplitFile.open(
        store,
        add.path,
        size=add.size,
        footer_start_offset=add.footer_start_offset,
        footer_end_offset=add.footer_end_offset,
    )


def test_rows_come_back_as_they_went_in(store, tmp_path) -> None:
    batches = [rows(0, 3000), rows(3000, 2500)]
    (add,) = write(store, *batches)
    split = opened(store, add)
    assert pa.Table.from_batches(split.rows()) == pa.Table.from_batches(batches)
    assert pq.read_table(tmp_path / "t" / add.path) == pa.Table.from_batches(batches)
    assert add.size == os.path.getsize(tmp_path / "t" / add.path)


def test_the_add_action_says_everything(store) -> None:
    (add,) = write(store, rows(0, 100))
    assert add.path.startswith("day=2026-01-01/splits/split-")
    assert add.partition_values == {"day": "2026-01-01"}
    assert (add.num_records, add.data_change, add.num_merge_ops, add.has_footer_offsets) == (100, True, 0, True)
    assert (add.min_values["id"], add.max_values["id"]) == ("0", "99")
    assert add.max_values["level"] == "INFO"
    assert '"level":15' in add.stats
    assert add.tags["indextables.stats"] == "typed"
    assert add.uncompressed_size_bytes > 0
    assert FieldMap.from_json(add.doc_mapping_json).find("message").kind == "text"


def test_the_index_finds_the_rows(store, tmp_path) -> None:
    batch = rows(0, 5000)
    (add,) = write(store, batch)
    split = opened(store, add)
    index = tmp_path / "index"
    index.mkdir()
    split.extract_index(str(index))
    fields = FieldMap.from_json(split.directory.doc_mapping)
    searcher = open_index(str(index), fields).searcher()
    query = tantivy.Query.term_query(make_schema(fields), fields.find("message").name, "4711")
    hits = [address.doc for _, address in searcher.search(query, 10).hits]
    assert [row for found in split.rows(pa.array(hits)) for row in found.to_pylist()] == [
        batch.slice(4711, 1).to_pylist()[0]
    ]


def test_the_filter_knows_every_term_and_few_others(store) -> None:
    (add,) = write(store, rows(0, 2000))
    split = opened(store, add)
    message = FieldMap.from_json(add.doc_mapping_json).find("message").name
    for found, most in ((split.term_filter(), 100), (split.fine_filter(), 30)):
        assert all(found.may_contain(message, term) for term in ["request", "1999", "host", "took", "a"])
        assert sum(found.may_contain(message, f"absent{number}") for number in range(1000)) < most
        assert not found.covers(FieldMap.from_json(add.doc_mapping_json).find("id").name)


def test_a_new_split_begins_at_the_target_size(store) -> None:
    adds = write(store, *(rows(start, 2000) for start in range(0, 20_000, 2000)), **{"write.targetSplitSize": "200K"})
    assert len(adds) > 2
    assert sum(add.num_records for add in adds) == 20_000
    tables = [pa.Table.from_batches(opened(store, add).rows()) for add in adds]
    assert pa.concat_tables(tables)["id"].to_pylist() == list(range(20_000))
    assert len({add.path for add in adds}) == len(adds)


def test_no_rows_are_no_split(store) -> None:
    assert write(store) == []


def test_nothing_stays_behind(store, tmp_path) -> None:
    place = tmp_path / "building"
    place.mkdir()
    here = {"indexWriter.tempDirectoryPath": str(place)}
    write(store, rows(0, 10), **here)
    assert list(place.iterdir()) == []
    config = Config.resolve(options={**TEXT, **here})
    with SplitWriter(store, SCHEMA, config) as writer:
        writer.write(rows(0, 10))
        with pytest.raises(SchemaError):
            writer.write(pa.RecordBatch.from_pydict({"other": [1]}))
    assert list(place.iterdir()) == []
    failing = FaultyStore(store, lambda call: Fault.UNAVAILABLE if call.verb.startswith("put") else Fault.NONE)
    with SplitWriter(failing, SCHEMA, config) as writer:
        writer.write(rows(0, 10))
        with pytest.raises(StorageError):
            writer.finish()
    assert list(place.iterdir()) == []


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """A directory that stands for the system's directory in memory, and another for its temporary one."""
    for name in ("memory", "disk"):
        (tmp_path / name).mkdir()
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr("indextables.runtime.scratch._IN_MEMORY", str(tmp_path / "memory"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "disk"))
    return tmp_path / "memory"


def _parents_of_new_splits(monkeypatch) -> list[str]:
    parents: list[str] = []

    def noted(path: str, *given, **named) -> SplitFileWriter:
        parents.append(os.path.basename(os.path.dirname(os.path.dirname(path))))
        return SplitFileWriter(path, *given, **named)

    monkeypatch.setattr("indextables.split.writer.SplitFileWriter", noted)
    return parents


def test_a_small_split_is_built_in_memory_and_a_large_one_on_disk(store, memory, monkeypatch) -> None:
    parents = _parents_of_new_splits(monkeypatch)
    (small,) = write(store, rows(0, 10), rows(10, 20))
    (large,) = write(store, *(rows(start, 2000) for start in range(0, 20_000, 2000)))
    assert parents == ["memory", "disk"]
    assert list(memory.iterdir()) == []
    assert opened(store, small).num_rows == 30
    assert pa.Table.from_batches(opened(store, large).rows())["id"].to_pylist() == list(range(20_000))


@pytest.mark.parametrize("problem", ["missing", "full", "read-only"])
def test_without_room_in_memory_a_small_split_is_built_on_disk(store, memory, monkeypatch, problem) -> None:
    if problem == "missing":
        memory.rmdir()
    elif problem == "full":
        monkeypatch.setattr("indextables.split.writer._MEMORY_BYTES", 1 << 62)
    else:
        monkeypatch.setattr("os.access", lambda path, mode: False)
    parents = _parents_of_new_splits(monkeypatch)
    (add,) = write(store, rows(0, 10))
    assert parents == ["disk"]
    assert opened(store, add).num_rows == 10


def test_a_named_directory_is_used_for_small_splits_too(store, memory, tmp_path, monkeypatch) -> None:
    parents = _parents_of_new_splits(monkeypatch)
    (tmp_path / "named").mkdir()
    write(store, rows(0, 10), **{"indexWriter.tempDirectoryPath": str(tmp_path / "named")})
    assert parents == ["named"]


def test_a_split_can_be_committed_and_pruned(store) -> None:
    log = it.TransactionLog(store.location.url)
    log.initialize(SCHEMA, partition_columns=("day",))
    log.add_files(write(store, rows(0, 100)))
    log.add_files(write(store, rows(1000, 100)))
    assert log.list_files(where="id = 1050").num_rows == 1
    assert log.list_files(where="id = 500").num_rows == 0
    assert log.list_files(where="day = DATE '2026-01-01' AND took >= 250").num_rows == 1
    assert len(log.snapshot().doc_mappings) == 1


TOKENIZERS = ["default", "whitespace", "raw", "en_stem", "de_stem"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.text(max_size=12), st.text("aB1- éßΣİ.\t\u2028", max_size=20)), max_size=6),
    st.sampled_from(TOKENIZERS),
)
def test_no_term_of_the_index_is_missing_from_the_filter(texts, tokenizer) -> None:
    """The filter may rule a split out only if the engine would find nothing in it."""
    options = {"indexing.typemap.m": "text", "indexing.tokenizer.m": tokenizer}
    schema = pa.schema([("m", pa.string())])
    (field,) = filtered_fields(map_fields(schema, Config.resolve(options=options)), schema)
    known = set(_listed(distinct_terms(pa.array(texts, pa.string()), field)))
    assert {term for text in texts if text is not None for term in tokens(field, text)} <= known


def _listed(terms) -> list[str]:
    return terms.to_pylist() if isinstance(terms, pa.Array) else list(terms)
