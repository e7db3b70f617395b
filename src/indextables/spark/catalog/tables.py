"""Tables of Spark's session catalog.

A catalog entry holds a name, a location and options; the log holds everything else. The Java side keeps the entries and
sends a JSON request when a statement names a table, so each new query reads the newest version. A `CREATE TABLE` with a
query adds the entry only after the rows are committed.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2

from indextables.config import settings
from indextables.errors import ConfigError, IndexTablesError, TableNotFoundError
from indextables.log.snapshot import Head, Snapshot
from indextables.protocol.horizon import own_properties
from indextables.runtime.caching import BoundedCache
from indextables.spark.catalog.cached_tables import table_changed
from indextables.spark.catalog.entries import NewEntry, NewTable, is_secret, split_properties
from indextables.spark.hadoop.paths import absolute
from indextables.spark.jvm import gateway
from indextables.spark.jvm.worker_errors import error_text, own_errors
from indextables.spark.options.session_settings import over_session, with_session
from indextables.spark.options.source_options import CREATE_ONLY, NAME, TABLE_ID, SourceOptions, names_as_option
from indextables.spark.scan.column_info import described_fields
from indextables.spark.scan.loading import activate
from indextables.spark.scan.opening import open_scan
from indextables.spark.scan.planned_scan import ScanPlan, open_log
from indextables.table import Table
from indextables.transaction_log import TransactionLog

_PATH = "path"
_ERROR_IF_EXISTS = "ErrorIfExists"
_NOT_MADE = "-1"
_MOST_KNOWN = 64
_WRITES: dict[type, tuple[str, ...]] = {
    DataFrameWriter: ("saveAsTable", "insertInto"),
    DataFrameWriterV2: ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions"),
}
_originals = {(kind, name): getattr(kind, name) for kind, names in _WRITES.items() for name in names}


def join(spark: SparkSession) -> None:
    """Add our tables to the session catalog of a classic session."""
    in_the_way = gateway.bridge(spark).joinCatalog(spark._jsparkSession, NAME, CatalogSide(spark))
    if in_the_way is not None:
        warnings.warn(
            f"cannot serve tables of the session catalog because `{in_the_way}` replaces it; loads and saves by path "
            "work",
            stacklevel=3,
        )


def install() -> None:
    """Make writes by table name raise the library's errors in enabled sessions."""
    for (kind, name), write in _originals.items():
        setattr(kind, name, _with_own_errors(write))


