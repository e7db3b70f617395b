"""The sample is the same every time, looks like logs, and has exactly the needles it tells of."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("numpy", reason="NumPy comes with pandas, which is not installed")

DAY = dt.timedelta(days=1)


@pytest.fixture(scope="module")
def logs():
    from indextables.demo import sample_logs

    return sample_logs


@pytest.fixture(scope="module")
def table(logs):
    return pa.Table.from_batches(logs.sample_logs(120_000, rows_per_batch=10_000))


def test_rows_days_and_columns_are_as_asked(logs, table):
    assert table.schema == logs.SCHEMA
    assert table.num_rows == 120_000
    days = {row["values"]: row["counts"] for row in pc.value_counts(table["day"]).to_pylist()}
    assert days == {logs.FIRST_DAY + number * DAY: 24_000 for number in range(5)}
    assert {name for name in table.column_names if table[name].null_count} == {"status", "latency_ms", "user"}


def test_time_goes_on_and_stays_within_its_day(table):
    ts = table["ts"].cast(pa.int64())
    assert pc.all(pc.less_equal(ts[:-1], ts[1:])).as_py()
    assert pc.all(pc.equal(table["ts"].cast(pa.timestamp("us")).cast(pa.date32()), table["day"])).as_py()


def test_the_same_arguments_give_the_same_rows(logs):
    first = pa.Table.from_batches(logs.sample_logs(9_000, seed=3, rows_per_batch=1_000))
    assert first.equals(pa.Table.from_batches(logs.sample_logs(9_000, seed=3, rows_per_batch=1_000)))
    other = pa.Table.from_batches(logs.sample_logs(9_000, seed=4, rows_per_batch=1_000))
    assert set(first["trace_id"].to_pylist()).isdisjoint(other["trace_id"].to_pylist())
    assert first["message"].to_pylist() != other["message"].to_pylist()


@pytest.mark.parametrize(
    ("num_rows", "days", "rows_per_batch"), [(10_007, 3, 1_000), (5, 7, 2), (1_000, 1, 1_000), (0, 5, 10)]
)
def test_shares_make_up_the_whole_and_none_crosses_midnight(logs, num_rows, days, rows_per_batch):
    sizes = {"days": days, "rows_per_batch": rows_per_batch}
    whole = list(logs.sample_logs(num_rows, **sizes))
    count = logs.num_batches(num_rows, **sizes)
    assert whole == [logs.sample_batch(number, num_rows, **sizes) for number in range(count)]
    assert sum(batch.num_rows for batch in whole) == num_rows
    assert all(0 < batch.num_rows <= rows_per_batch and len(batch["day"].unique()) == 1 for batch in whole)
    for number in (-1, count):
        with pytest.raises(IndexError, match=f"there is no batch {number}"):
            logs.sample_batch(number, num_rows, **sizes)


@pytest.mark.parametrize(("num_rows", "days"), [(120_000, 5), (20_011, 7), (3_000, 1), (500, 5), (59, 2), (0, 1)])
def test_needles_are_there_as_often_as_is_told(logs, num_rows, days):
    batches = list(logs.sample_logs(num_rows, days=days, rows_per_batch=7_000))
    table = pa.Table.from_batches(batches, logs.SCHEMA)
    for needle in logs.needles(num_rows, days).values():
        hits = table.filter(pc.match_like(table["message"], needle.like))
        assert hits.num_rows == needle.num_rows
        if needle.day is not None:
            assert set(hits["day"].to_pylist()) <= {needle.day}


def test_a_large_sample_has_ten_rare_rows_everywhere_and_ten_in_one_day(logs, table):
    needles = logs.needles(120_000)
    assert [needle.num_rows for needle in needles.values()] == [10, 10, 120]
    rare = table.filter(pc.match_like(table["message"], needles["everywhere"].like))
    assert len(pc.unique(rare["day"])) == 5


def test_the_words_of_the_phrase_stand_elsewhere_too(logs, table):
    phrase = logs.needles(120_000)["phrase"]
    for word in ("certificate", "chain", "rejected"):
        assert pc.sum(pc.match_substring(table["message"], word)).as_py() > 3 * phrase.num_rows


def test_lines_look_like_logs(table):
    lengths = pc.min_max(pc.utf8_length(table["message"])).as_py()
    assert lengths["min"] >= 60
    assert lengths["max"] <= 160
    assert len(pc.unique(table["message"])) > 0.99 * table.num_rows
    levels = {row["values"]: row["counts"] for row in pc.value_counts(table["level"]).to_pylist()}
    assert levels["INFO"] > levels["WARN"] > levels["ERROR"] > levels["FATAL"] > 0
    errors = table.filter(pc.and_(pc.equal(table["level"], "ERROR"), pc.is_valid(table["status"])))
    assert pc.min(errors["status"]).as_py() >= 500


def test_a_line_tells_the_same_as_its_columns(table):
    requests = table.filter(pc.is_valid(table["status"]))
    said = pc.extract_regex(requests["message"], r"returned (?P<status>\d+) in (?P<latency>[\d.]+) ms")
    assert pc.struct_field(said, "status").to_pylist() == requests["status"].cast(pa.string()).to_pylist()
    assert pc.struct_field(said, "latency").cast(pa.float64()).to_pylist() == requests["latency_ms"].to_pylist()


def test_trace_ids_are_hexadecimal_and_unique(table):
    assert len(pc.unique(table["trace_id"])) == table.num_rows
    assert pc.all(pc.match_substring_regex(table["trace_id"], "^[0-9a-f]{32}$")).as_py()


def test_words_are_as_frequent_as_one_over_their_rank(logs):
    import numpy as np

    ranks = np.bincount(logs._frequent_first(np.random.default_rng(1), 200_000, 100), minlength=100)
    assert ranks[0] / ranks[9] == pytest.approx(7.3, rel=0.2)  # log 2 / log 1.1
    assert ranks.min() > 0
