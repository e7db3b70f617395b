"""Explain a search: what each stage leaves out, reads and costs.

Without a run only the log is asked: the splits that partitions and statistics leave. A run does the search, counts its
requests and drops its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from indextables.arrow_values import to_table
from indextables.clock import SYSTEM_CLOCK
from indextables.runtime.tally import FILTERS, FOOTERS, INDEX, PLAN, ROWS, SEARCH, SHEETS, Tally
from indextables.scan.split_scan import TableScan

SCHEMA = pa.schema(
    [
        ("stage", pa.string()),
        ("splits", pa.int64()),
        ("left_out", pa.int64()),
        ("cached", pa.int64()),
        ("requests", pa.int64()),
        ("bytes", pa.int64()),
        ("rows", pa.int64()),
        ("milliseconds", pa.float64()),
    ]
)
_REST = "rest"
_WORK = (SHEETS, FOOTERS, FILTERS, INDEX, SEARCH, ROWS)
_COUNTED = {
    SHEETS: ("splits", "left_out", "requests", "bytes"),
    FOOTERS: ("splits", "cached", "requests", "bytes"),
    FILTERS: ("splits", "left_out", "requests", "bytes"),
    INDEX: ("splits", "cached", "requests", "bytes"),
    SEARCH: ("splits", "rows"),
    ROWS: ("splits", "cached", "requests", "bytes", "rows"),
}


def explain(make_scan: Callable[[], TableScan], run: Callable[[TableScan], pa.Table] | None) -> pa.Table:
    """Return one row per stage of a search; without a run only those of the log."""
    tally = Tally()
    start = SYSTEM_CLOCK.monotonic()
    with tally.active(PLAN):
        scan = make_scan()
    rows = _of_the_log(tally.of(PLAN))
    if run is not None:
        with tally.active(_REST):
            found = run(scan)
        rows += [_of_work(stage, tally.of(stage)) for stage in _WORK if stage != SHEETS or tally.of(stage)]
        rows.append(_total(tally, found.num_rows, SYSTEM_CLOCK.monotonic() - start))
    return to_table(rows, SCHEMA)


def _of_the_log(counts: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the rows of the stages that the log decides."""
    live, by_partitions, by_statistics = (counts[name] for name in ("splits", "by_partitions", "by_statistics"))
    return [
        _row("partitions", splits=live, left_out=by_partitions),
        _row("statistics", splits=live - by_partitions, left_out=by_statistics, milliseconds=1_000 * counts["seconds"]),
    ]


def _of_work(stage: str, counts: Mapping[str, float]) -> dict[str, Any]:
    shown = {name: counts[name] for name in _COUNTED[stage]}
    return _row(stage, **shown, milliseconds=1_000 * counts["seconds"])


def _total(tally: Tally, num_rows: int, seconds: float) -> dict[str, Any]:
    counts = [tally.of(stage) for stage in (PLAN, _REST, *_WORK)]
    summed = {name: sum(count[name] for count in counts) for name in ("requests", "bytes")}
    return _row("total", **summed, rows=num_rows, milliseconds=1_000 * seconds)


def _row(stage: str, *, milliseconds: float | None = None, **counts: float) -> dict[str, Any]:
    whole = {name: int(number) for name, number in counts.items()}
    return {**dict.fromkeys(SCHEMA.names), "stage": stage, **whole, "milliseconds": milliseconds}
