"""Servers that the store tests speak to. All listen on 127.0.0.1 and end with the block that started them."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import hmac
import http.server
import logging
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

from indextables.config import Config
from indextables.store import ObjectStore, open_store

BUCKET = "tables"
AWS_SECRET = "secret/of+the+tests/0123456789"
AZURE_ACCOUNT = "devstoreaccount1"
# The key of every Azurite, as its documentation gives it.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_START_SECONDS = 30


def s3_options(endpoint: str) -> dict[str, object]:
    """How to reach the S3 server of these tests."""
    return {
        "aws.endpoint": endpoint,
        "aws.accessKey": "AKIATESTTESTTEST",
        "aws.secretKey": AWS_SECRET,
        "aws.region": "us-east-1",
        "store.allowHttp": True,
        "store.retry.maxAttempts": 1,
    }


def azure_options(endpoint: str) -> dict[str, object]:
    """How to reach Azurite."""
    return {
        "azure.endpoint": endpoint,
        "azure.accountName": AZURE_ACCOUNT,
        "azure.accountKey": AZURE_KEY,
        "store.allowHttp": True,
        "store.retry.maxAttempts": 1,
    }


def open_at(url: str, **options: object) -> ObjectStore:
    return open_store(url, Config.resolve(options=options))


def memory_store() -> ObjectStore:
    """A memory store that nobody else has."""
    return open_at(f"memory://{uuid.uuid4()}/t")


@contextlib.contextmanager
def moto_server() -> Iterator[str]:
    """An S3 server with one bucket; its endpoint."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield endpoint
    finally:
        server.stop()


def azurite_path() -> str | None:
    """Where Azurite is installed, on this machine or in this checkout, if it is."""
    return shutil.which("azurite") or shutil.which("azurite", path="node_modules/.bin")


@contextlib.contextmanager
def azurite_server(directory: Path) -> Iterator[str]:
    """An Azure Blob Storage server with one container; its endpoint."""
    port = free_port()
    command = [str(azurite_path()), "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--blobHost"]
    command += ["127.0.0.1", "--blobPort", str(port), "--queuePort", "0", "--tablePort", "0"]
    command += ["--location", str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
        _create_container(endpoint)
        yield endpoint
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


@contextlib.contextmanager
def recording_server(status: int, body: str = "") -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server with one answer to everything; its endpoint, and the path and headers of what it was asked."""
    asked: list[dict[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked.append({**headers, ":path": self.path})
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body.encode())

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the names that the base class looks for

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _create_container(endpoint: str) -> None:
    headers = {
        "x-ms-date": datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "x-ms-version": "2021-12-02",
    }
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + "".join(f"{name}:{value}\n" for name, value in headers.items()) + resource
    signature = base64.b64encode(hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256)).decode()
    request = urllib.request.Request(
        f"{endpoint}/{BUCKET}?restype=container",
        method="PUT",
        headers={**headers, "Authorization": f"SharedKey {AZURE_ACCOUNT}:{signature}"},
    )
    urllib.request.urlopen(request, timeout=10).close()
