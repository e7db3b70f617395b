"""Azurite: Azure Blob Storage."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import hmac
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.servers.base import BUCKET, Running, create, free_port, process

AZURE_ACCOUNT = "devstoreaccount1"
# The key of every Azurite, as its documentation gives it.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def azure_options(endpoint: str) -> dict[str, object]:
    """How to reach Azurite."""
    return {
        "azure.endpoint": endpoint,
        "azure.accountName": AZURE_ACCOUNT,
        "azure.accountKey": AZURE_KEY,
        "store.allowHttp": True,
        "store.retry.maxAttempts": 1,
    }


def missing_azurite() -> str | None:
    return None if _azurite() else "no `azurite` on this machine: npm install -g azurite"


@contextlib.contextmanager
def azurite_server(directory: Path) -> Iterator[Running]:
    """Azurite keeps its data on disk, and a crash costs what it acknowledged in the last five seconds."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
    command = [str(_azurite()), "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--blobHost"]
    command += ["127.0.0.1", "--blobPort", str(port), "--queuePort", "0", "--tablePort", "0"]
    command += ["--location", str(directory)]
    with process(command, directory, lambda: _create_container(endpoint)) as server:
        options = azure_options(endpoint)
        ends = (server.kill, server.stop, server.start)
        yield Running("azurite", f"az://{BUCKET}", endpoint, options, "azure.endpoint", *ends)


def _azurite() -> str | None:
    """Where Azurite is installed, on this machine or in this checkout, if it is."""
    return shutil.which("azurite") or shutil.which("azurite", path=str(Path("node_modules/.bin").resolve()))


def _create_container(endpoint: str) -> None:
    """Create the container. That it is there already is fine."""
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
    create(request)
