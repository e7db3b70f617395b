"""Callback for Java: aggregations that the log and the indexes decide."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from indextables.config import settings
from indextables.errors import IndexTablesError
from indextables.scan.aggregate.planned import Measure, planned_answer
from indextables.scan.filter_plan import FilterLimits
from indextables.scan.scan_tasks import shared_splits
from indextables.scan.split_scan import TableScan
from indextables.spark.options.arrow_types import conform_batch, ipc_stream, to_checked_schema
from indextables.spark.options.source_options import SourceOptions
from indextables.spark.scan.planned_scan import asked_snapshot, open_log

logger = logging.getLogger(__name__)


class _Request(NamedTuple):
    """An aggregation as Java asks for it; `options` are those of the scan below it."""

    schema: StructType
    group: str | None
    measures: Sequence[Measure]
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> _Request:
        given = json.loads(text)
        measures = [Measure(*measure) for measure in given["measures"]]
        return cls(StructType.fromJson(json.loads(given["schema"])), given.get("group"), measures, given["options"])


class AnswerAggregate:
    """Callback for Java that answers aggregations of one load."""

    def __init__(self, asked: SourceOptions) -> None:
        self._asked = asked

    def apply(self, text: str) -> bytes:
        """Return rows in Arrow's stream format, or nothing if Spark has to aggregate."""
        try:
            table = self._answer(_Request.parse(text))
        except IndexTablesError as error:  # a scan of Spark reports it, if it reads that split
            logger.info("no index answers an aggregation of `%s`: %s", self._asked.url, error.message)
            return b""
        return b"" if table is None else ipc_stream(table)

    def _answer(self, request: _Request) -> pa.Table | None:
        asked = SourceOptions.parse({**request.options, **self._asked.to_options()})
        log = open_log(asked.url, tuple(sorted(asked.settings.items())))
        snapshot = asked_snapshot(log, asked._replace(table_id=self._asked.table_id))
        config = log.config.with_properties(snapshot.metadata.configuration)
        if (
            config[settings.SCAN_MODE] == "native"
            or snapshot.live_files.num_stored > config[settings.STATE_READ_MAX_FILES]
        ):
            return None
        opened = shared_splits(log.url, tuple(sorted(asked.settings.items())))
        scan = TableScan(snapshot, log.config, opened, query=asked.search, searches=asked.searches, where=asked.where)
        limits = FilterLimits.of(config)
        if scan.tree is not None:
            limits = limits._replace(max_index_bytes=config[settings.SEARCH_DRIVER_MAX_FETCH])
        found = planned_answer(scan, request.group, request.measures, limits)
        return None if found is None else _as_spark(found, request.schema)

    class Java:
        implements = ("java.util.function.Function",)


def _as_spark(table: pa.Table, wanted: StructType) -> pa.Table:
    """Return a table in exactly the types with which Java reads it."""
    checked = to_checked_schema(wanted)
    places = range(len(checked))
    return pa.Table.from_batches([conform_batch(batch, checked, places) for batch in _whole(table)], checked)


def _whole(table: pa.Table) -> list[Any]:
    return list(table.combine_chunks().to_batches())
