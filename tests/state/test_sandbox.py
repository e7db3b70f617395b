"""Decoding what nobody vouches for: a decoder that spins is ended, and the next file is read all the same."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading

import pyarrow as pa
import pytest
from tests.protocol.checkpoint_examples import example_content
from tests.protocol.test_file_entry import foreign, records_of
from tests.protocol.test_state_manifest import KEY, STATE, foreign_avro, foreign_record

from indextables.errors import CheckpointCorruptionError, CheckpointError, ProtocolError
from indextables.protocol import varints
from indextables.protocol.avro import avro_container, file_entry, state_manifest
from indextables.protocol.avro.file_entry import encode_manifest, manifest_name
from indextables.protocol.avro.state_manifest import encode_state_manifest
from indextables.state import sandbox

FILES = example_content(3).files
FOREIGN_KEY = "_transaction_log/manifests/manifest-3673dda9.avro"


@pytest.fixture(autouse=True, scope="module")
def _no_process_is_left():
    yield
    sandbox.shut_down()


@pytest.fixture
def spinning(tmp_path):
    """A manifest whose block says that it holds fewer files than it does: the decoder waits for ever."""
    data = foreign(records_of(FILES))
    at = avro_container.decode_header(data).end
    path = tmp_path / "spin.avro"
    path.write_bytes(data[:at] + varints.signed(1) + data[at + 1 :])
    return str(path)


def place(tmp_path, data: bytes) -> str:
    path = tmp_path / "manifest.avro"
    path.write_bytes(data)
    return str(path)


def worker_id() -> int | None:
    process = sandbox._guard._process
    return None if process is None else process.pid


def test_a_manifest_of_another_writer(tmp_path):
    path = place(tmp_path, foreign(records_of(FILES)))
    assert sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30).equals(FILES)
    first = worker_id()
    assert sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30).equals(FILES)
    assert worker_id() == first is not None


def test_a_state_of_another_writer():
    found = sandbox.read_state_manifest(foreign_avro(foreign_record()), KEY, timeout_seconds=30)
    assert found == state_manifest.decode_state_manifest(foreign_avro(foreign_record()), KEY)


def test_a_state_of_json_needs_no_other_process(monkeypatch):
    monkeypatch.setattr(sandbox._guard, "ask", None)
    found = sandbox.read_state_manifest(json.dumps(foreign_record()).encode(), KEY, timeout_seconds=30)
    assert found.manifests == STATE.manifests


def test_our_own_files_need_no_other_process(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox._guard, "ask", None)
    data = encode_manifest(FILES, codec="zstd")
    found = sandbox.read_manifest(place(tmp_path, data), manifest_name(data), timeout_seconds=30)
    assert found.equals(FILES)
    state = encode_state_manifest(STATE, codec="zstd")
    assert sandbox.read_state_manifest(state, KEY, timeout_seconds=30) == STATE


def test_damage_to_our_own_files_reaches_no_decoder(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox._guard, "ask", None)
    monkeypatch.setattr(file_entry, "decode_manifest", None)
    monkeypatch.setattr(state_manifest, "decode_state_manifest", None)
    data = encode_manifest(FILES, codec="zstd")
    with pytest.raises(CheckpointCorruptionError, match="hash"):
        sandbox.read_manifest(place(tmp_path, data[:-1] + b"x"), manifest_name(data), timeout_seconds=30)
    state = encode_state_manifest(STATE, codec="zstd")
    with pytest.raises(CheckpointCorruptionError, match="hash"):
        sandbox.read_state_manifest(state[:-1] + b"x", KEY, timeout_seconds=30)


def test_a_hash_of_ours_over_another_schema_is_not_trusted(tmp_path):
    data = foreign(records_of(FILES))
    before = worker_id()
    sandbox.shut_down()
    found = sandbox.read_manifest(place(tmp_path, data), manifest_name(data), timeout_seconds=30)
    assert found.equals(FILES)
    assert worker_id() not in (None, before)


def test_a_decoder_that_spins_is_ended(spinning, tmp_path):
    path = place(tmp_path, foreign(records_of(FILES)))
    sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30)
    before = worker_id()
    with pytest.raises(CheckpointCorruptionError, match=r"manifest-3673dda9.avro.* 0\.5 seconds"):
        sandbox.read_manifest(spinning, FOREIGN_KEY, timeout_seconds=0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30).equals(FILES)


def test_a_process_that_was_killed_is_replaced(tmp_path):
    path = place(tmp_path, foreign(records_of(FILES)))
    sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30)
    sandbox._guard._process.kill()
    sandbox._guard._process.wait()
    assert sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30).equals(FILES)


def test_errors_come_back_as_they_are(tmp_path):
    with pytest.raises(CheckpointCorruptionError, match="manifest-3673dda9"):
        sandbox.read_manifest(place(tmp_path, b"no manifest"), FOREIGN_KEY, timeout_seconds=30)
    with pytest.raises(CheckpointCorruptionError, match="manifest-3673dda9"):
        sandbox.read_manifest(str(tmp_path / "missing"), FOREIGN_KEY, timeout_seconds=30)
    with pytest.raises(ProtocolError, match="upgrade"):
        sandbox.read_state_manifest(foreign_avro({**foreign_record(), "formatVersion": 9}), KEY, timeout_seconds=30)


def test_a_bomb_is_ended(tmp_path):
    schema = json.dumps(file_entry.FILE_ENTRY_SCHEMA).encode()
    header = avro_container.encode_header({"avro.schema": schema, "avro.codec": b"zstandard"}, b"s" * 16)
    bomb = avro_container.encode_block(1 << 40, bytes(64 << 20), b"s" * 16, "zstandard", 3)
    with pytest.raises(CheckpointCorruptionError, match="manifest-3673dda9"):
        sandbox.read_manifest(place(tmp_path, header + bomb), FOREIGN_KEY, timeout_seconds=5)


def test_threads_take_turns(tmp_path):
    path = place(tmp_path, foreign(records_of(FILES)))
    found: list[pa.Table] = []
    threads = [
        threading.Thread(target=lambda: found.append(sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [files.equals(FILES) for files in found] == [True] * 6


def read_in_fork(path: str, ours: str, our_key: str, answers) -> None:
    both = [
        sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30).num_rows,
        sandbox.read_manifest(ours, our_key, timeout_seconds=30).num_rows,
    ]
    sandbox.shut_down()
    answers.put(both)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_reads_on_its_own(tmp_path):
    path = place(tmp_path, foreign(records_of(FILES)))
    data = encode_manifest(FILES, codec="zstd")
    ours = tmp_path / "ours.avro"
    ours.write_bytes(data)
    sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30)
    sandbox.read_manifest(str(ours), manifest_name(data), timeout_seconds=30)
    before = worker_id()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=read_in_fork, args=(path, str(ours), manifest_name(data), answers))
    child.start()
    child.join(60)
    alive = child.is_alive()
    child.kill()
    assert not alive
    assert answers.get() == [3, 3]
    assert worker_id() == before
    assert sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30).equals(FILES)


def test_a_script_without_a_main_guard_leaves_no_process(tmp_path):
    path = place(tmp_path, foreign(records_of(FILES)))
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        from indextables.state import sandbox
        print("started")
        print(sandbox.read_manifest({path!r}, {FOREIGN_KEY!r}, timeout_seconds=30).num_rows)
        print(sandbox._guard._process.pid)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    started, num_rows, worker = run.stdout.split()
    assert (started, num_rows) == ("started", "3")
    with pytest.raises(ProcessLookupError):
        os.kill(int(worker), 0)


def test_an_interpreter_that_cannot_be_started(tmp_path, monkeypatch):
    sandbox.shut_down()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(CheckpointError, match="cannot start"):
        sandbox.read_manifest("x", FOREIGN_KEY, timeout_seconds=30)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(CheckpointError, match="does not start"):
        sandbox.read_manifest("x", FOREIGN_KEY, timeout_seconds=30)


def test_the_foreign_tables_open(shared):
    tables = shared / "fixtures" / "upstream-0.5.4"
    for name, table in json.loads((tables / "expected.json").read_text()).items():
        key = f"_transaction_log/state-v{table['version']:020d}/_manifest.avro"
        state = sandbox.read_state_manifest((tables / name / key).read_bytes(), key, timeout_seconds=30)
        keys = [state_manifest.resolve_manifest_path(info.path, state.state_version) for info in state.manifests]
        found = [sandbox.read_manifest(str(tables / name / key), key, timeout_seconds=30) for key in keys]
        assert [files.num_rows for files in found] == [info.num_entries for info in state.manifests]
        live = [row for row in pa.concat_tables(found).to_pylist() if row["path"] not in state.tombstones]
        assert sorted(row["path"] for row in live) == table["paths"]
        assert sum(row["num_records"] for row in live) == table["num_records"]
        assert sum(row["size"] for row in live) == state.total_bytes == table["total_bytes"]
        assert sorted({json.dumps(dict(row["partition_values"])) for row in live}) == table["partition_values"]


def test_an_interrupted_question_leaves_no_answer_behind(tmp_path, monkeypatch):
    path = place(tmp_path, foreign(records_of(FILES)))
    sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30)

    def interrupted(pipe: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "read_frame", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sandbox.read_manifest(path, FOREIGN_KEY, timeout_seconds=30)
    assert worker_id() is None
    found = sandbox.read_state_manifest(foreign_avro(foreign_record()), KEY, timeout_seconds=30)
    assert found.state_version == STATE.state_version
