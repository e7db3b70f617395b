"""Repair: check a log against its splits, and write a clean log elsewhere.

An existing log is never changed. Without a target nothing is written, unless no log is left: then one is rebuilt from
the splits.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from indextables.config import Config
from indextables.errors import CheckpointError, ConfigError, CorruptLogError
from indextables.location import Location, parse_location
from indextables.log.commit.operations import Batch
from indextables.log.snapshot import Snapshot
from indextables.maintain.fsck.check_splits import CheckedSplit, check_splits
from indextables.maintain.fsck.last_readable import Readable, last_readable
from indextables.maintain.one_row import answer_schema, one_row
from indextables.maintain.repair.clean_log import Contents, LogPlace, make_log
from indextables.maintain.repair.rebuild import rebuild
from indextables.protocol.actions import Add
from indextables.protocol.horizon import HORIZON_KEY
from indextables.protocol.names import LOG_DIRECTORY, parse_checkpoint_key, parse_version_key
from indextables.store import ObjectStore, open_store
from indextables.transaction_log import TransactionLog

logger = logging.getLogger(__name__)

REPAIR_SCHEMA = answer_schema(
    source_path=pa.string(),
    target_path=pa.string(),
    source_version=pa.int64(),
    total_splits=pa.int64(),
    valid_splits=pa.int64(),
    missing_splits=pa.int64(),
    status=pa.string(),
)
_NO_VERSION = -1
_MOST_LOGGED = 20


def repair(log_url: str, target_url: str | None = None, options: Mapping[str, Any] | None = None) -> pa.Table:
    """Check the log of a table against its splits, and write a clean log elsewhere.

    The clean log holds the newest version that can be read, less the splits that are missing or damaged. If states of
    another writer and the versions have diverged, it holds the files of both. If no log is left, it is rebuilt from the
    splits. The answer is one row. Its status is `VALID` or `DAMAGED` if nothing was written; otherwise `SUCCESS`,
    `PARTIAL` if something had to be left out, or `REBUILT`.

    Args:
        log_url: the table, or its log directory.
        target_url: an empty log directory for the clean log. Without it nothing is written.
        options: settings, such as credentials of the store.

    Example:
        >>> it.repair("logs")["status"].to_pylist()
        ['VALID']
    """
    log = TransactionLog(table_url(log_url), options=options)
    return repair_log(log, None if target_url is None else _place(target_url, log.config))


def repair_log(log: TransactionLog, target: LogPlace | None) -> pa.Table:
    """Repair the log of an open table."""
    if target is not None:
        _refuse_source(log.reader.store.location, parse_location(target.url))
        target.refuse_filled()
    log.invalidate_cache()
    if not _has_log(log.reader.store):
        return _rebuild(log, target or LogPlace(log.reader.store))
    return _validate(log) if target is None else _write_clean(log, target)


def table_url(url: str) -> str:
    """Return the table of a log directory; other addresses are returned unchanged."""
    parent, _, name = url.rstrip("/").rpartition("/")
    return (parent or ".") if name == LOG_DIRECTORY else url


def _place(target_url: str, config: Config) -> LogPlace:
    """Return the destination: a table's log directory, or any other directory."""
    table = table_url(target_url)
    return LogPlace(open_store(table, config), is_log_directory=table == target_url)


def _has_log(store: ObjectStore) -> bool:
    keys = (meta.key for meta in store.list(LOG_DIRECTORY))
    is_there = any(parse_version_key(key) is not None or parse_checkpoint_key(key) is not None for key in keys)
    return is_there and not LogPlace(store).is_cut_off()


def _validate(log: TransactionLog) -> pa.Table:
    try:
        readable = last_readable(log)
    except (CorruptLogError, CheckpointError) as error:
        logger.warning("no version of `%s` can be read: %s", log.url, error.message)
        return _answer(log, "", _NO_VERSION, 0, 0, "DAMAGED")
    checked = _check(log, readable)
    num_right = sum(split.is_right for split in checked)
    status = "VALID" if readable.problem is None and num_right == len(checked) else "DAMAGED"
    return _answer(log, "", readable.snapshot.version, len(checked), num_right, status)


