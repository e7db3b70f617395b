"""Reindex: splits become as the table says, with the same rows, by the rules of a merge."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from indextables.errors import ConfigError, QueryError, SchemaError
from indextables.maintain.workers import InlineWorkers, working_with
from indextables.runtime.progress import reporting_to

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("msg", pa.string())])


def rows(first: int, day: str) -> pa.Table:
    given = [{"id": number, "day": day, "msg": f"foo bar {number}"} for number in range(first, first + 3)]
    return pa.Table.from_pylist(given, schema=SCHEMA)


@pytest.fixture
def table(tmp_path) -> it.Table:
    """Four splits that keep messages whole, and one that splits them into words, as the table says."""
    options = {"cache.disk.path": str(tmp_path / "cache")}
    table = it.Table.create(tmp_path / "t", SCHEMA, partition_by=("day",), options=options)
    for number, day in enumerate("abab"):
        table.append(rows(3 * number, day))
    table.set_properties({"indexing.msg": "text"})
    table.append(rows(12, "c"))
    return table


def paths(table: it.Table) -> set[str]:
    return set(table.files()["path"].to_pylist())


def found(table: it.Table, query: str = "foo") -> list[int]:
    return sorted(table.search(query)["id"].to_pylist())


def mappings(table: it.Table) -> int:
    return len(set(table.files()["doc_mapping_json"].to_pylist()))


def only_row(answer: pa.Table) -> dict[str, object]:
    (row,) = answer.to_pylist()
    return row


def test_splits_become_as_the_table_says(table, monkeypatch) -> None:
    before, content = paths(table), table.search().sort_by("id")
    told: list[tuple[str, int, int]] = []
    with reporting_to(lambda *progress: told.append(progress)):
        answer = only_row(table.reindex())
    assert (answer["status"], answer["reindexed_files"], answer["skipped_files"]) == ("SUCCESS", 4, 0)
    assert answer["reindexed_size_bytes"] == sum(table.files()["size"].to_pylist()) - max(
        size
        for path, size in zip(table.files()["path"].to_pylist(), table.files()["size"].to_pylist(), strict=True)
        if path in before
    )
    assert told[0] == ("reindexing splits", 0, 4)
    assert told[-1] == ("reindexing splits", 4, 4)
    assert mappings(table) == 1
    assert len(paths(table) - before) == 4
    assert table.search().sort_by("id").equals(content)
    monkeypatch.setattr("indextables.split.search.searcher.index_again", None)
    assert found(table) == list(range(15))
    assert only_row(table.reindex())["status"] == "NO_ACTION"
    assert table.fsck().num_rows == 0


def test_the_version_changes_no_data(table) -> None:
    table.reindex()
    actions = table.log.read_version(table.version)
    changed = {type(action).__name__: action.data_change for action in actions if hasattr(action, "data_change")}
    assert changed == {"Add": False, "Remove": False}
    assert table.history(limit=1)["operation"].to_pylist() == ["REINDEX"]
    assert {add.num_merge_ops or 0 for add in actions if isinstance(add, it.actions.Add)} == {0}


def test_where_and_columns_choose_splits(table) -> None:
    before = paths(table)
    assert only_row(table.reindex(columns=["id", "day"]))["status"] == "NO_ACTION"
    plan = only_row(table.reindex(where="id < 2", dry_run=True))
    assert (plan["status"], plan["reindexed_files"]) == ("DRY_RUN", 1)
    assert paths(table.refresh()) == before
    assert only_row(table.reindex(where="day = 'a'", columns=["msg"]))["reindexed_files"] == 2
    assert only_row(table.reindex())["reindexed_files"] == 2
    assert found(table) == list(range(15))


def test_one_split_is_reindexed_in_any_case(table) -> None:
    first, *others = sorted(paths(table))
    assert only_row(table.reindex(splits=[first]))["reindexed_files"] == 1
    assert set(others) < paths(table)
    (anew,) = paths(table) - set(others)
    assert only_row(table.reindex(splits=[anew]))["reindexed_files"] == 1
    assert anew not in paths(table)
    assert found(table) == list(range(15))
    with pytest.raises(ConfigError, match="not part of the table"):
        table.reindex(splits=[first])


def test_what_cannot_be_is_refused_before_anything_is_done(table) -> None:
    version = table.version
    for arguments in ({"columns": ["mesg"]}, {"columns": "msg"}, {"splits": "x"}, {"where": "nosuch = 1"}):
        with pytest.raises((SchemaError, ConfigError, QueryError)):
            table.reindex(**arguments)
    assert table.refresh().version == version


def test_a_split_that_another_writer_removed_is_given_up(table, monkeypatch) -> None:
    from indextables.maintain.merge import merge_splits

    real = merge_splits.combine_group

    def losing(log, head, group, **rules):
        if group.partition_values == {"day": "a"} and "a" in days(table.refresh()):
            it.Table.open(table.url).drop_partitions("day = 'a'")
        return real(log, head, group, **rules)

    monkeypatch.setattr(merge_splits, "combine_group", losing)
    with working_with(InlineWorkers()):
        answer = only_row(table.reindex())
    assert (answer["status"], answer["reindexed_files"]) == ("PARTIAL", 2)
    assert "2 splits were given up because other writers removed splits to be reindexed" in answer["message"]
    assert found(table) == [3, 4, 5, 9, 10, 11, 12, 13, 14]
    assert {str(path.relative_to(table.url)) for path in Path(table.url).rglob("day=a/**/*.split")}.isdisjoint(
        paths(table)
    )
    assert table.fsck().num_rows == 0


def days(table: it.Table) -> set[str]:
    return set(table.search(columns=["day"])["day"].to_pylist())


def test_a_damaged_split_is_skipped_and_stays(table) -> None:
    path = sorted(paths(table))[0]
    damaged = Path(table.url, path)
    damaged.write_bytes(damaged.read_bytes()[:-10])
    answer = only_row(table.reindex())
    assert (answer["status"], answer["reindexed_files"], answer["skipped_files"]) == ("PARTIAL", 3, 1)
    assert path in paths(table)
    assert [skip.operation for skip in table.log.skipped_files()] == ["reindex"]
    again = only_row(table.reindex())
    assert again["status"] == "NO_ACTION"
    assert "cooldown" in again["message"]


def test_a_merge_indexes_as_the_table_says(table) -> None:
    table.merge_splits()
    assert mappings(table) == 1
    assert found(table) == list(range(15))
    assert only_row(table.reindex())["status"] == "NO_ACTION"


def test_a_table_without_splits_has_nothing_to_reindex(tmp_path) -> None:
    empty = it.Table.create(tmp_path / "empty", SCHEMA)
    assert only_row(empty.reindex())["status"] == "NO_ACTION"


def test_an_append_meanwhile_stays_as_it_was_written(table, monkeypatch) -> None:
    from indextables.maintain.merge import merge_splits

    real, done = merge_splits.combine_group, []

    def appending(log, head, group, **rules):
        if not done:
            done.append(it.Table.open(table.url).append(rows(100, "d")))
        return real(log, head, group, **rules)

    monkeypatch.setattr(merge_splits, "combine_group", appending)
    with working_with(InlineWorkers()):
        assert only_row(table.reindex())["reindexed_files"] == 4
    assert found(table) == [*range(15), 100, 101, 102]
