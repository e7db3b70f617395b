"""Log rows on disk, built once for all benchmarks that only read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from bench import search_peers
from bench.harness import Setting
from bench.log_rows import log_rows
from bench.search_peers import DuckDbPeer, InfinoPeer, LancePeer, OurPeer, Peer, SqlitePeer

BYTES_PER_MB = 1_000_000

_ROWS: dict[int, pa.Table] = {}


def shared_rows(num_rows: int) -> pa.Table:
    """Log rows, made once."""
    if num_rows not in _ROWS:
        _ROWS.clear()
        _ROWS[num_rows] = log_rows(num_rows)
    return _ROWS[num_rows]


def shared_peers(setting: Setting) -> list[Peer]:
    """Every peer with the same rows, ours first; built where it is not there yet."""
    ours, lance, sqlite, parquet = (
        _built(setting, name, build)
        for name, build in (
            ("logs", search_peers.build_ours),
            ("logs.lance", search_peers.build_lance),
            ("logs.sqlite", search_peers.build_sqlite),
            ("logs.parquet", search_peers.build_parquet),
        )
    )
    return [OurPeer(ours, setting.shared / "index-cache"), LancePeer(lance), SqlitePeer(sqlite), DuckDbPeer(parquet)]


def shared_infino(setting: Setting) -> InfinoPeer | None:
    """The same rows in infino, if it is installed."""
    if not search_peers.has_infino():
        return None
    return InfinoPeer(_built(setting, "logs.infino", search_peers.build_infino))


def num_bytes(path: Path) -> int:
    """The length of a file, or of all files in a directory."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def split_bytes(path: Path) -> int:
    """The length of all splits of a table."""
    return sum(file.stat().st_size for file in path.rglob("*.split"))


def _built(setting: Setting, name: str, build: Callable[[Path, pa.Table], None]) -> Path:
    path = setting.shared / name
    if not path.exists():
        setting.say(f"building {name}")
        unfinished = setting.shared / f"unfinished-{name}"
        build(unfinished, shared_rows(setting.sizes.num_rows))
        unfinished.rename(path)
    return path
