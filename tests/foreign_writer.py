"""Writers of other products, as far as their logs show it: commits in states alone, and versions with a state each."""

from __future__ import annotations

import gzip
import io
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import fastavro

from indextables.protocol.avro.state_manifest import STATE_MANIFEST_SCHEMA
from indextables.protocol.names import parse_checkpoint_key, parse_version_key

_OURS = ("protocol", "skips", "transactions", "versionTimestamp", "versionTxnId")
_STATE_SCHEMA = {
    **STATE_MANIFEST_SCHEMA,
    "fields": [field for field in STATE_MANIFEST_SCHEMA["fields"] if field["name"] not in _OURS],
}
_ENTRY_SCHEMA = {
    "type": "record",
    "name": "FileEntry",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "partitionValues", "type": {"type": "map", "values": "string"}},
        {"name": "size", "type": "long"},
        {"name": "modificationTime", "type": "long"},
        {"name": "dataChange", "type": "boolean"},
        {"name": "numRecords", "type": ["null", "long"]},
        {"name": "hasFooterOffsets", "type": "boolean"},
        {"name": "addedAtVersion", "type": "long"},
        {"name": "addedAtTimestamp", "type": "long"},
    ],
}


class StateWriter:
    """Commits in states alone, each built on the newest state; version files above 0 are never looked at."""

    def __init__(self, table: str | os.PathLike[str]) -> None:
        self.log = Path(table) / "_transaction_log"

    def commit(
        self, added: Iterable[str], removed: Iterable[str] = (), *, metadata: Mapping[str, object] | None = None
    ) -> int:
        """Commit files, and the version that holds them."""
        states = self.states()
        base = self.read_state(max(states)) if states else None
        version = max(states, default=0) + 1
        self.write_state(version, base, added, removed, metadata)
        return version

    def states(self) -> list[int]:
        """The versions that have a state."""
        names = (
            f"_transaction_log/{path.parent.name}/{path.name}" for path in self.log.glob("state-v*/_manifest.avro")
        )
        return sorted(version for name in names if (version := parse_checkpoint_key(name)) is not None)

    def read_state(self, version: int) -> dict[str, object]:
        with (self.log / f"state-v{version:020d}" / "_manifest.avro").open("rb") as file:
            return next(iter(fastavro.reader(file)))

    def live(self) -> list[str]:
        """What this writer reads: the files of its newest state."""
        state = self.read_state(max(self.states()))
        found: list[str] = []
        for info in state["manifests"]:
            with (self.log / info["path"]).open("rb") as file:
                found += [entry["path"] for entry in fastavro.reader(file)]
        return sorted(set(found) - set(state["tombstones"]))

    def write_state(
        self,
        version: int,
        base: Mapping[str, object] | None,
        added: Iterable[str],
        removed: Iterable[str] = (),
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Write a state and name it in the hint."""
        entries = [{**_entry(path, version), **self._seen(path)} for path in added]
        gone = list(removed)
        record = {
            "formatVersion": 1,
            "stateVersion": version,
            "createdAt": 1_700_000_000_000 + version,
            "numFiles": (base["numFiles"] if base else 0) + len(entries) - len(gone),
            "totalBytes": 0,
            "protocolVersion": 4,
            "manifests": [*(base["manifests"] if base else []), *self._manifests(entries, version)],
            "tombstones": [*(base["tombstones"] if base else []), *gone],
            "schemaRegistry": base["schemaRegistry"] if base else {},
            "metadata": json.dumps({"metaData": metadata}) if metadata else (base["metadata"] if base else None),
        }
        place = self.log / f"state-v{version:020d}"
        place.mkdir(parents=True)
        out = io.BytesIO()
        fastavro.writer(out, _STATE_SCHEMA, [record])
        (place / "_manifest.avro").write_bytes(out.getvalue())
        hint = {"version": version, "format": "avro-state", "stateDir": place.name}
        (self.log / "_last_checkpoint").write_text(json.dumps(hint))

    def _seen(self, path: str) -> dict[str, object]:
        """The size of a file that is there, whose rows are not counted."""
        file = self.log.parent / path
        return {"size": file.stat().st_size, "numRecords": None} if file.exists() else {}

    def _manifests(self, entries: Sequence[Mapping[str, object]], version: int) -> list[dict[str, object]]:
        if not entries:
            return []
        name = f"manifests/manifest-{secrets.token_hex(4)}.avro"
        out = io.BytesIO()
        fastavro.writer(out, _ENTRY_SCHEMA, entries)
        (self.log / "manifests").mkdir(exist_ok=True)
        (self.log / name).write_bytes(out.getvalue())
        return [{"path": name, "numEntries": len(entries), "minAddedAtVersion": version, "maxAddedAtVersion": version}]


class VersionWriter(StateWriter):
    """Commits in version files that name no transaction, and writes a state after each: newer engines do so."""

    def commit(
        self, added: Iterable[str], removed: Iterable[str] = (), *, metadata: Mapping[str, object] | None = None
    ) -> int:
        paths, gone = list(added), list(removed)
        version = max(self.versions()) + 1
        lines = [{"remove": {"path": path, "dataChange": True}} for path in gone]
        lines += [{"add": {**_add(path), **self._seen(path)}} for path in paths]
        (self.log / f"{version:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        states = self.states()
        base = self.read_state(max(states)) if states else None
        since = max(states, default=0)
        for between in range(since + 1, version):
            found, left = self._read_version(between)
            paths, gone = [*found, *paths], [*left, *gone]
        known = set(paths)
        self.write_state(
            version, base, [path for path in paths if path not in gone], [p for p in gone if p not in known]
        )
        return version

    def versions(self) -> list[int]:
        """The version files."""
        found = (parse_version_key(f"_transaction_log/{path.name}") for path in self.log.glob("*.json"))
        return sorted(version for version in found if version is not None)

    def _read_version(self, version: int) -> tuple[list[str], list[str]]:
        data = (self.log / f"{version:020d}.json").read_bytes()
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        lines = [json.loads(line) for line in text.splitlines() if line]
        return (
            [line["add"]["path"] for line in lines if "add" in line],
            [line["remove"]["path"] for line in lines if "remove" in line],
        )


def _add(path: str) -> dict[str, object]:
    return {
        "path": path,
        "partitionValues": {},
        "size": 10,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "numRecords": 7,
    }


def _entry(path: str, version: int) -> dict[str, object]:
    return {
        **_add(path),
        "hasFooterOffsets": False,
        "addedAtVersion": version,
        "addedAtTimestamp": 1_700_000_000_000 + version,
    }
