"""One full example of every action, its frozen wire form, and generators of arbitrary ones."""

from __future__ import annotations

import gzip

from hypothesis import strategies as st

from indextables.location import parse_location
from indextables.protocol.actions import Add, CommitInfo, Format, Metadata, Protocol, Remove, Skip
from indextables.protocol.paths import normalize_path
from indextables.protocol.version_file import encode_version

TABLE = parse_location("s3://bucket/table")

FULL_EXAMPLES = {
    "protocol": (
        Protocol(
            min_reader_version=3,
            min_writer_version=4,
            reader_features=("avroState",),
            writer_features=("avroState", "schemaDeduplication"),
        ),
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":4,"readerFeatures":["avroState"],'
        '"writerFeatures":["avroState","schemaDeduplication"]}}',
    ),
    "metaData": (
        Metadata(
            id="1f2e",
            name="events",
            description="what happened",
            format=Format(provider="indextables", options={"o": "1"}),
            schema_string='{"type":"struct","fields":[]}',
            partition_columns=("day",),
            configuration={"docMappingSchema.ab12": "[]"},
            created_time=1704067200000,
        ),
        '{"metaData":{"id":"1f2e","schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}","partitionColumns":["day"],'
        '"configuration":{"docMappingSchema.ab12":"[]"},"format":{"provider":"indextables","options":{"o":"1"}},'
        '"name":"events","description":"what happened","createdTime":1704067200000}}',
    ),
    "add": (
        Add(
            path="day=2024-01-01/splits/split-1.split",
            partition_values={"day": "2024-01-01"},
            size=1048576,
            modification_time=1704067200001,
            data_change=True,
            stats='{"numRecords":3}',
            tags={"source": "batch"},
            min_values={"score": "0.1"},
            max_values={"score": "0.9"},
            num_records=1000,
            footer_start_offset=900000,
            footer_end_offset=1048500,
            hotcache_start_offset=7,
            hotcache_length=8192,
            has_footer_offsets=True,
            time_range_start="2024-01-01T00:00:00Z",
            time_range_end="2024-01-01T23:59:59Z",
            split_tags=("a", "b"),
            delete_opstamp=5,
            num_merge_ops=2,
            doc_mapping_ref="ab12cd34ef56gh78",
            doc_mapping_json="[]",
            uncompressed_size_bytes=2097152,
        ),
        '{"add":{"path":"day=2024-01-01/splits/split-1.split","partitionValues":{"day":"2024-01-01"},"size":1048576,'
        '"modificationTime":1704067200001,"dataChange":true,"stats":"{\\"numRecords\\":3}","tags":{"source":"batch"},'
        '"minValues":{"score":"0.1"},"maxValues":{"score":"0.9"},"numRecords":1000,"footerStartOffset":900000,'
        '"footerEndOffset":1048500,"hotcacheStartOffset":7,"hotcacheLength":8192,"hasFooterOffsets":true,'
        '"timeRangeStart":"2024-01-01T00:00:00Z","timeRangeEnd":"2024-01-01T23:59:59Z","splitTags":["a","b"],'
        '"deleteOpstamp":5,"numMergeOps":2,"docMappingRef":"ab12cd34ef56gh78","docMappingJson":"[]",'
        '"uncompressedSizeBytes":2097152}}',
    ),
    "remove": (
        Remove(
            path="splits/old.split",
            deletion_timestamp=1704153600000,
            data_change=False,
            extended_file_metadata=True,
            partition_values={"day": "x"},
            size=524288,
            tags={"reason": "overwrite"},
        ),
        '{"remove":{"path":"splits/old.split","dataChange":false,"deletionTimestamp":1704153600000,'
        '"extendedFileMetadata":true,"partitionValues":{"day":"x"},"size":524288,"tags":{"reason":"overwrite"}}}',
    ),
    "mergeskip": (
        Skip(
            path="splits/bad.split",
            skip_timestamp=1704067200000,
            reason="corrupted footer",
            operation="merge",
            partition_values={"day": "x"},
            size=102400,
            retry_after=1704153600000,
            skip_count=3,
        ),
        '{"mergeskip":{"path":"splits/bad.split","skipTimestamp":1704067200000,"reason":"corrupted footer",'
        '"operation":"merge","partitionValues":{"day":"x"},"size":102400,"retryAfter":1704153600000,"skipCount":3}}',
    ),
    "commitInfo": (
        CommitInfo(
            txn_id="9c3f",
            operation="WRITE",
            timestamp=1704067200002,
            engine="indextables/1",
            read_version=6,
            parent_txn_id="8b2e",
            num_actions=5,
            definitions_version=4,
            parameters={"mode": "Append"},
            metrics={"filesAdded": 1},
            application_id="stream",
            batch_id=17,
        ),
        '{"commitInfo":{"txnId":"9c3f","operation":"WRITE","timestamp":1704067200002,"engine":"indextables/1",'
        '"readVersion":6,"parentTxnId":"8b2e","numActions":5,"definitionsVersion":4,"parameters":{"mode":"Append"},'
        '"metrics":{"filesAdded":1},"applicationId":"stream","batchId":17}}',
    ),
}

