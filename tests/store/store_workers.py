"""What other processes do in the store tests. It stands apart so that a spawned process imports little."""

from __future__ import annotations

import pickle

from indextables.errors import ObjectExistsError, StorageError


def race_to_create(pickled: bytes, worker: int, rounds: int, barrier, answers) -> None:
    """Create the same keys as the other workers, all at once, and tell which ones were won."""
    store = pickle.loads(pickled)
    won = []
    for number in range(rounds):
        barrier.wait(30)
        try:
            store.put_if_absent(f"log/{number}", race_content(worker))
        except ObjectExistsError:
            continue
        won.append(number)
    answers.put((worker, won))


def race_content(worker: int) -> bytes:
    """The content of one worker, long enough to be torn."""
    return str(worker).encode() * 100_000


def put_and_get(pickled: bytes, answers) -> None:
    """Use a store that came from another process, and tell what happened."""
    try:
        store = pickle.loads(pickled)
        store.put("from-the-child", b"hello")
        answers.put(store.get("from-the-child"))
    except StorageError as error:
        answers.put(str(error))
