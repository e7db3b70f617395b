"""Choose encoding and compression of a split's columns from its first rows.

Pages are small, so that fetching and decoding a few rows is cheap. Decompressing a page has its own cost, so columns
that hardly compress stay uncompressed.
"""

from __future__ import annotations

import collections
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indextables.split.rows.row_reader import leaf_ranges

_COMPRESSION_LEVEL = 1
_PAGE_BYTES = 8 << 10
_MOST_PAGE_ROWS = 2_048
_ROWS_PER_LOOK = 64  # a page may end after this number of rows
_WHOLE_NUMBERS = "DELTA_BINARY_PACKED"  # smaller than compressed plain numbers, and decoded seven times as fast
_WHOLE_TYPES = ("INT32", "INT64")
_NUMBERS = (*_WHOLE_TYPES, "FLOAT", "DOUBLE")
_FEW = 8  # average number of occurrences of a value
_SHORT_BYTES = 32


def writer_options(sample: pa.Table, columns: pq.ParquetSchema, long_texts: Collection[str]) -> dict[str, Any]:
    """Return the options of Arrow's writer.

    `columns` are the file's columns. Columns of `long_texts` and floats get no statistics.
    """
    leaves = dict(zip(sample.schema.names, leaf_ranges(sample.schema), strict=True))
    paths = [columns.column(leaf).path for leaf in range(sum(map(len, leaves.values())))]
    # Arrow addresses columns by path, and a column `a.b` has the path of a struct's field: options for one may not fit
    # the other.
    times = collections.Counter(paths)
    unclear = {leaf for leaf, path in enumerate(paths) if times[path] > 1}
    # A nested column without any value would have an empty dictionary, in which Spark looks up null numbers.
    nested = {leaf for field in sample.schema if pa.types.is_nested(field.type) for leaf in leaves[field.name]}
    plain = {leaf for leaf in nested if columns.column(leaf).physical_type in _NUMBERS}
    dictionaries = {leaf for name in _repeated(sample, 2) for leaf in leaves[name]} - unclear - plain
    whole = {
        leaf
        for leaf in range(len(paths))
        if leaf not in dictionaries | unclear | plain and columns.column(leaf).physical_type in _WHOLE_TYPES
    }
    codes = {leaf for name in _repeated(sample, _FEW) if _is_short(sample[name]) for leaf in leaves[name]} - unclear
    # Arrow leaves NaN out of bounds. A reader with NaN as the greatest number would lose rows by them.
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
    """Return the columns whose values occur `times` times on average.

    Includes columns that Arrow cannot count. With a dictionary for every column, Arrow's default, files were an eighth
    larger and took a fifth longer to decode.
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
