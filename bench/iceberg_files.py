"""Large tables of pyiceberg: written by its own writers of manifests, opened without a catalog, and listed.

`pyiceberg.table.inspect` is imported here because pyiceberg imports it late, and imports are not measured.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyiceberg.io.pyarrow
import pyiceberg.table.inspect
from pyiceberg import types
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from bench.files import MODIFIED_MS, PARTITION_COLUMN, Value, commits, data_file

_FILES_PER_MANIFEST = 25_000
_FORMAT_VERSION: Any = 2
_SNAPSHOT_ID = 1
_COMPRESSION: Any = "deflate"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SCHEMA = Schema(
    types.NestedField(1, PARTITION_COLUMN, types.DateType(), required=False),
    types.NestedField(2, "id", types.LongType(), required=False),
    types.NestedField(3, "at", types.TimestamptzType(), required=False),
    types.NestedField(4, "amount", types.DoubleType(), required=False),
    types.NestedField(5, "name", types.StringType(), required=False),
)
_SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), PARTITION_COLUMN))
_FIELD_IDS = {field.name: field.field_id for field in _SCHEMA.fields}
_FIELD_TYPES: dict[str, Any] = {field.name: field.field_type for field in _SCHEMA.fields}
_METADATA_NAME = "v1.metadata.json"


def build(path: Path, count: int) -> None:
    """One snapshot with manifests of many files each."""
    directory = path / "metadata"
    directory.mkdir(parents=True)
    io = pyiceberg.io.pyarrow.PyArrowFileIO()
    manifests = []
    for at, numbers in enumerate(commits(count, _FILES_PER_MANIFEST)):
        output = io.new_output(str(directory / f"manifest-{at}.avro"))
        with write_manifest(_FORMAT_VERSION, _SPEC, _SCHEMA, output, _SNAPSHOT_ID, _COMPRESSION) as writer:
            for number in numbers:
                writer.add_entry(_entry(path, number))
        manifests.append(writer.to_manifest_file())
    manifest_list = str(directory / "snap-1.avro")
    with write_manifest_list(
        _FORMAT_VERSION, io.new_output(manifest_list), _SNAPSHOT_ID, None, 1, _COMPRESSION
    ) as list_writer:
        list_writer.add_manifests(manifests)
    ToOutputFile.table_metadata(_metadata(path, manifest_list), io.new_output(str(directory / _METADATA_NAME)))


def shared_table(directory: Path, count: int) -> Path:
    """A table of so many files that several benchmarks read, built where it is not there yet."""
    path = directory / f"iceberg-{count}"
    if not path.exists():
        build(path, count)
    return path


def list_all(path: Path) -> int:
    """As an Arrow table, which is what the other libraries answer with."""
    return int(_open(path).inspect.files().num_rows)


def plan_all(path: Path) -> int:
    """As Python objects without readable statistics, which pyiceberg is faster at."""
    return sum(1 for _ in _open(path).scan().plan_files())


def _open(path: Path) -> StaticTable:
    return StaticTable.from_metadata(str(path / "metadata" / _METADATA_NAME))


def _entry(path: Path, number: int) -> ManifestEntry:
    file = data_file(number)
    data = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{path}/data/{PARTITION_COLUMN}={file.date}/{file.stem}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record((file.date - _EPOCH.date()).days),
        record_count=file.num_records,
        file_size_in_bytes=file.size_bytes,
        value_counts=_by_id((name, file.num_records) for name in file.minima),
        null_value_counts=_by_id(file.null_counts.items()),
        lower_bounds=_by_id((name, _bound(name, value)) for name, value in file.minima.items()),
        upper_bounds=_by_id((name, _bound(name, value)) for name, value in file.maxima.items()),
    )
    return ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=_SNAPSHOT_ID, data_file=data)


def _by_id(values: Iterable[tuple[str, Any]]) -> dict[int, Any]:
    return {_FIELD_IDS[name]: value for name, value in values}


def _bound(name: str, value: Value) -> bytes:
    if isinstance(value, datetime.datetime):
        return bytes(to_bytes(_FIELD_TYPES[name], (value - _EPOCH) // datetime.timedelta(microseconds=1)))
    return bytes(to_bytes(_FIELD_TYPES[name], value))


def _metadata(path: Path, manifest_list: str) -> TableMetadata:
    empty = new_table_metadata(_SCHEMA, _SPEC, UNSORTED_SORT_ORDER, str(path), {"format-version": "2"})
    facts: dict[str, Any] = {
        "snapshot-id": _SNAPSHOT_ID,
        "sequence-number": 1,
        "timestamp-ms": MODIFIED_MS,
        "manifest-list": manifest_list,
        "summary": Summary(Operation.APPEND),
        "schema-id": empty.current_schema_id,
    }
    return empty.model_copy(
        update={"snapshots": [Snapshot(**facts)], "current_snapshot_id": _SNAPSHOT_ID, "last_sequence_number": 1}
    )
