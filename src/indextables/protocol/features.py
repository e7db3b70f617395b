"""Protocol versions and features that readers and writers must support."""

from __future__ import annotations

from indextables.errors import ProtocolError
from indextables.protocol.actions import Protocol

READER_VERSION = 4
FEATURES_VERSION = 3
"""First version of a protocol with features."""
REFERENCES_VERSION = 3
"""First reader version that allows adds with only the hash of a doc mapping."""

WRITER_VERSION = 4
KNOWN_FEATURES = frozenset(
    {
        "avroState",
        "multiPartCheckpoint",
        "schemaDeduplication",
        "footerOffsets",
        "tantivy4java",
        "conditionalWrites",
        "checkpoints",
        "checkpoint",
        "skippedFiles",
        "extendedMetadata",
        "optimizeWrite",
        "parquetSplits",
    }
)
PARQUET_SPLITS = "parquetSplits"
"""Feature of tables with splits of this library, so that other engines refuse them."""

_CURRENT_FEATURES = ("avroState", "schemaDeduplication")

LEGACY_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=1)
NEW_TABLE_PROTOCOL = Protocol(
    min_reader_version=READER_VERSION,
    min_writer_version=WRITER_VERSION,
    reader_features=_CURRENT_FEATURES,
    writer_features=_CURRENT_FEATURES,
)


def check_readable(protocol: Protocol, table: str) -> None:
    """Refuse a table that requires a newer reader."""
    _check(protocol.min_reader_version, protocol.reader_features, READER_VERSION, f"read `{table}`", "reader")


def check_writable(protocol: Protocol, table: str) -> None:
    """Refuse to write a table that requires a newer writer; it may still be readable."""
    _check(protocol.min_writer_version, protocol.writer_features, WRITER_VERSION, f"write `{table}`", "writer")


def highest(left: Protocol, right: Protocol) -> Protocol:
    """Return the protocol that satisfies both: higher versions, all features."""
    return Protocol(
        min_reader_version=max(left.min_reader_version, right.min_reader_version),
        min_writer_version=max(left.min_writer_version, right.min_writer_version),
        reader_features=_union(left.reader_features, right.reader_features),
        writer_features=_union(left.writer_features, right.writer_features),
    )


def declaring(protocol: Protocol, feature: str) -> Protocol:
    """Return the protocol with a required feature.

    Unchanged if it cannot have features.
    """
    if min(protocol.min_reader_version, protocol.min_writer_version) < FEATURES_VERSION:
        return protocol
    named = Protocol(min_reader_version=1, min_writer_version=1, reader_features=(feature,), writer_features=(feature,))
    return highest(protocol, named)


def protocol_for(min_reader: int, min_writer: int) -> Protocol:
    """Return the protocol of the given versions with the features that they imply."""
    if not (1 <= min_reader <= READER_VERSION and 1 <= min_writer <= WRITER_VERSION):
        raise ProtocolError(
            f"cannot ask for reader version `{min_reader}` and writer version `{min_writer}` because this library "
            f"knows versions 1 to {READER_VERSION}"
        )
    return Protocol(
        min_reader_version=min_reader,
        min_writer_version=min_writer,
        reader_features=_CURRENT_FEATURES if min_reader >= READER_VERSION else None,
        writer_features=_CURRENT_FEATURES if min_writer >= WRITER_VERSION else None,
    )


def _check(version: int, features: tuple[str, ...] | None, supported: int, what: str, role: str) -> None:
    if version > supported:
        raise ProtocolError(
            f"cannot {what} because it needs {role} version {version}, and {supported} is the newest known here",
            hint="upgrade indextables",
        )
    unknown = sorted(set(features or ()) - KNOWN_FEATURES)
    if unknown:
        raise ProtocolError(
            f"cannot {what} because it needs the {role} features `{'`, `'.join(unknown)}`, which are not known here",
            hint="upgrade indextables",
        )


def _union(left: tuple[str, ...] | None, right: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return all features of both, in the order of `left` if it has them all."""
    both = {*(left or ()), *(right or ())}
    return left if both == set(left or ()) else tuple(sorted(both))
