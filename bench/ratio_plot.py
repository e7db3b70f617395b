"""Ratios to other libraries as a drawing for people.

`python -m bench.ratio_plot FIGURES.json ... --svg PATH` draws figures that `python -m bench --json` wrote; of several
files the last with a figure counts. The same figures give the same bytes. Text and lines suit light and dark pages.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click


class Row(NamedTuple):
    """One ratio: our time in times of a peer."""

    label: str
    peer: str
    ratio: float


Chosen = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Labels, and for each the names of figures with their yardsticks."""

_WIDTH, _LEFT, _RIGHT, _TOP, _LINE = 860, 400, 70, 64, 20
_TICKS = (0.01, 0.1, 1, 10)
_LOW, _HIGH = 0.004, 40.0
_STYLE = """
text{font:13px sans-serif;fill:#24292f}
.small{font-size:12px;fill:#57606a}
.grid{stroke:#8c959f;stroke-opacity:.35}
.one{stroke:#57606a;stroke-width:1.5}
.ahead{fill:#1a7f37;stroke:#1a7f37}
.behind{fill:#bc4c00;stroke:#bc4c00}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9da7b1}.one{stroke:#9da7b1}
.ahead{fill:#3fb950;stroke:#3fb950}.behind{fill:#f0883e;stroke:#f0883e}}
""".replace("\n", "")


_LANCE, _SQLITE, _DUCKDB, _INFINO = "Lance FTS", "SQLite FTS5", "DuckDB over Parquet", "infino"
_NEW = "search: new word each time"
CHOSEN: Chosen = (
    ("count a new word", [(f"{_NEW}, many hits, count, CPU", peer) for peer in (_LANCE, _SQLITE, _INFINO)]),
    ("3 columns of a new word's rows", [(f"{_NEW}, many hits, 3 columns, CPU", peer) for peer in (_LANCE, _INFINO)]),
    (
        "all columns of a new word's rows",
        [(f"{_NEW}, many hits, all columns, CPU", peer) for peer in (_LANCE, _INFINO)],
    ),
    ("count in 200 small splits", [("many-splits: 200 splits, count, 10 hits, together, CPU", _LANCE)]),
    ("count in 1,000 small splits", [("many-splits: 1000 splits, count, 10 hits, together, CPU", _LANCE)]),
    ("10 rows of 200 small splits", [("many-splits: 200 splits, 10 rows of 10, all columns, together, CPU", _LANCE)]),
    (
        "10 rows, first touch of 200 splits",
        [("many-splits: 200 splits, 10 rows of 10, all columns, together, by pages, CPU", _LANCE)],
    ),
    ("count by a range of a number", [("predicates: range of a number, by rows, CPU", _DUCKDB)]),
    ("count by a keyword", [("predicates: keyword, index at hand, CPU", _DUCKDB)]),
    ("count by a range of time", [("predicates: range of time, by rows, CPU", _DUCKDB)]),
)
"""What docs/benchmarks.md shows, in time of the processor."""


def rows_of(reports: Sequence[Mapping[str, Any]], chosen: Chosen) -> list[Row]:
    """Find the chosen ratios in reports; refuse to draw with one missing."""
    known = {
        (figure["name"], figure["yardstick"]): figure["ratio"] for report in reports for figure in report["figures"]
    }
    missing = [f"{name} ({peer})" for _, figures in chosen for name, peer in figures if not known.get((name, peer))]
    if missing:
        raise click.ClickException(f"the reports lack figures: {'; '.join(missing)}")
    return [Row(label, peer, known[name, peer]) for label, figures in chosen for name, peer in figures]


def drawing(rows: Sequence[Row]) -> str:
    """The ratios as SVG, on a logarithmic axis with a line at 1."""
    height = _TOP + _LINE * len(rows) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>Our time in times of other libraries</title><style>{_STYLE}</style>",
        f'<text x="{_at(1) - 8:.0f}" y="18" text-anchor="end">we are faster</text>',
        f'<text x="{_at(1) + 8:.0f}" y="18">the other is faster</text>',
    ]
    for tick in _TICKS:
        kind = "one" if tick == 1 else "grid"
        parts.append(f'<text class="small" x="{_at(tick):.1f}" y="40" text-anchor="middle">{tick:g} x</text>')
        parts.append(
            f'<line class="{kind}" x1="{_at(tick):.1f}" x2="{_at(tick):.1f}" y1="{_TOP - 16}" y2="{height - 10}"/>'
        )
    last = None
    for number, row in enumerate(rows):
        parts += _drawn(row, _TOP + _LINE * number, is_new=row.label != last)
        last = row.label
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(row: Row, y: int, *, is_new: bool) -> list[str]:
    kind = "ahead" if row.ratio <= 1 else "behind"
    end = _at(row.ratio)
    label = f'<text x="8" y="{y + 4}">{html.escape(row.label)}</text>' if is_new else ""
    return [
        f'{label}<text class="small" x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{html.escape(row.peer)}</text>',
        f'<line class="{kind}" stroke-width="6" x1="{_at(1):.1f}" x2="{end:.1f}" y1="{y}" y2="{y}"/>'
        f'<text class="small" x="{end + (-8 if row.ratio <= 1 else 8):.1f}" y="{y + 4}" '
        f'text-anchor="{"end" if row.ratio <= 1 else "start"}">{row.ratio:.2g}</text>',
    ]


def _at(ratio: float) -> float:
    """Where a ratio stands from left to right."""
    share = math.log(min(max(ratio, _LOW), _HIGH) / _LOW) / math.log(_HIGH / _LOW)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


@click.command()
@click.argument("reports", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--svg", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Write the drawing here.")
def main(reports: tuple[Path, ...], svg: Path) -> None:
    """Draw the ratios in reports of benchmarks."""
    svg.write_text(drawing(rows_of([json.loads(path.read_text()) for path in reports], CHOSEN)))


if __name__ == "__main__":
    main()
