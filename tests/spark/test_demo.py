"""The parts of the demo: where its table goes, the rows of a day, and how they look. The demo itself is run as a
command."""

from __future__ import annotations

import io
import os

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("numpy", reason="numpy is not installed")

import indextables as it
from indextables.demo.report import Report, duration
from indextables.demo.sample_logs import FIRST_DAY, NUM_DAYS, ROWS_PER_BATCH, SampleLogs, rows_per_batch, sample_logs
from indextables.demo.stations import NAME, make_room
from indextables.errors import ConfigError

SCHEMA = pa.schema([("day", pa.string()), ("a", pa.int64())])


def make_table(place, name):
    table = it.Table.create(place, SCHEMA, partition_by=("day",), name=name)
    table.append(pa.table({"day": ["x"], "a": [1]}, schema=SCHEMA))
    return table


class TestPlace:
    @pytest.mark.parametrize("made", [None, "", "a/b"])
    def test_a_place_without_a_file_is_free(self, tmp_path, monkeypatch, made):
        monkeypatch.chdir(tmp_path)
        if made is not None:
            os.makedirs(os.path.join("here", made))
        assert make_room("here") == str(tmp_path / "here")

    def test_an_earlier_demo_is_removed(self, tmp_path):
        make_table(tmp_path / "t", NAME)
        assert make_room(str(tmp_path / "t")) == str(tmp_path / "t")
        assert os.listdir(tmp_path / "t") == []

    def test_a_removal_that_was_interrupted_is_ended(self, tmp_path):
        table = make_table(tmp_path / "t", NAME)
        for path in table.files()["path"].to_pylist():
            os.unlink(tmp_path / "t" / path)
        make_room(table.url)
        assert os.listdir(tmp_path / "t") == []

    @pytest.mark.parametrize("kind", ["file", "other table", "other file", "link"])
    def test_anything_else_stays(self, tmp_path, kind):
        place = tmp_path / "t"
        if kind == "file":
            place.write_text("precious")
        elif kind == "other table":
            make_table(place, "mine")
        elif kind == "other file":
            make_table(place, NAME)
            (place / "thesis.txt").write_text("precious")
        else:
            make_table(tmp_path / "elsewhere", NAME)
            place.symlink_to(tmp_path / "elsewhere")
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(ConfigError, match="it holds files that no demo has created"):
            make_room(str(place))
        assert sorted(tmp_path.rglob("*")) == before

    def test_it_is_on_this_machine(self):
        with pytest.raises(ConfigError, match="cannot put the demo at `s3://bucket/logs`"):
            make_room("s3://bucket/logs")


class TestRows:
    @pytest.mark.parametrize("num_rows", [1_000, 1_005, 2_525, 7_000])
    def test_the_days_together_are_the_sample(self, num_rows):
        made = []
        for day in range(NUM_DAYS):
            source = SampleLogs({"rows": str(num_rows), "day": str(day)})
            reader = source.reader(source.schema())
            batches = [batch for part in reader.partitions() for batch in reader.read(part)]
            rows = pa.Table.from_batches(batches)
            assert {moment.toordinal() for moment in rows["day"].to_pylist()} == {FIRST_DAY.toordinal() + day}
            assert rows.num_rows == num_rows // NUM_DAYS
            made.append(rows)
        whole = sample_logs(num_rows, days=NUM_DAYS, rows_per_batch=rows_per_batch(num_rows))
        assert pa.concat_tables(made).sort_by("trace_id").equals(pa.Table.from_batches(whole).sort_by("trace_id"))

    @pytest.mark.parametrize(("num_rows", "expected"), [(300_000, 30_000), (1_000_000, 50_000), (10_000_000, 50_000)])
    def test_the_tasks_of_a_day_are_equally_busy(self, num_rows, expected):
        assert rows_per_batch(num_rows) == expected <= ROWS_PER_BATCH


class TestReport:
    @pytest.fixture
    def report(self, monkeypatch):
        monkeypatch.setenv("COLUMNS", "40")
        report = Report()
        report.console.file = io.StringIO()
        return report

    def test_found_words_are_shown_without_their_marks(self, report):
        report.rows(pa.table({"n": [1234], "_snippet": ["a <b>found</b> [word]"]}))
        assert "1,234   a found [word]" in report.console.file.getvalue()

    def test_lines_to_copy_are_never_folded(self, report):
        report.code("x" * 100)
        assert "x" * 100 in report.console.file.getvalue()

    def test_tables_keep_a_distance(self, report):
        for _ in range(2):
            report.table([("a", False)], [["b"]])
        assert report.console.file.getvalue().split() == ["a", "─", "b", "a", "─", "b"]
        assert "b\n\na" in report.console.file.getvalue()

    def test_bars_are_as_long_as_their_values(self, report):
        assert [len(report.bar(value, 10)) for value in (0, 5, 10)] == [0, 15, 30]
        assert report.bar(0, 0) == ""

    def test_progress_is_for_terminals_alone(self, report):
        with report.progress(2) as begin, report.busy("waiting"):
            begin("one")
        assert report.console.file.getvalue() == ""

    @pytest.mark.parametrize(("seconds", "text"), [(0.0454, "45 ms"), (2.06, "2.1 s")])
    def test_durations(self, seconds, text):
        assert duration(seconds) == text