def _write_clean(log: TransactionLog, place: LogPlace) -> pa.Table:
    try:
        readable = last_readable(log)
    except (CorruptLogError, CheckpointError) as error:
        raise CorruptLogError(
            f"cannot repair `{log.url}` because no version of its log can be read: {error.message}",
            hint=f"move `{log.url}/{LOG_DIRECTORY}` away and repair the table again: it is rebuilt from its splits",
        ) from error
    checked = _check(log, readable)
    adds = [add for split in checked if (add := split.mended) is not None]
    place.put(make_log(_contents(readable.snapshot, adds)))
    is_whole = readable.is_whole and all(split.is_right for split in checked)
    status = "SUCCESS" if is_whole else "PARTIAL"
    return _answer(log, place.url, readable.snapshot.version, len(checked), len(adds), status)


def _rebuild(log: TransactionLog, place: LogPlace) -> pa.Table:
    rebuilt = rebuild(log)
    place.put(make_log(rebuilt.contents))
    log.invalidate_cache()
    logger.warning(
        "the log of `%s` was rebuilt from its splits: rows of splits that were merged, overwritten or dropped, and not "
        "purged, may reappear or be duplicated; names, properties, skips and the committed batches of streams are lost",
        log.url,
    )
    num_splits = rebuilt.num_splits
    return _answer(log, place.url, _NO_VERSION, num_splits, num_splits - rebuilt.num_damaged, "REBUILT")


def _check(log: TransactionLog, readable: Readable) -> list[CheckedSplit]:
    """Read all live splits completely, in the table's order, and log the problems."""
    snapshot = readable.snapshot
    if readable.problem is not None:
        logger.warning("`%s` is read at version %d: %s", log.url, snapshot.version, readable.problem)
    checked = {found.add.path: found for found in check_splits(log, snapshot, deep=True)}
    in_order = [checked[path] for path in snapshot.files["path"].to_pylist()]
    _log_problems([found for found in in_order if not found.is_right])
    return in_order


def _log_problems(wrong: Sequence[CheckedSplit]) -> None:
    for found in wrong[:_MOST_LOGGED]:
        fate = "cannot be used" if found.mended is None else "is damaged and can be used"
        logger.warning("the split `%s` %s: %s", found.add.path, fate, found.findings[0].problem)
    if len(wrong) > _MOST_LOGGED:
        logger.warning("%d more splits are damaged", len(wrong) - _MOST_LOGGED)


def _contents(snapshot: Snapshot, adds: Sequence[Add]) -> Contents:
    """Return the contents of a clean log for a snapshot.

    Files refer to the doc mappings in the metadata. Stream batches keep their order.
    """
    known, paths = snapshot.doc_mappings, {add.path for add in adds}
    configuration = {key: text for key, text in snapshot.metadata.configuration.items() if key != HORIZON_KEY}
    batches = sorted(snapshot.transactions.items(), key=lambda entry: (entry[1][1], entry[0]))
    return Contents(
        metadata=msgspec.structs.replace(snapshot.metadata, configuration=configuration),
        protocol=snapshot.protocol,
        adds=[
            msgspec.structs.replace(add, doc_mapping_json=None) if add.doc_mapping_ref in known else add for add in adds
        ],
        skips=[skip for path, skip in snapshot.skips.items() if path in paths],
        batches=[Batch(application_id, batch_id) for application_id, (batch_id, _) in batches],
        timestamp_ms=snapshot.timestamp_ms,
        parameters={"sourceVersion": snapshot.version},
    )


def _refuse_source(table: Location, target: Location) -> None:
    inside = "" if target == table else table.relative(target)
    if inside is not None and (inside == "" or inside.split("/")[0] == LOG_DIRECTORY):
        raise ConfigError(
            f"cannot write a clean log to `{target.url}` because the log to be repaired is there",
            hint="choose another place, and replace the old log by the clean one afterwards",
        )


def _answer(
    log: TransactionLog, target_path: str, version: int, num_splits: int, num_valid: int, status: str
) -> pa.Table:
    row = {
        "source_path": log.url,
        "target_path": target_path,
        "source_version": version,
        "total_splits": num_splits,
        "valid_splits": num_valid,
        "missing_splits": num_splits - num_valid,
        "status": status,
    }
    return one_row(REPAIR_SCHEMA, row)
