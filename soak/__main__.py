"""`python -m soak [parts...]`: long runs on real servers and over faults, to see that nothing is lost."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import rich.console
from tests.servers import missing

_PARTS = ("load", "contest", "writers", "serving", "simulator", "fuzz", "spark")
_SHARES = {"load": 2, "simulator": 1, "fuzz": 1, "spark": 1}
_MOST_MINUTES = {"contest": 2.0, "writers": 5.0, "serving": 10.0}
_SERVERS = ("ceph", "seaweedfs", "azurite", "gcs", "ministack")
_S3_SERVERS = ("ceph", "seaweedfs", "ministack")
_MODULES = {"simulator": "tests.simulator.long", "fuzz": "tests.fuzz.long", "spark": "tests.spark.long"}
_LONGEST_OVERTIME_SECONDS = 900
Say = Callable[[str], None]


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(_PARTS))
@click.option(
    "--minutes",
    type=click.FloatRange(min=0.05),
    default=64.0,
    show_default=True,
    help="Minutes of all parts together: two in five for `load`, if all are run. A contest takes five more, the "
    "writers too, and serving ten.",
)
@click.option(
    "--server", "servers", multiple=True, type=click.Choice(_SERVERS), help="Servers to use; by default all there are."
)
@click.option("--seed", type=int, default=None, help="Decides all faults; by default the day's.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Also write what was seen to this file.")
def main(
    parts: tuple[str, ...], minutes: float, servers: tuple[str, ...], seed: int | None, json_path: Path | None
) -> None:
    """Soak the product: `load` on servers behind a failing proxy, `contest` of 16 writers beside delta-rs, 32 `writers`
    that only commit, `serving` by 16 threads, `simulator`, `fuzz`, and `spark` beside plain Parquet. Ends with an error
    where a row is lost, doubled or wrong, or an input is met with anything but an answer or a documented error.

    Example: python -m soak load --server seaweedfs --minutes 5
    """
    chosen = tuple(dict.fromkeys(parts or _PARTS))
    seed = int(time.strftime("%Y%m%d")) if seed is None else seed
    console = rich.console.Console(stderr=True)
    outcomes: list[dict[str, Any]] = []
    try:
        for part in chosen:
            with console.status(part) as status, _directory() as directory:
                outcomes += _run(part, _minutes(part, chosen, minutes), servers, seed, directory, status.update)
    finally:
        text = json.dumps(outcomes, indent=2)
        print(text)
        if json_path is not None:
            json_path.write_text(text + "\n", encoding="utf-8")


def _minutes(part: str, chosen: tuple[str, ...], minutes: float) -> float:
    """How long a part takes: its share of the time, or what a contest takes beside."""
    if part not in _SHARES:
        return min(minutes, _MOST_MINUTES[part])
    return minutes * _SHARES[part] / sum(_SHARES.get(other, 0) for other in chosen)


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """Kept where a part fails: the journals in it say what was done."""
    directory = Path(tempfile.mkdtemp(prefix="indextables-soak-"))
    try:
        yield directory
    except BaseException:
        click.echo(f"what the processes did is kept in {directory}", err=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)


def _run(
    part: str, minutes: float, servers: tuple[str, ...], seed: int, directory: Path, say: Say
) -> list[dict[str, Any]]:
    if part in _MODULES:
        return [{"part": part, **_module(part, minutes, seed)}]
    if part == "load":
        from soak import load

        kinds = _available(servers or _SERVERS)
        return [{"part": part, **load.run(kind, minutes / len(kinds), seed, directory / kind, say)} for kind in kinds]
    if part == "serving":
        from soak import serving

        return [{"part": part, **serving.run(minutes, directory, say)}]
    s3 = tuple(kind for kind in servers if kind in _S3_SERVERS) or _S3_SERVERS
    if part == "writers":
        from soak import crowd

        return [{"part": part, **crowd.run(_available(s3)[-1], minutes, directory, say)}]
    if importlib.util.find_spec("deltalake") is None:
        raise click.ClickException("`contest` needs delta-rs: pip install 'indextables[bench]'")
    from soak import contest

    (kind, *_) = _available(s3)
    return [{"part": part, **contest.run(kind, minutes, seed, directory, say)}]


def _available(kinds: tuple[str, ...]) -> list[str]:
    reasons = {kind: missing(kind) for kind in kinds}
    for kind, reason in reasons.items():
        if reason:
            click.echo(f"without {kind}: {reason}", err=True)
    found = [kind for kind, reason in reasons.items() if not reason]
    if not found:
        raise click.ClickException("none of the servers can run here")
    return found


def _module(part: str, minutes: float, seed: int) -> dict[str, Any]:
    """What a long run of the tests' own says of itself."""
    command = [sys.executable, "-m", _MODULES[part], "--minutes", str(minutes), "--seed", str(seed), "--json"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=False, text=True, timeout=minutes * 60 + _LONGEST_OVERTIME_SECONDS
    )
    if done.returncode != 0:
        raise click.ClickException(f"{part} found something:\n{done.stdout}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    main()