# A version as this library writes it: its commit line, which counts the others, comes first.
WHOLE_VERSION = tuple(
    FULL_EXAMPLES[kind][0] for kind in ("commitInfo", "protocol", "metaData", "remove", "add", "mergeskip")
)


def version_text(actions) -> bytes:
    """The lines of a version, without the checksum that plain text of ours ends with."""
    return gzip.decompress(encode_version(actions, compress=True))


def is_relative(path: str) -> bool:
    """Whether the path is one that stays as it is."""
    try:
        return normalize_path(path, TABLE) == path
    except ValueError:
        return False


longs = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**63 - 1)
ints = st.integers(0, 2**31 - 1)
texts = st.text(max_size=12)
names = st.text(min_size=1, max_size=12)
text_maps = st.dictionaries(texts, texts, max_size=3)
text_lists = st.lists(texts, max_size=3).map(tuple)
paths = st.lists(names, min_size=1, max_size=3).map("/".join).filter(is_relative)
json_values = st.recursive(
    st.none() | st.booleans() | longs | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def maybe(strategy):
    return st.none() | strategy


ACTIONS = {
    "protocol": st.builds(
        Protocol,
        min_reader_version=ints,
        min_writer_version=ints,
        reader_features=maybe(text_lists),
        writer_features=maybe(text_lists),
    ),
    "metaData": st.builds(
        Metadata,
        id=names,
        schema_string=names,
        partition_columns=text_lists,
        configuration=text_maps,
        format=st.builds(Format, provider=texts, options=text_maps),
        name=maybe(texts),
        description=maybe(texts),
        created_time=maybe(longs),
    ),
    "add": st.builds(
        Add,
        path=paths,
        partition_values=text_maps,
        size=counts,
        modification_time=longs,
        data_change=st.booleans(),
        stats=maybe(texts),
        tags=maybe(text_maps),
        min_values=maybe(text_maps),
        max_values=maybe(text_maps),
        num_records=maybe(counts),
        footer_start_offset=maybe(counts),
        footer_end_offset=maybe(counts),
        hotcache_start_offset=maybe(counts),
        hotcache_length=maybe(counts),
        has_footer_offsets=st.booleans(),
        time_range_start=maybe(texts),
        time_range_end=maybe(texts),
        split_tags=maybe(text_lists),
        delete_opstamp=maybe(longs),
        num_merge_ops=maybe(ints),
        doc_mapping_ref=maybe(texts),
        doc_mapping_json=maybe(texts),
        uncompressed_size_bytes=maybe(counts),
    ),
    "remove": st.builds(
        Remove,
        path=paths,
        data_change=st.booleans(),
        deletion_timestamp=maybe(longs),
        extended_file_metadata=maybe(st.booleans()),
        partition_values=maybe(text_maps),
        size=maybe(counts),
        tags=maybe(text_maps),
    ),
    "mergeskip": st.builds(
        Skip,
        path=paths,
        skip_timestamp=longs,
        reason=texts,
        operation=texts,
        partition_values=maybe(text_maps),
        size=maybe(counts),
        retry_after=maybe(longs),
        skip_count=ints,
    ),
    "commitInfo": st.builds(
        CommitInfo,
        txn_id=names,
        operation=texts,
        timestamp=longs,
        engine=maybe(texts),
        read_version=maybe(longs),
        parent_txn_id=maybe(texts),
        parameters=st.dictionaries(texts, json_values, max_size=3),
        metrics=st.dictionaries(texts, json_values, max_size=3),
        application_id=maybe(texts),
        batch_id=maybe(longs),
    ),
}
