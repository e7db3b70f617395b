"""Deleting many files: batches that are spread over workers, each tried several times. What fails is counted."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tenacity

from indextables.config import Config, settings
from indextables.errors import StorageError
from indextables.log.commit import commit_backoff
from indextables.ops.workers import workers_for
from indextables.store import ObjectStore
from indextables.transaction_log import TransactionLog

KEYS_PER_BATCH = 1000
_MOST_FAILURES = 10


class Failed(NamedTuple):
    """The files of a batch that are still there, and why."""

    keys: Sequence[str] = ()
    message: str = ""


def delete_files(log: TransactionLog, keys: Sequence[str], config: Config) -> Iterator[tuple[Sequence[str], Failed]]:
    """Delete files, and answer with each batch and what failed of it, as they come."""
    batches = [keys[start : start + KEYS_PER_BATCH] for start in range(0, len(keys), KEYS_PER_BATCH)]
    work = functools.partial(_delete_batch, log, config)
    for place, failed in workers_for(log).run(work, batches, at_once=config[settings.PURGE_PARALLELISM]):
        yield batches[place], failed


def _delete_batch(log: TransactionLog, config: Config, keys: Sequence[str]) -> Failed:
    """Delete a batch. Where that fails again and again, file by file, so that one does not stop the others."""
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(1 + config[settings.PURGE_DELETE_RETRIES]),
        wait=commit_backoff(config, log.clock),
        retry=tenacity.retry_if_exception_type(StorageError),
        sleep=log.clock.sleep,
        reraise=True,
    )
    try:
        retrying(log.reader.store.delete_many, keys)
    except StorageError:
        return _delete_one_by_one(log.reader.store, keys)
    return Failed()


def _delete_one_by_one(store: ObjectStore, keys: Sequence[str]) -> Failed:
    """What is left when too many have failed is not tried: the store is out of reach, or the files are."""
    failed: list[str] = []
    message = ""
    for place, key in enumerate(keys):
        try:
            store.delete(key)
        except StorageError as error:
            message = message or error.message
            failed.append(key)
        if len(failed) >= _MOST_FAILURES:
            return Failed([*failed, *keys[place + 1 :]], message)
    return Failed(failed, message)
