"""Print the lower bound of every dependency in `pyproject.toml` as a constraint for pip.

    python tests/lowest_bounds.py > lowest.txt

A requirement without a lower bound is an error: nothing would prove it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?(?P<bounds>[^;]*)")


def lowest_bounds(text: str) -> dict[str, str]:
    """The lower bound of each dependency of a project, by name; the highest where several are given."""
    project = tomllib.loads(text)["project"]
    found: dict[str, str] = {}
    for requirement in _requirements(project):
        match = _REQUIREMENT.match(requirement)
        if match is None or match["name"] == project["name"]:
            continue
        bounds = [bound.strip() for bound in match["bounds"].split(",")]
        lower = next((bound[2:].strip() for bound in bounds if bound[:2] in (">=", "==", "~=")), None)
        if lower is None:
            raise ValueError(f"cannot prove `{requirement}` because it has no lower bound")
        found[match["name"]] = max(found.get(match["name"], lower), lower, key=_numbers)
    return found


def _requirements(project: dict[str, dict[str, list[str]]]) -> Iterator[str]:
    yield from project["dependencies"]
    for requirements in project["optional-dependencies"].values():
        yield from requirements


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", version)]


if __name__ == "__main__":
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    sys.stdout.writelines(f"{name}=={lower}\n" for name, lower in lowest_bounds(pyproject.read_text()).items())
