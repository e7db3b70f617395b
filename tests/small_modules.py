"""Print the modules that may belong into another: short ones that one module alone imports.

    python -m tests.small_modules

It is a note of `make check`, not an error: some ideas are short.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_SOURCE = Path(__file__).resolve().parents[1] / "src"
_FEW_LINES = 40


def small_modules() -> Iterator[tuple[str, int, str]]:
    """Each module of few lines with one importer: its name, its number of lines, and the importer."""
    import grimp

    graph = grimp.build_graph("indextables")
    for path in sorted(_SOURCE.glob("indextables/**/*.py")):
        name = ".".join(path.relative_to(_SOURCE).with_suffix("").parts)
        num_lines = len(path.read_text().splitlines())
        if path.stem == "__init__" or num_lines >= _FEW_LINES:
            continue
        importers = graph.find_modules_that_directly_import(name)
        if len(importers) == 1:
            yield name, num_lines, importers.pop()


if __name__ == "__main__":
    for name, num_lines, importer in small_modules():
        print(f"note: {name} has {num_lines} lines, and only {importer} imports it")
