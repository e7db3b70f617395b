"""Indexing of a table's columns, as JSON for our Java classes.

The metadata of columns does not carry it: other writers keep that metadata, and would write the table's name into their
files.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from indextables.config import Config
from indextables.errors import IndexTablesError, SchemaError
from indextables.log.snapshot import Snapshot
from indextables.scan.indexed_fields import table_fields
from indextables.spark.jvm.worker_errors import error_text
from indextables.spark.options.source_options import SourceOptions
from indextables.spark.scan.planned_scan import asked_snapshot, open_log
from indextables.split.index.fields import FieldMap, IndexField


def described_fields(snapshot: Snapshot, config: Config) -> dict[str, str]:
    """Return the indexing of each column as JSON, by column name."""
    try:
        fields = table_fields(snapshot, config)
    except SchemaError:  # the settings do not fit the table, and a write to it is refused
        return {}
    found = ((name, fields.find(name)) for name in snapshot.schema.names)
    return {name: json.dumps(msgspec.to_builtins(field)) for name, field in found if field is not None}


def indexed_field(text: str | None) -> IndexField | None:
    """Parse the indexing of a column; None if it is computed or not ours."""
    return None if text is None else FieldMap.from_json(f"[{text}]").fields[0]


class DescribeLoad:
    """Callback for Java that describes the indexing of the columns of one load."""

    def __init__(self, asked: SourceOptions) -> None:
        self._asked = asked

    def apply(self, _: str) -> bytes | str:
        """Return a JSON object, or the text of an error."""
        return _answer(self._asked)

    class Java:
        implements = ("java.util.function.Function",)


class DescribeStream:
    """Callback for Java that describes a stream's columns, by its options as JSON."""

    def apply(self, options: str) -> bytes | str:
        """Return a JSON object, or the text of an error."""
        try:
            return _answer(SourceOptions.parse(json.loads(options)))
        except IndexTablesError as error:
            return error_text(error)

    class Java:
        implements = ("java.util.function.Function",)


def _answer(asked: SourceOptions) -> bytes | str:
    try:
        log = open_log(asked.url, tuple(sorted(asked.settings.items())))
        snapshot = asked_snapshot(log, asked)
        answer: dict[str, Any] = described_fields(snapshot, log.config)
        return json.dumps(answer).encode()
    except IndexTablesError as error:
        return error_text(error)
