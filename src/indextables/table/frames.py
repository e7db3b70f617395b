"""Rows of a table as Arrow streams and as frames of other libraries.

pandas, Polars and DuckDB are imported only on use.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from indextables.errors import ConfigError
from indextables.scan.scan_tasks import in_batches
from indextables.scan.search import Projection, checked, stream_rows
from indextables.scan.split_scan import TableScan

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class FoundRows:
    """Rows of a scan; every stream starts again, and reads batches on demand."""

    def __init__(self, scan: TableScan, wanted: Projection) -> None:
        self._scan = scan
        self._wanted = checked(scan, wanted)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        import pyarrow as pa

        return pa.schema([self._scan.schema.field(name) for name in self._wanted.columns or ()])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows, in the order of the table."""
        return in_batches(stream_rows(self._scan, self._wanted))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches()).__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()


def optional_package(name: str) -> Any:
    """Import an optional package, or raise a `ConfigError` with a hint to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ConfigError(
            f"cannot give rows to `{name}` because it is not installed", hint=f"install it with `pip install {name}`"
        ) from error


def pandas_frame(pandas: Any, table: pa.Table) -> pd.DataFrame:
    """Return a pandas frame, with nullable types for whole numbers with NULLs.

    By default pandas would convert them to floats.
    """
    import pyarrow as pa

    nullable = {
        pa.int8(): pandas.Int8Dtype(),
        pa.int16(): pandas.Int16Dtype(),
        pa.int32(): pandas.Int32Dtype(),
        pa.int64(): pandas.Int64Dtype(),
    }
    frame = table.to_pandas(ignore_metadata=True)
    for name in table.column_names:
        if table[name].null_count and table[name].type in nullable:
            frame[name] = table[name].to_pandas(types_mapper=nullable.get)
    return frame
