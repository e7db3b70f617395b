"""One flipped bit in a split or a log, read through Spark: the right answer or an error, never a wrong answer."""

from __future__ import annotations

import pytest
from tests.flips.in_spark import flip_in_spark

_REGIONS = (
    "split rows",
    "split page header",
    "split page indexes",
    "split footer",
    "split seal",
    "split index pieces",
    "manifest",
)
_WAYS = ("native filter", "native count", "indexed filter", "indexed count", "driver search", "task search")


@pytest.mark.slow
def test_flips_that_spark_reads(spark, tmp_path) -> None:
    report = flip_in_spark(spark, tmp_path, most=1, regions=_REGIONS, ways=_WAYS, one_of_each=True)
    assert report.num_flips == len(_REGIONS)
    assert report.wrong == []
    assert all(report.refused[name] for name in _REGIONS[:-1])
