"""The lower bounds of `pyproject.toml`, of which `make test-lowest` makes constraints."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lowest_bounds import lowest_bounds

PROJECT = """
[project]
name = "example"
dependencies = ["one>=1.2", "two[extra]>=3,<4", "three==5.0.1"]
[project.optional-dependencies]
dev = ["one>=1.10", "example[more]", "four~=2.1; python_version > '3'"]
"""


def test_every_dependency_has_its_lower_bound() -> None:
    assert lowest_bounds(PROJECT) == {"one": "1.10", "two": "3", "three": "5.0.1", "four": "2.1"}


def test_a_dependency_without_a_lower_bound_is_an_error() -> None:
    with pytest.raises(ValueError, match="`one<2` because it has no lower bound"):
        lowest_bounds(PROJECT.replace("one>=1.2", "one<2"))


def test_the_bounds_of_this_project_can_be_proven() -> None:
    bounds = lowest_bounds((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert {"obstore", "pyarrow", "datafusion", "pyspark", "pytest"} <= bounds.keys()
    assert int(bounds["datafusion"]) >= 54, "older ones cannot decode our manifests"
