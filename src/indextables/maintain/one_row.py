"""One-row results of commands; no column is null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from indextables.arrow_values import to_table


def answer_schema(**columns: pa.DataType) -> pa.Schema:
    """Return the schema of these columns, in this order."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])


def one_row(schema: pa.Schema, row: Mapping[str, Any]) -> pa.Table:
    """Return the result of a command."""
    return to_table([row], schema=schema)
