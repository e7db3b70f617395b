"""The Arrow schema that Spark derives from its own, in every version of PySpark."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas import types
from pyspark.sql.types import StructType

_to_arrow_schema: Any = types.to_arrow_schema
# Before 4.2, the time zone of Arrow's timestamps is always UTC.
_TIMEZONE = {"timezone": "UTC"} if "timezone" in inspect.signature(_to_arrow_schema).parameters else {}


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a schema of Spark, with timestamps in UTC."""
    return _to_arrow_schema(schema, **_TIMEZONE)
