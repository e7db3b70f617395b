"""Where two accounts of one version differ: what a checkpoint holds, and what the versions add up to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from indextables.log.snapshot import Snapshot
from indextables.protocol.doc_mapping import without_registry
from indextables.protocol.file_table import FILES_SCHEMA

# Two references may name one mapping, so that mappings are compared by their text.
_COMPARED = [name for name in FILES_SCHEMA.names if name != "doc_mapping_ref"]


def snapshot_differences(state: Snapshot, replayed: Snapshot) -> Iterator[str]:
    """A sentence for each thing that a checkpoint says otherwise than the versions before it. A checkpoint of another
    writer, which names no transaction, counts files anew and leaves out what it does not know: only its paths count."""
    if not state.txn_id and state.version > 0:
        yield from _path_differences(state.files["path"].to_pylist(), replayed.files["path"].to_pylist())
        return
    if state.protocol != replayed.protocol:
        yield "its protocol is another than that of the versions"
    if _definitions(state) != _definitions(replayed):
        yield "its metadata is another than that of the versions"
    if dict(state.skips) != dict(replayed.skips):
        yield "its skips are others than those of the versions"
    if dict(state.transactions) != dict(replayed.transactions):
        yield "it tells of other batches of streams than the versions"
    yield from _file_differences(_sorted(state), _sorted(replayed))


def _definitions(snapshot: Snapshot) -> dict[str, Any]:
    metadata = snapshot.metadata
    fields = {name: getattr(metadata, name) for name in metadata.__struct_fields__}
    return {**fields, "configuration": without_registry(metadata.configuration)}


def _sorted(snapshot: Snapshot) -> pa.Table:
    files = snapshot.described_files
    at = files.schema.get_field_index("doc_mapping_json")
    texts = files["doc_mapping_json"].cast(pa.string())
    return files.set_column(at, FILES_SCHEMA.field("doc_mapping_json"), texts).sort_by("path")


def _file_differences(found: pa.Table, expected: pa.Table) -> Iterator[str]:
    if found["path"].to_pylist() != expected["path"].to_pylist():
        yield from _path_differences(found["path"].to_pylist(), expected["path"].to_pylist())
        return
    for name in _COMPARED:
        if not found[name].equals(expected[name]):
            rows = zip(found["path"].to_pylist(), found[name].to_pylist(), expected[name].to_pylist(), strict=True)
            other = [path for path, left, right in rows if _plain(left) != _plain(right)]
            if other:
                yield f"`{name}` of {len(other)} files is another than in the versions, as of `{other[0]}`"


def _path_differences(found: Sequence[str], expected: Sequence[str]) -> Iterator[str]:
    here, there = set(found), set(expected)
    extra, lost = sorted(here - there), sorted(there - here)
    if lost:
        yield f"it lacks {len(lost)} files of the versions, as `{lost[0]}`"
    if extra:
        yield f"it holds {len(extra)} files that the versions do not, as `{extra[0]}`"
    if len(found) > len(here):
        yield "it holds a file twice"


def _plain(value: Any) -> Any:
    """Maps come as lists of pairs, whose order says nothing."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value or None if isinstance(value, list) else value