def _with_own_errors(write: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(write)
    def enabled_write(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._spark not in gateway.enabled_sessions:
            return write(self, *args, **kwargs)
        activate(self._spark)
        with own_errors():
            return write(self, *args, **kwargs)

    return enabled_write


class CatalogSide:
    """Answers Java's requests about tables in the catalog of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        # A query asks for a table at least twice, and many queries ask for the same version.
        self._known: BoundedCache[tuple[Any, ...], dict[str, Any]] = BoundedCache(_MOST_KNOWN)
        self._answers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "load": self._load,
            "open": self._open,
            "merge": self._merge,
            "write": self._write,
            "create": self._create,
            "stage": self._stage,
            "restage": self._restage,
            "alter": self._alter,
            "changed": self._changed,
        }

    def apply(self, request: str) -> Any:
        """Answer a request: JSON as bytes, a scan, or the text of an error.

        The request is JSON with the question and the settings of the session.
        """
        given = json.loads(request)
        asked = {**given["request"], "session": given["session"]}
        try:
            answer = self._answers[asked["do"]](asked)
        except IndexTablesError as error:
            return error_text(error)
        return json.dumps(answer).encode() if isinstance(answer, dict) else answer

    class Java:
        implements = ("java.util.function.Function",)

    def _load(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Describe a table at its newest version, or at the version of the read's options."""
        options = self._options(asked)
        parsed = SourceOptions.parse(options)
        log = _log(parsed)
        snapshot = log.snapshot(version=parsed.version, timestamp=parsed.timestamp)
        key = (*sorted(options.items()), snapshot.metadata.id, snapshot.version)
        known = self._known.get(key)
        if known is None:
            plan = ScanPlan.of_files(parsed._replace(url=log.url), log, snapshot)
            known = {**_description(options, plan, snapshot), "fields": described_fields(snapshot, log.config)}
            self._known.put(key, known)
        return {**known, "location": asked["path"], "stored": asked["stored"]}

    def _open(self, asked: dict[str, Any]) -> Any:
        options = {**self._options(asked), "versionAsOf": asked["version"]}
        return open_scan(self._spark, SourceOptions.parse(options), table_id=asked["id"])

    def _merge(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._options(asked)

    def _write(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a write, and the advisory bytes of a shuffled task.

        The bytes are -1 if the write needs no shuffle.
        """
        options = {**self._options(asked), **(asked["create"] or {})}
        parsed = SourceOptions.parse(options)
        log = _log(parsed)
        config = log.config
        if not asked["create"]:
            config = config.with_properties(log.reader.head()[1].metadata.configuration)
            options[TABLE_ID] = asked["id"]
        is_shuffled = config[settings.WRITE_OPTIMIZE_WRITE_ENABLED]
        share = config[settings.WRITE_OPTIMIZE_WRITE_TARGET_SPLIT_SIZE] if is_shuffled else -1
        return {"options": options, "share": share}

    def _create(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Create a table without rows, or adopt the existing table at the given location."""
        entry = NewEntry.read(asked)
        options = self._options({**asked, "stored": entry.options, "given": {}})
        head = _head(options)
        if head is None:
            made = self._planned(asked, entry, options)
            Table.create(
                options[_PATH],
                made.schema,
                partition_by=made.partition_columns,
                properties={**made.indexing, **made.properties},
                description=entry.comment,
                options=SourceOptions.parse(options).settings,
            )
        elif asked["isManaged"]:
            raise entry.taken(options[_PATH])
        else:
            entry.check_agrees(head, options[_PATH], hint="leave that out to take the table as it is")
        return self._registered(asked, entry)

    def _planned(self, asked: dict[str, Any], entry: NewEntry, options: Mapping[str, str]) -> NewTable:
        """Return the table to create.

        A managed table is deleted with its entry, so its location must be empty.
        """
        if asked["isManaged"]:
            entry.check_vacant(_log(SourceOptions.parse(options)).reader.store, options[_PATH])
        return entry.planned(options)

    def _stage(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Plan the table of a `CREATE TABLE AS SELECT`; its write creates the table."""
        entry = NewEntry.read(asked)
        options = self._options({**asked, "stored": entry.options, "given": {}})
        if _head(options) is not None:
            raise entry.taken(options[_PATH])
        made = self._planned(asked, entry, options)
        create = {
            **made.indexing,
            "partitionBy": names_as_option(made.partition_columns),
            CREATE_ONLY: _ERROR_IF_EXISTS,
        }
        return {
            "format": NAME,
            "id": asked["name"],
            "version": _NOT_MADE,
            "schema": asked["schema"],
            "plainSchema": asked["schema"],
            "partitions": made.partition_columns,
            "configuration": {},
            "secrets": [],
            "fields": {},
            "location": absolute(asked["path"]),
            "stored": entry.kept_options(),
            "kept": entry.plain,
            "comment": entry.comment,
            "options": {},
            "create": create,
            "after": made.properties,
        }

    def _restage(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Plan the replacement of a table by the rows of a query, in one overwrite."""
        entry = NewEntry.read(asked)
        told = self._load({**asked, "given": {}})
        head = _head(self._options({**asked, "given": {}}))
        if head is None:
            raise TableNotFoundError(f"No transaction log found at `{asked['path']}`")
        entry.check_agrees(head, absolute(asked["path"]), hint="drop the table first")
        if entry.place is not None and absolute(entry.place) != absolute(asked["path"]):
            raise ConfigError(
                f"cannot replace `{entry.name}` because it is at `{absolute(asked['path'])}`, not at "
                f"`{absolute(entry.place)}`",
                hint="drop it first",
            )
        comment = {} if entry.comment is None else {"comment": entry.comment}
        return {**told, "after": {**entry.plain, **comment}}

    def _registered(self, asked: dict[str, Any], entry: NewEntry) -> dict[str, Any]:
        """Return the catalog entry of an existing table."""
        location = absolute(asked["path"])
        told = self._load({"path": location, "stored": entry.options, "given": {}, "session": asked["session"]})
        schema = entry.commented(json.loads(told["schema"]))
        return {
            **told,
            "plainSchema": json.dumps(schema),
            "location": location,
            "stored": entry.kept_options(),
            "kept": entry.plain,
            "comment": entry.comment,
        }

    def _alter(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Set or remove table properties; the catalog keeps keys that are no settings."""
        ours, left = split_properties(asked["name"], asked["properties"])
        if ours:
            options = SourceOptions.parse(self._options({**asked, "given": {}}))
            Table(_log(options), _log(options).snapshot()).set_properties(ours)
        return {"left": list(left)}

    def _changed(self, asked: dict[str, Any]) -> dict[str, Any]:
        table_changed(self._spark, asked["path"])
        return {}

    def _options(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Return location and options from the statement, its entry and the session."""
        if not asked["path"]:
            raise ConfigError(
                f"cannot find the table `{asked['name']}` because its entry in the catalog has no location",
                hint="drop the entry, and create it with `LOCATION`",
            )
        place = absolute(asked["path"])
        given = {key: value for key, value in asked["given"].items() if key.lower() != _PATH}
        other = next((value for key, value in asked["given"].items() if key.lower() == _PATH), place)
        if absolute(other) != place:
            raise ConfigError(f"cannot use the path `{other}` for a table of the catalog: it is at `{place}`")
        stored = {key: value for key, value in asked["stored"].items() if key.lower() != _PATH}
        return {_PATH: place, **with_session(self._spark, place, over_session(given, stored), asked["session"])}


def _description(options: Mapping[str, str], plan: ScanPlan, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "format": NAME,
        "id": snapshot.metadata.id,
        "version": str(snapshot.version),
        "schema": plan.spark_schema().json(),
        "partitions": list(snapshot.partition_columns),
        "configuration": own_properties(snapshot.metadata.configuration),
        "secrets": [key for key in options if is_secret(key)],
        "options": {key: value for key, value in options.items() if not is_secret(key)},
    }


def _log(asked: SourceOptions) -> TransactionLog:
    return open_log(asked.url, tuple(sorted(asked.settings.items())))


def _head(options: Mapping[str, str]) -> Head | None:
    try:
        return _log(SourceOptions.parse(options)).reader.head()[1]
    except TableNotFoundError:
        return None
