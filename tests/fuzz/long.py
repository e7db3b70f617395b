"""Fuzzing for as long as one likes, or one input again.

    python -m tests.fuzz.long --minutes 10 --seed 1 --json
    python -m tests.fuzz.long --replay version-bytes fuzz-findings/version-bytes-1-17

Exit code 1 where an input has ended badly.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.fuzz.engine import judge
from tests.fuzz.runner import Report, Runner, known_targets

_INPUTS_A_ROUND = 500


def main() -> int:
    options = _options()
    if options.replay is not None:
        name, path = options.replay
        with open(path, "rb") as file:
            print(judge(known_targets()[name], file.read()))
        return 0
    report = fuzz(options.minutes * 60, options.seed, options.keep, options.target)
    _show(report, as_json=options.json)
    return 1 if report.violations else 0


def fuzz(seconds: float, seed: int, keep_in: str, only: list[str] | None) -> Report:
    """Rounds over all targets, new inputs in each, until the time is over."""
    targets = {name: target for name, target in known_targets().items() if not only or name in only}
    runner = Runner(seed, keep_in=keep_in)
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        share = max(1.0, left / len(targets))
        runner.run([(name, max(1, round(_INPUTS_A_ROUND * target.weight))) for name, target in targets.items()], share)
    return runner.report


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.long")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", default="fuzz-findings", help="where the inputs of violations go")
    parser.add_argument("--target", action="append", help="only this one; can be given several times")
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "FILE"), help="use one input again, in this process")
    return parser.parse_args()


def _show(report: Report, *, as_json: bool) -> None:
    facts = report.as_json()
    if as_json:
        print(json.dumps(facts))
        return
    for name, count in report.inputs.items():
        print(f"{count:>9,} {name}: {report.answers.get(name, 0):,} answers, {report.documented.get(name, 0):,} errors")
    print(f"{facts['inputs']:>9,} inputs in {report.seconds:.0f} seconds, {len(report.violations)} violations")
    for violation in report.violations:
        print(f"\n{violation.target} {violation.number}: {violation.kind}\n{violation.what}\n{violation.replay()}")


if __name__ == "__main__":
    sys.exit(main())
