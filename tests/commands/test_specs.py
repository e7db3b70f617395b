"""One table of commands: what SQL does is what the methods of `Table` do, with the columns that are promised."""

from __future__ import annotations

import inspect

import pyarrow as pa
import pytest

import indextables as it
from indextables.commands import COMMANDS, parse_command
from indextables.errors import ConfigError, TableNotFoundError

COLUMNS = {
    "checkpoint": "table_path status checkpoint_version num_actions num_files protocol_version is_multi_part",
    "compact": "table_path status checkpoint_version num_actions num_files protocol_version is_multi_part",
    "truncate_time_travel": "table_path status checkpoint_version versions_deleted checkpoints_deleted files_preserved "
    "message",
    "purge": "table_path status orphaned_files_found orphaned_files_deleted size_mb_deleted retention_hours "
    "tx_log_files_deleted manifests_deleted expired_states_found expired_states_deleted dry_run duration_ms message",
    "state": "table_path format version num_files num_manifests num_tombstones tombstone_ratio total_bytes "
    "needs_compaction num_skipped skipped_files status",
    "history": "version timestamp operation parameters read_version files_added files_removed records_added txn_id "
    "engine",
    "repair": "source_path target_path source_version total_splits valid_splits missing_splits status",
    "merge_splits": "table_path status merged_files merge_groups original_size_bytes merged_size_bytes skipped_files "
    "message",
    "reindex": "table_path status reindexed_files original_size_bytes reindexed_size_bytes skipped_files message",
    "drop_partitions": "table_path status partitions_dropped splits_removed total_size_bytes message",
    "restore": "table_path status restored_version new_version files_added files_removed",
    "prewarm": "table_path status splits fetched_splits fetched_bytes duration_ms",
    "invalidate_cache": "table_path result cache_hits_before cache_misses_before hit_rate_before",
    "flush_search_cache": "cache_type status cleared_entries message",
    "merge_jobs": "job_id table_path status total_groups completed_groups progress_pct duration_ms error_message",
}


@pytest.fixture
def table(tmp_path):
    schema = pa.schema([("message", pa.string()), ("day", pa.string())])
    table = it.Table.create(tmp_path / "table", schema, partition_by=("day",), indexing={"message": "text"})
    for number in range(3):
        table.append(pa.table({"message": [f"{number} errors", "two"], "day": ["2026-01-31", "2025-12-31"]}))
    return table


@pytest.fixture
def options(tmp_path):
    return {"cache.disk.path": str(tmp_path / "cache")}


def test_the_columns_are_those_that_are_promised():
    assert {name: " ".join(COMMANDS[name].schema.names) for name in COLUMNS} == COLUMNS
    assert set(COMMANDS) - set(COLUMNS) == {"describe_log"}
    *first, last = COMMANDS["describe_log"].schema.names
    assert " ".join(first[:7]) == "version log_file_path action_type path partition_values size data_change"
    assert last == "is_checkpoint"
    skipped = COMMANDS["state"].schema.field("skipped_files").type
    assert [field.name for field in skipped.value_type] == ["path", "reason", "skip_count", "retry_after"]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_answers_with_its_schema(table, options, name, tmp_path):
    command = parse_command(COMMANDS[name].example)
    url = None if command.target is None else table.url
    arguments = dict(command.arguments)
    if "target_url" in arguments:
        arguments["target_url"] = str(tmp_path / "target")
    answer = COMMANDS[name].run(url, arguments, options)
    assert answer.schema.equals(COMMANDS[name].schema)


@pytest.mark.parametrize("name", ["checkpoint", "compact", "state", "describe_log", "history", "merge_jobs"])
def test_the_methods_of_a_table_give_the_same(table, options, name):
    table.checkpoint()
    assert COMMANDS[name].run(table.url, {}, options).equals(getattr(table, name)())


def test_every_command_is_a_method_that_takes_its_clauses():
    for name, spec in COMMANDS.items():
        method = getattr(it if name == "repair" else it.Table, name)
        assert parse_command(spec.example).arguments.keys() <= inspect.signature(method).parameters.keys()


def test_a_command_needs_its_table(tmp_path):
    with pytest.raises(ConfigError, match="cannot write a checkpoint because no table is named"):
        COMMANDS["checkpoint"].run(None, {}, {})
    with pytest.raises(TableNotFoundError, match="No transaction log found"):
        COMMANDS["checkpoint"].run(str(tmp_path / "nowhere"), {}, {})


def test_options_reach_the_work(table):
    COMMANDS["checkpoint"].run(table.url, {}, {"spark.indextables.state.format": "json"})
    assert table.state()["format"].to_pylist() == ["json"]
    with pytest.raises(ConfigError, match="formt"):
        COMMANDS["state"].run(table.url, {}, {"state.formt": "json"})
