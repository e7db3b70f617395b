"""What most commands answer with: one row of columns that are never null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def answer_schema(**columns: pa.DataType) -> pa.Schema:
    """The schema of these columns, in this order."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])


def one_row(schema: pa.Schema, row: Mapping[str, Any]) -> pa.Table:
    """The answer that a command gives."""
    return pa.Table.from_pylist([row], schema=schema)
