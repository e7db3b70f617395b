"""How the columns of a split are encoded and packed in its Parquet part, judged by its first rows.

Pages are small, so that a few rows cost little to fetch and decode. But unpacking a page has a price of its own, so
that what packing would hardly make smaller is left as it is.
"""

from __future__ import annotations

import collections
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indextables.split.rows import leaf_ranges

_COMPRESSION_LEVEL = 1
_PAGE_BYTES = 8 << 10
_MOST_PAGE_ROWS = 2_048
_ROWS_PER_LOOK = 64  # after so many a page may end
_WHOLE_NUMBERS = "DELTA_BINARY_PACKED"  # smaller than packed plain numbers, and decoded seven times as fast
_WHOLE_TYPES = ("INT32", "INT64")
_NUMBERS = (*_WHOLE_TYPES, "FLOAT", "DOUBLE")
_FEW = 8  # a value comes so often on average
_SHORT_BYTES = 32


def writer_options(sample: pa.Table, columns: pq.ParquetSchema, long_texts: Collection[str]) -> dict[str, Any]:
    """The options of Arrow's writer. `columns` are those of the file; those of `long_texts` and floats get no
    statistics."""
    leaves = dict(zip(sample.schema.names, leaf_ranges(sample.schema), strict=True))
    paths = [columns.column(leaf).path for leaf in range(sum(map(len, leaves.values())))]
    # Arrow goes by paths, and a column `a.b` has that of a struct's: what fits one of them may not fit the other.
    times = collections.Counter(paths)
    unclear = {leaf for leaf, path in enumerate(paths) if times[path] > 1}
    # A nested column without any value would have an empty dictionary, in which Spark looks up numbers that are null.
    nested = {leaf for field in sample.schema if pa.types.is_nested(field.type) for leaf in leaves[field.name]}
    plain = {leaf for leaf in nested if columns.column(leaf).physical_type in _NUMBERS}
    dictionaries = {leaf for name in _repeated(sample, 2) for leaf in leaves[name]} - unclear - plain
    whole = {
        leaf
        for leaf in range(len(paths))
        if leaf not in dictionaries | unclear | plain and columns.column(leaf).physical_type in _WHOLE_TYPES
    }
    codes = {leaf for name in _repeated(sample, _FEW) if _is_short(sample[name]) for leaf in leaves[name]} - unclear
    # Arrow leaves NaN out of bounds, by which a reader to whom it is the greatest of numbers would lose rows.
    floats = {leaf for leaf in range(len(paths)) if _is_float(columns.column(leaf))}
    unsummed = {paths[leaf] for leaf in floats | {leaf for name in long_texts for leaf in leaves[name]}}
    packed = {path for leaf, path in enumerate(paths) if leaf not in whole | codes}
    return {
        "compression": {path: "zstd" if path in packed else "none" for path in paths},
        "compression_level": dict.fromkeys(packed, _COMPRESSION_LEVEL),
        "use_dictionary": [paths[leaf] for leaf in dictionaries],
        "column_encoding": {paths[leaf]: _WHOLE_NUMBERS for leaf in whole},
        "write_statistics": [path for path in paths if path not in unsummed],
        "data_page_version": "2.0",
        "data_page_size": _PAGE_BYTES,
        "max_rows_per_page": _MOST_PAGE_ROWS,
        "write_batch_size": _ROWS_PER_LOOK,
        "write_page_index": True,
        "write_page_checksum": True,
    }


def _is_float(column: pq.ColumnSchema) -> bool:
    return column.physical_type in ("FLOAT", "DOUBLE") or column.logical_type.type == "FLOAT16"


def _repeated(sample: pa.Table, times: int) -> set[str]:
    """The columns whose values come so often on average, or of which Arrow cannot tell.

    With a dictionary for every column, as Arrow would have it, files were an eighth larger and took a fifth longer to
    decode.
    """
    found = set()
    for name, column in zip(sample.schema.names, sample.columns, strict=True):
        try:
            if pc.count_distinct(column).as_py() * times <= len(column) - column.null_count:
                found.add(name)
        except pa.ArrowNotImplementedError:
            if times == 2:
                found.add(name)
    return found


def _is_short(column: pa.ChunkedArray) -> bool:
    return bool(column.nbytes <= len(column) * _SHORT_BYTES)
