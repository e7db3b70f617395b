"""Servers that speak S3: moto for function, ministack and SeaweedFS for races, SeaweedFS for crashes."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shutil
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.servers.base import BUCKET, Running, ask, create, free_port, free_ports, process

AWS_SECRET = "secret/of+the+tests/0123456789"


def s3_options(endpoint: str) -> dict[str, object]:
    """How to reach an S3 server of these tests."""
    return {
        "aws.endpoint": endpoint,
        "aws.accessKey": "AKIATESTTESTTEST",
        "aws.secretKey": AWS_SECRET,
        "aws.region": "us-east-1",
        "store.allowHttp": True,
        "store.retry.maxAttempts": 1,
    }


def missing_moto() -> str | None:
    return _missing_module("moto", "pip install 'indextables[dev]'")


def missing_ministack() -> str | None:
    return _missing_module("ministack", "pip install 'indextables[dev]'")


def missing_seaweedfs() -> str | None:
    return None if _weed() else "no `weed` on this machine: pip install 'indextables[servers]'"


@contextlib.contextmanager
def moto_server(_directory: Path) -> Iterator[Running]:
    """In this process. It honours put-if-absent, though not atomically, and forgets everything."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        _create_bucket(endpoint)
        yield _running("moto", endpoint)
    finally:
        server.stop()


@contextlib.contextmanager
def ministack_server(directory: Path) -> Iterator[Running]:
    """Atomic and fast, but what it writes to disk may be torn by a crash: so it forgets everything."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    settings = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SERVICES": "s3", "LOG_LEVEL": "ERROR"}
    # What it starts by itself on every address, and where it notes its process.
    settings |= {"IOT_MTLS_ENABLED": "0", "SFTP_ENABLED": "0", "TMPDIR": str(directory)}
    command = [sys.executable, "-W", "ignore", "-m", "ministack"]
    with process(command, directory, lambda: _create_bucket(endpoint), {**os.environ, **settings}) as server:
        yield _running("ministack", endpoint, kill=server.kill)


@contextlib.contextmanager
def seaweedfs_server(directory: Path) -> Iterator[Running]:
    """Atomic, and what it acknowledged is there again after a crash."""
    roles = ["master", "volume", "filer", "s3"]
    ports = free_ports(2 * len(roles))
    endpoint = f"http://127.0.0.1:{ports[-2]}"
    command = [
        str(_weed()),
        f"-logdir={directory}",
        "server",
        "-s3",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={directory}",
    ]
    command += ["-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=100"]
    command += ["-master.electionTimeout=1s", "-master.heartbeatInterval=100ms", "-volume.preStopSeconds=0"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.minFreeSpace=1MiB"]
    command += [f"-{role}.localSocket={directory}/{role}.sock" for role in ("filer", "s3")]
    for role, port, grpc_port in zip(roles, ports[::2], ports[1::2], strict=True):
        command += [f"-{role}.port={port}", f"-{role}.port.grpc={grpc_port}"]
    try:
        with process(command, directory, lambda: _write_something(endpoint)) as server:
            yield _running("seaweedfs", endpoint, kill=server.kill, stop=server.stop, start=server.start)
    finally:
        for role, grpc_port in zip(roles, ports[1::2], strict=True):
            Path(f"/tmp/seaweedfs-{role}-grpc-{grpc_port}.sock").unlink(missing_ok=True)


def _running(kind: str, endpoint: str, **crash) -> Running:
    return Running(kind, f"s3://{BUCKET}", endpoint, s3_options(endpoint), "aws.endpoint", **crash)


def _missing_module(name: str, install: str) -> str | None:
    return None if importlib.util.find_spec(name) else f"no `{name}` on this machine: {install}"


def _weed() -> str | None:
    return shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")


def _create_bucket(endpoint: str) -> None:
    """Create the bucket, without a signature. That it is there already is fine."""
    create(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT"))


def _write_something(endpoint: str) -> None:
    """The same, and an object: SeaweedFS takes buckets before it has room for their content."""
    _create_bucket(endpoint)
    ask(urllib.request.Request(f"{endpoint}/{BUCKET}/.ready", b"x", method="PUT"))
    ask(urllib.request.Request(f"{endpoint}/{BUCKET}/.ready", method="DELETE"))
