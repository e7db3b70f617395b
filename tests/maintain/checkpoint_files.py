"""States and checkpoints on local disk, as tests want them: written in older formats, damaged, taken away."""

from __future__ import annotations

from pathlib import Path

import indextables as it
from indextables.protocol.names import state_keys

WHOLE = 10**9
IN_PARTS = 400


def write_json_checkpoint(log: it.TransactionLog, max_bytes: int = WHOLE) -> None:
    _write(log, "json", max_bytes)


def write_parquet_checkpoint(log: it.TransactionLog, max_bytes: int = WHOLE) -> None:
    _write(log, "parquet", max_bytes)


def _write(log: it.TransactionLog, kind: str, max_bytes: int) -> None:
    it.TransactionLog(log.url, options={"state.format": kind, "checkpoint.maxFileSize": max_bytes}).checkpoint()


def damage_state(log: it.TransactionLog, version: int) -> None:
    path = Path(log.url, state_keys(version)[0])
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def remove_versions(log: it.TransactionLog, below: int) -> None:
    for version in range(below):
        Path(log.url, "_transaction_log", f"{version:020d}.json").unlink()
