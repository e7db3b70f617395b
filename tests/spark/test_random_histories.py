"""Tables that are written, changed and cached between reads give what plain Parquet copies give, in every session."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.spark.random_histories import History, Sessions, WrongAnswerError

pytestmark = pytest.mark.slow

_STEPS = 12


@pytest.fixture
def sessions(enabled, spark, connect) -> Sessions:
    return Sessions(enabled, spark, connect)


def test_histories_by_chance(sessions, seeds, tmp_path) -> None:
    for seed in seeds(10, 0, 1):
        History(seed, tmp_path / str(seed), sessions, Counter()).run(_STEPS)


def test_a_wrong_answer_is_told_with_what_was_done_before(sessions, tmp_path, monkeypatch) -> None:
    history = History(1, tmp_path, sessions, Counter())
    monkeypatch.setattr(History, "_step", History._search_in_python)
    monkeypatch.setattr(History, "_show_copy", lambda self: None)
    with pytest.raises(WrongAnswerError, match=r"and not \[\]\nafter\n.*\nappend"):
        history.run(20)
