"""`contest`: 16 writers that append to one table on one S3 server, by indextables and then by delta-rs.

A proxy that hands everything on counts the conditional puts of both: those above one a commit are tries that lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import deltalake
from tests.servers import Running, running
from tests.servers.proxy import ProxyFault, fault_proxy

import indextables as it
from soak.contest_writer import delta_options
from soak.journal import ACKNOWLEDGED, ROWS_PER_BATCH, SCHEMA, Tried, read_journals
from soak.load import Say
from soak.places import Job
from soak.processes import crew
from soak.verdict import FAULTLESS, verdict

NUM_WRITERS = 16
_VERSION_FILE = re.compile(r"/(?:_transaction_log|_delta_log)/\d{20}\.json(?:\?|$)")


def run(kind: str, minutes: float, seed: int, directory: Path, say: Say) -> dict[str, Any]:
    """Both sides, one after the other. An `AssertionError` where our side loses or doubles anything."""
    with running(kind, directory / kind) as server:
        ours_url, theirs_url = f"{server.url}/contest/ours", f"{server.url}/contest/theirs"
        it.Table.create(ours_url, SCHEMA, indexing={"message": "text"}, options=server.options)
        deltalake.DeltaTable.create(theirs_url, SCHEMA, storage_options=delta_options(server.options))
        ours, tried = _side("ours", server, ours_url, minutes, seed, directory, say)
        found = verdict(ours_url, server.options, tried)
        theirs, written = _side("theirs", server, theirs_url, minutes, seed, directory, say)
        theirs["table"] = _their_table(theirs_url, server, written)
    outcome = {
        "server": kind,
        "minutes": minutes,
        "writers": NUM_WRITERS,
        "ours": {**ours, "table": found},
        "delta-rs": theirs,
    }
    if any(found[name] for name in FAULTLESS):
        raise AssertionError(f"the table is not as it should be: {outcome}")
    return outcome


def _side(
    side: str, server: Running, url: str, minutes: float, seed: int, directory: Path, say: Say
) -> tuple[dict[str, Any], list[Tried]]:
    say(f"{NUM_WRITERS} writers on {server.kind}, {side}")
    journals = directory / side
    journals.mkdir()
    puts: Counter[str] = Counter()

    def count(method: str, path: str, headers: Mapping[str, str]) -> ProxyFault:
        if method == "PUT" and _VERSION_FILE.search(path):
            puts["version"] += 1
        puts["all"] += 1
        return ProxyFault.NONE

    with fault_proxy(server.endpoint, count) as proxy, crew() as workers:
        for number in range(NUM_WRITERS):
            job = Job(url, server.behind(proxy.endpoint), f"{side}-{number}", str(journals), minutes * 60, seed)
            workers.start("contest_writer", job)
        answers = [answer for _, answer in workers.answers()]
    tried = read_journals(journals)
    told = Counter(entry.told for entry in tried)
    seconds = max(answer["seconds"] for answer in answers)
    figures = {
        "commits": told[ACKNOWLEDGED],
        "refused": told["refused"],
        "unknown": told["unknown"],
        "commits_per_second": round(told[ACKNOWLEDGED] / seconds, 2),
        "lost_tries": puts["version"] - told[ACKNOWLEDGED],
        "requests_per_commit": round(puts["all"] / max(told[ACKNOWLEDGED], 1), 1),
        "longest_commit_seconds": round(max(answer["longest"] for answer in answers), 1),
    }
    return figures, tried


def _their_table(url: str, server: Running, tried: Sequence[Tried]) -> dict[str, int]:
    """What became of their rows: batches that were acknowledged and are not there once."""
    table = deltalake.DeltaTable(url, storage_options=delta_options(server.options))
    rows = table.to_pyarrow_table(columns=["writer", "batch"])
    found = Counter(zip(rows["writer"].to_pylist(), rows["batch"].to_pylist(), strict=True))
    wanted = [(entry.partition, entry.batch) for entry in tried if entry.told == ACKNOWLEDGED]
    return {
        "version": table.version(),
        "rows": rows.num_rows,
        "lost": sum(ROWS_PER_BATCH for batch in wanted if batch not in found),
        "doubled": sum(count - ROWS_PER_BATCH for count in found.values() if count > ROWS_PER_BATCH),
    }
