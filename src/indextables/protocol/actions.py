"""Actions of the transaction log as frozen values.

Names are snake_case here and camelCase on the wire. Decoding checks the type and bounds of every field. A field that is
missing or null becomes None; unknown fields are ignored. Encoding omits None, and always writes the fields that the
format requires.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

LONG_MAX = 2**63 - 1

Count = Annotated[int, msgspec.Meta(ge=0, le=LONG_MAX)]
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=LONG_MAX)]
Int = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Name = Annotated[str, msgspec.Meta(min_length=1)]


class _Action(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all actions.

    `gc=False`, because an action cannot be part of a reference cycle, and a log may have millions of them.
    """


class Protocol(_Action, frozen=True):
    """Minimum reader and writer versions of the table, and their required features."""

    min_reader_version: Int
    min_writer_version: Int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class Format(_Action, frozen=True):
    """Kind of the table."""

    provider: str = msgspec.field(default_factory=lambda: "indextables")
    options: dict[str, str] = msgspec.field(default_factory=lambda: {})  # noqa: PIE807 - `dict` would be left out


class Metadata(_Action, frozen=True):
    """Identity, schema, partitioning and properties of the table."""

    id: Name
    schema_string: Name
    partition_columns: tuple[str, ...]
    configuration: dict[str, str]
    format: Format = msgspec.field(default_factory=lambda: Format())  # noqa: PLW0108 - keeps it on the wire
    name: str | None = None
    description: str | None = None
    created_time: Long | None = None


class Add(_Action, frozen=True):
    """Split that is added to the table."""

    path: Name
    partition_values: dict[str, str | None]
    size: Count
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str] | None = None
    min_values: dict[str, str] | None = None
    max_values: dict[str, str] | None = None
    num_records: Count | None = None
    footer_start_offset: Count | None = None
    footer_end_offset: Count | None = None
    hotcache_start_offset: Count | None = None
    hotcache_length: Count | None = None
    has_footer_offsets: bool = False
    time_range_start: str | None = None
    time_range_end: str | None = None
    split_tags: tuple[str, ...] | None = None
    delete_opstamp: Long | None = None
    num_merge_ops: Int | None = None
    doc_mapping_ref: str | None = None
    doc_mapping_json: str | None = None
    uncompressed_size_bytes: Count | None = None

    def __post_init__(self) -> None:
        _drop_nulls(self)


class Remove(_Action, frozen=True):
    """Split that is removed from the table; a purge deletes its file later."""

    path: Name
    data_change: bool
    deletion_timestamp: Long | None = None
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Count | None = None
    tags: dict[str, str] | None = None

    def __post_init__(self) -> None:
        _drop_nulls(self)


class Skip(_Action, frozen=True):
    """Split that an operation could not process.

    It stays live; the operation skips it until `retry_after`.
    """

    path: Name
    skip_timestamp: Long
    reason: str
    operation: str
    partition_values: dict[str, str | None] | None = None
    size: Count | None = None
    retry_after: Long | None = None
    skip_count: Int = msgspec.field(default_factory=lambda: 1)

    def __post_init__(self) -> None:
        _drop_nulls(self)


class CommitInfo(_Action, frozen=True):
    """Origin of a version, for history, audit, and the recognition of own commits.

    `parent_txn_id` is the transaction id of the previous version, to prove that a version follows the one that its
    writer saw. `num_actions` is the number of lines after this one, to detect truncated files. No version after
    `definitions_version`, up to this one, has a protocol or metadata action, so that a writer that knows a version from
    it on need not read the versions in between.
    """

    txn_id: Name
    operation: str
    timestamp: Long
    engine: str | None = None
    read_version: Long | None = None
    parent_txn_id: str | None = None
    num_actions: Count | None = None
    definitions_version: Count | None = None
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {})  # noqa: PIE807 - `dict` would be left out
    metrics: dict[str, Any] = msgspec.field(default_factory=lambda: {})  # noqa: PIE807 - `dict` would be left out
    application_id: str | None = None
    batch_id: Long | None = None


Action = Protocol | Metadata | Add | Remove | Skip | CommitInfo


def _drop_nulls(action: Add | Remove | Skip) -> None:
    """Drop null partition values, which mean the same as missing keys."""
    values = action.partition_values
    if isinstance(values, dict) and None in values.values():
        kept = {key: value for key, value in values.items() if value is not None}
        msgspec.structs.force_setattr(action, "partition_values", kept)
