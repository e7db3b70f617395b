"""The long mode, for a moment."""

from __future__ import annotations

import json

from tests.simulator import long


def test_a_moment_of_it(capsys) -> None:
    assert long.main(["--minutes", "0.02", "--seed", "3", "--processes", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["histories"] + found["runs_of_schedules"] > 0
    assert found["store_calls"] > 0
    assert found["rows_lost"] == 0
    assert found["violations"] == []


def test_a_violation_is_told_with_its_name(monkeypatch) -> None:
    def fails(name):
        raise AssertionError("version 3 has lost rows")

    monkeypatch.setattr(long, "run_history", fails)
    worker = long.Worker(1, 0, 1, None)
    worker._simulate("rows")
    violation = worker._tally.violations[0]
    assert violation["name"].startswith("rows/")
    assert worker._tally.rows_lost == 1


def test_a_history_is_seen_again_by_its_name(capsys) -> None:
    assert long.main(["--again", "rows/together/often/7"]) == 0
    assert "fine" in capsys.readouterr().out
