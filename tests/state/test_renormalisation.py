"""Doc mappings that other writers named in their own ways get one name each, in a version of its own."""

from __future__ import annotations

import json

import pytest
from tests.conftest import SCHEMA, make_add

import indextables as it
from indextables.protocol.doc_mapping import REGISTRY_PREFIX, doc_mapping_hash

NO_CACHE = {"cache.disk.enabled": "false", "cleanup.enabled": "false"}


def spelled(fields: list[str], *, backwards: bool) -> str:
    """One mapping in one of two spellings, which have the same hash."""
    objects = [{"name": name, "type": "text"} for name in fields]
    if backwards:
        objects = [dict(reversed(each.items())) for each in reversed(objects)]
    return json.dumps(objects)


MAPPINGS = {
    f"ref-{n}-{way}": spelled([f"a{n}", f"b{n}"], backwards=way == "back") for n in range(4) for way in ("on", "back")
}


@pytest.fixture
def log(tmp_path) -> it.TransactionLog:
    """Eight references to four mappings, as a writer that hashes the text as it stands would leave them."""
    log = it.TransactionLog(tmp_path / "t", options=NO_CACHE)
    log.initialize(SCHEMA, configuration={REGISTRY_PREFIX + ref: text for ref, text in MAPPINGS.items()})
    log.add_files([make_add(f"{ref}.split", doc_mapping_ref=ref) for ref in MAPPINGS])
    log.add_files([make_add("none.split")])
    return log


def references(log: it.TransactionLog) -> dict[str, str | None]:
    files = log.list_files()
    return dict(zip(files["path"].to_pylist(), files["doc_mapping_ref"].to_pylist(), strict=True))


def texts(log: it.TransactionLog) -> dict[str, str | None]:
    files = log.list_files()
    return dict(zip(files["path"].to_pylist(), files["doc_mapping_json"].to_pylist(), strict=True))


@pytest.mark.parametrize("automatic", [False, True])
def test_above_the_threshold_references_become_canonical(log, automatic) -> None:
    before = texts(log)
    written = log._checkpointer.write(2, log.config).hint if automatic else log.checkpoint()
    assert written.version == 3
    assert log.history(limit=1)["operation"].to_pylist() == ["RENORMALIZE"]
    fresh = it.TransactionLog(log.url, options=NO_CACHE)
    assert fresh.snapshot().source == "avro-state"
    found = references(fresh)
    assert found == {f"{ref}.split": doc_mapping_hash(text) for ref, text in MAPPINGS.items()} | {"none.split": None}
    assert len(set(found.values()) - {None}) == 4
    after = texts(fresh)
    assert {path: text and json.loads(text) for path, text in after.items()}.keys() == before.keys()
    for path, text in after.items():
        assert (text is None) == (before[path] is None)
        assert text is None or doc_mapping_hash(text) == doc_mapping_hash(before[path])


def test_no_entry_of_the_registry_is_lost(log) -> None:
    log.checkpoint()
    snapshot = it.TransactionLog(log.url, options=NO_CACHE).snapshot()
    assert MAPPINGS.items() <= snapshot.doc_mappings.items()
    late = make_add("late.split", doc_mapping_ref="ref-0-back")
    log.add_files([late])
    assert texts(log)["late.split"] == MAPPINGS["ref-0-back"]


def test_what_is_canonical_already_is_left_alone(log) -> None:
    first = log.checkpoint()
    again = it.TransactionLog(log.url, options=NO_CACHE)
    assert again.checkpoint().version == first.version
    assert again._checkpointer.write(first.version, again.config).hint.version == first.version


def test_below_the_threshold_nothing_happens(log) -> None:
    patient = it.TransactionLog(log.url, options={**NO_CACHE, "state.schema.renormalizeThreshold": 8})
    assert patient.checkpoint().version == 2
    assert set(references(patient).values()) == {*MAPPINGS, None}


def test_the_log_alone_gives_the_same_mappings(log) -> None:
    log.checkpoint()
    replayed = it.TransactionLog(log.url, options={**NO_CACHE, "checkpoint.enabled": "false"})
    with_state = it.TransactionLog(log.url, options=NO_CACHE)
    hashes = [
        {path: text and doc_mapping_hash(text) for path, text in texts(each).items()} for each in (replayed, with_state)
    ]
    assert hashes[0] == hashes[1]


def test_a_reference_that_leads_nowhere_is_left_alone(tmp_path) -> None:
    log = it.TransactionLog(tmp_path / "t", options=NO_CACHE)
    broken = {f"bad-{n}": "{no json" for n in range(6)}
    log.initialize(SCHEMA, configuration={REGISTRY_PREFIX + ref: text for ref, text in broken.items()})
    log.add_files([make_add(f"{ref}.split", doc_mapping_ref=ref) for ref in [*broken, "nowhere"]])
    assert log.checkpoint().version == 1
    assert set(references(log).values()) == {*broken, "nowhere"}
    assert texts(log)["nowhere.split"] is None


def renormalised(log: it.TransactionLog) -> list[int]:
    history = log.history().to_pylist()
    return sorted(row["version"] for row in history if row["operation"] == "RENORMALIZE")


def test_a_handle_that_stays_open_renormalises_once(log) -> None:
    other = it.TransactionLog(log.url, options=NO_CACHE)
    other.list_files()
    for number in range(3):
        log.add_files([make_add(f"more-{number}.split")])
        log._checkpointer.write(log.snapshot().version, log.config)
        other._checkpointer.write(other.snapshot().version, other.config)
        log.checkpoint()
    assert renormalised(log) == [4]
    assert set(references(log).values()) == set(references(other).values())
    assert set(references(log).values()) == {doc_mapping_hash(text) for text in MAPPINGS.values()} | {None}


def test_entries_that_no_file_names_are_dropped(log) -> None:
    log.set_properties({REGISTRY_PREFIX + "unused": "[]", "note": "kept"})
    log.checkpoint()
    configuration = it.TransactionLog(log.url, options=NO_CACHE).metadata().configuration
    assert REGISTRY_PREFIX + "unused" not in configuration
    assert configuration["note"] == "kept"
    assert {REGISTRY_PREFIX + doc_mapping_hash(text) for text in MAPPINGS.values()} <= configuration.keys()


def test_dropped_entries_serve_whoever_replays(log) -> None:
    log.checkpoint()
    before = texts(it.TransactionLog(log.url, options={**NO_CACHE, "checkpoint.enabled": "false"}))
    again = {f"again-{number}": spelled([f"c{number}"], backwards=False) for number in range(6)}
    log.set_properties({REGISTRY_PREFIX + ref: text for ref, text in again.items()})
    log.add_files([make_add(f"{ref}.split", doc_mapping_ref=ref) for ref in again])
    log.checkpoint()
    assert len(renormalised(log)) == 2
    fresh = it.TransactionLog(log.url, options=NO_CACHE)
    assert not {REGISTRY_PREFIX + ref for ref in MAPPINGS} & fresh.metadata().configuration.keys()
    replaying = it.TransactionLog(log.url, options={**NO_CACHE, "checkpoint.enabled": "false"})
    assert before.items() <= texts(replaying).items()
    replaying.add_files([make_add("last.split")])
    assert None not in [text for path, text in texts(fresh).items() if path not in ("none.split", "last.split")]
