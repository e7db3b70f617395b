"""How a table indexes its columns, as our Java classes hand it on.

Nothing of it stands in the metadata of columns: other writers keep that, and it would name the table in their files.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from indextables.config import Config
from indextables.errors import IndexTablesError, SchemaError
from indextables.log.snapshot import Snapshot
from indextables.ops.indexed_fields import table_fields
from indextables.spark.options import SourceOptions
from indextables.spark.scans import open_log
from indextables.spark.worker_errors import error_text
from indextables.split.fields import FieldMap, IndexField


def described_fields(snapshot: Snapshot, config: Config) -> dict[str, str]:
    """How columns are indexed, each as JSON, by their names."""
    try:
        fields = table_fields(snapshot, config)
    except SchemaError:  # settings that do not fit the table: a write to it is refused
        return {}
    found = ((name, fields.find(name)) for name in snapshot.schema.names)
    return {name: json.dumps(msgspec.to_builtins(field)) for name, field in found if field is not None}


def indexed_field(text: str | None) -> IndexField | None:
    """How a column is indexed; None where it is not one of a table, or is computed."""
    return None if text is None else FieldMap.from_json(f"[{text}]").fields[0]


class DescribeLoad:
    """Tells Java how the columns of one load are indexed."""

    def __init__(self, asked: SourceOptions) -> None:
        self._asked = asked

    def apply(self, _: str) -> bytes | str:
        """As a JSON object. What is wrong is given as text."""
        return _answer(self._asked)

    class Java:
        implements = ("java.util.function.Function",)


class DescribeStream:
    """Tells Java how the columns of streams are indexed, by the options of a stream as JSON."""

    def apply(self, options: str) -> bytes | str:
        """As a JSON object. What is wrong is given as text."""
        try:
            return _answer(SourceOptions.parse(json.loads(options)))
        except IndexTablesError as error:
            return error_text(error)

    class Java:
        implements = ("java.util.function.Function",)


def _answer(asked: SourceOptions) -> bytes | str:
    try:
        log = open_log(asked.url, tuple(sorted(asked.settings.items())))
        snapshot = log.snapshot(version=asked.version, timestamp=asked.timestamp)
        answer: dict[str, Any] = described_fields(snapshot, log.config)
        return json.dumps(answer).encode()
    except IndexTablesError as error:
        return error_text(error)
