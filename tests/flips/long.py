"""Flips in as many places as one likes.

    python -m tests.flips.long --most 200 --json
    python -m tests.flips.long --most 20 --spark --region "split page header"

`--most` bounds the flips in every region of every file. Exit code 1 where an answer was wrong.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.flips.counting import Report, flip_everything


def main() -> int:
    options = _options()
    logging.disable(logging.WARNING)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="indextables-flips-") as home:
        if options.spark:
            from tests.flips.in_spark import flip_in_new_session

            report = flip_in_new_session(
                Path(home), most=options.most, regions=options.region, ways=options.way, minutes=options.minutes
            )
        else:
            report = flip_everything(Path(home), most=options.most, say=lambda what: print(what, file=sys.stderr))
    _show(report, time.monotonic() - started, as_json=options.json)
    return 1 if report.wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.flips.long")
    parser.add_argument("--most", type=int, default=50, help="flips in every region of every file")
    parser.add_argument("--spark", action="store_true", help="read through Spark")
    parser.add_argument("--region", action="append", default=[], help="only this one, in Spark; may be given again")
    parser.add_argument("--way", action="append", default=[], help="the same for ways to read, as `native filter`")
    parser.add_argument("--minutes", type=float, help="how long at most, in Spark")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _show(report: Report, seconds: float, *, as_json: bool) -> None:
    if as_json:
        facts = {"flips": report.num_flips, "right": report.right, "refused": report.refused, "wrong": report.wrong}
        print(json.dumps(facts))
        return
    for name in sorted({*report.right, *report.refused}):
        print(f"{name:<24} {report.right[name]:>8,} right {report.refused[name]:>8,} refused")
    for wrong in report.wrong:
        print(f"WRONG: {wrong}")
    totals = f"{report.right.total():,} right answers, {report.refused.total():,} errors, {len(report.wrong)} wrong"
    print(f"{report.num_flips:,} flips in {seconds:.0f} seconds: {totals}")


if __name__ == "__main__":
    sys.exit(main())
