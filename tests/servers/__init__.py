"""Real servers for the tests. All listen on 127.0.0.1 and end with the block that started them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.servers.azure import azurite_server, missing_azurite
from tests.servers.base import BUCKET, Running, free_port
from tests.servers.ceph import ceph_server, missing_ceph
from tests.servers.gcs import gcs_server, missing_gcs
from tests.servers.s3 import (
    ministack_server,
    missing_ministack,
    missing_moto,
    missing_seaweedfs,
    moto_server,
    seaweedfs_server,
)

__all__ = ["ATOMIC", "BUCKET", "KINDS", "RESTARTABLE", "Running", "free_port", "missing", "running"]

KINDS = ("moto", "ministack", "seaweedfs", "azurite", "gcs")  # and "ceph", for long runs
# Of two creates at once, exactly one succeeds.
ATOMIC = ("ministack", "seaweedfs", "azurite", "gcs")
# What they acknowledged is there again after a crash. Azurite loses the last seconds, and of the GCS server a crash
# leaves objects that are listed and cannot be read.
RESTARTABLE = ("seaweedfs", "ceph")

_MISSING: dict[str, Callable[[], str | None]] = {
    "moto": missing_moto,
    "ministack": missing_ministack,
    "seaweedfs": missing_seaweedfs,
    "azurite": missing_azurite,
    "gcs": missing_gcs,
    "ceph": missing_ceph,
}
_RUNNING: dict[str, Callable[[Path], AbstractContextManager[Running]]] = {
    "moto": moto_server,
    "ministack": ministack_server,
    "seaweedfs": seaweedfs_server,
    "azurite": azurite_server,
    "gcs": gcs_server,
    "ceph": ceph_server,
}


def missing(kind: str) -> str | None:
    """Why this server cannot run here, with the command that installs it; None where it can."""
    return _MISSING[kind]()


def running(kind: str, directory: Path) -> AbstractContextManager[Running]:
    """A server of this kind with its data in the directory."""
    return _RUNNING[kind](directory)
