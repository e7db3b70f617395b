"""The clouds' own chains of credentials, with servers that speak their protocols; and how requests are made."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from tests.servers import BUCKET, running
from tests.servers.recording import recording_server
from tests.servers.s3 import AWS_SECRET, s3_options
from tests.store.opened import open_at

from indextables.errors import ConfigError, StorageError
from indextables.store.cloud.store import CloudStore

EXPIRES = "2099-01-01T00:00:00Z"
S3_CREDENTIALS = {"AccessKeyId": "ASIAFETCHED", "SecretAccessKey": "s", "Token": "fetchedtoken", "Expiration": EXPIRES}
VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"),
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS"),
    *("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"),
)
Answer = Callable[[str, str], tuple[int, str]]


@pytest.fixture(autouse=True)
def bare_environment(tmp_path, monkeypatch) -> None:
    """No credentials from the machine that runs the tests."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))


@contextlib.contextmanager
def answering_server(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """A server that answers by method and path; its address, and what it was asked, with the authorization."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode(errors="replace")
            signed = self.headers.get("authorization", "")
            token = self.headers.get("x-amz-security-token", "")
            asked.append(" ".join([self.command, self.path, signed, token, body]))
            status, text = answer(self.command, self.path)
            self.send_response(status)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_POST = do_GET  # noqa: N815 - the names that the base class looks for

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def ask(url: str, **options: object) -> None:
    """Ask for a key that is not there."""
    with pytest.raises(StorageError):
        open_at(url, **{"store.allowHttp": True, "store.retry.maxAttempts": 0, **options}).get("k")


def by_path(answers: dict[str, tuple[int, str]]) -> Answer:
    """The answer to paths that begin so; nothing else is there."""
    return lambda _, path: next((found for start, found in answers.items() if path.startswith(start)), (404, ""))


# Amazon


def test_s3_endpoint_of_the_environment_for_the_service_wins(monkeypatch):
    with recording_server(404) as (general, others), recording_server(404) as (own, asked):
        monkeypatch.setenv("AWS_ENDPOINT_URL", general)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", own)
        ask("s3://bucket/t", **{"aws.skipSignature": True})
    assert (len(asked), len(others)) == (1, 0)


def test_instance_metadata_of_ec2(monkeypatch):
    role = "/latest/meta-data/iam/security-credentials/"
    answers = {
        "/latest/api/token": (200, "imdstoken"),
        f"{role}worker": (200, json.dumps({"Code": "Success", **S3_CREDENTIALS})),
        role: (200, "worker"),
    }
    with answering_server(by_path(answers)) as (server, asked):
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", server)
        ask("s3://bucket/t", **{"aws.endpoint": server, "aws.region": "us-east-1"})
    assert asked[0].startswith("PUT /latest/api/token")
    assert "Credential=ASIAFETCHED/" in asked[-1]
    assert "fetchedtoken" in asked[-1]


def test_container_credentials(tmp_path, monkeypatch):
    token = tmp_path / "token"
    token.write_text("podtoken")
    with answering_server(by_path({"/pod": (200, json.dumps(S3_CREDENTIALS))})) as (server, asked):
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server}/pod")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
        ask("s3://bucket/t", **{"aws.endpoint": server, "aws.region": "us-east-1"})
    assert asked[0].startswith("GET /pod podtoken")
    assert "Credential=ASIAFETCHED/" in asked[-1]


STS = f"""<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>ASIAFETCHED</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>fetchedtoken</SessionToken>
<Expiration>{EXPIRES}</Expiration>
</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


def test_web_identity_through_the_token_service(tmp_path, monkeypatch):
    """The client speaks to that service over TLS only."""
    (tmp_path / "token").write_text("webtoken")
    context, authority = tls_server_side(tmp_path)
    with answering_server(lambda method, _: (200, STS) if method == "POST" else (404, ""), context) as (server, asked):
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server)
        ask("s3://bucket/t", **{"aws.endpoint": server, "aws.region": "us-east-1", "store.caFile": authority})
    assert "webtoken" in asked[0]
    assert "Credential=ASIAFETCHED/" in asked[-1]
    assert "fetchedtoken" in asked[-1]


def test_role_of_a_profile_through_the_token_service(tmp_path, monkeypatch):
    """What `fs.s3a.assumed.role.arn` asks for, the way that is offered instead."""
    (tmp_path / "config").write_text(
        "[profile role]\nrole_arn = arn:aws:iam::123456789012:role/reader\nsource_profile = base\nregion = us-east-1\n"
        "[profile base]\naws_access_key_id = AKIABASE\naws_secret_access_key = s\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with running("moto", Path()) as server:
        endpoint = server.endpoint
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", endpoint)
        store = open_at(
            "s3://tables/role", **{"aws.profile": "role", "aws.endpoint": endpoint, "store.allowHttp": True}
        )
        store.put("k", b"x")
        assert store.get("k") == b"x"


def test_bucket_goes_into_the_host_where_asked_for():
    def endpoint(path_style: bool | None, given: str = "https://s3.test:9000") -> tuple[str, str | None]:
        options = {"aws.endpoint": given, **({} if path_style is None else {"aws.pathStyleAccess": path_style})}
        store = open_at("s3://bucket/t", **options)
        assert isinstance(store, CloudStore)
        config = store._client().config
        return config["endpoint"], config.get("virtual_hosted_style_request")

    assert endpoint(None) == ("https://s3.test:9000", None)
    assert endpoint(True) == ("https://s3.test:9000", "false")
    assert endpoint(False) == ("https://bucket.s3.test:9000", "true")
    assert endpoint(False, "https://bucket.s3.test") == ("https://bucket.s3.test", "true")


def test_encryption_and_paying_reach_the_server():
    with running("moto", Path()) as server:
        endpoint = server.endpoint
        extra = {"aws.encryption": "aws:kms", "aws.encryptionKeyId": "alias/own"}
        open_at(f"s3://{BUCKET}/e", **s3_options(endpoint), **extra).put("k", b"x")
        plain = {"aws.encryption": "AES256"}
        open_at(f"s3://{BUCKET}/e", **s3_options(endpoint), **plain).put("l", b"x")
        keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=endpoint, **keys)
        found = client.head_object(Bucket=BUCKET, Key="e/k")
        assert (found["ServerSideEncryption"], found["SSEKMSKeyId"]) == ("aws:kms", "alias/own")
        assert client.head_object(Bucket=BUCKET, Key="e/l")["ServerSideEncryption"] == "AES256"
        client.close()
    with recording_server(404) as (endpoint, asked):
        ask("s3://bucket/t", **{**s3_options(endpoint), "aws.requesterPays": True})
    assert asked[0]["x-amz-request-payer"] == "requester"


@pytest.mark.parametrize(
    ("status", "body"), [(301, "<Code>PermanentRedirect</Code>"), (400, "<Code>AuthorizationHeaderMalformed</Code>")]
)
def test_wrong_region_is_hinted_at(status, body):
    with recording_server(status, body) as (endpoint, _), pytest.raises(StorageError) as caught:
        open_at("s3://bucket/t", **s3_options(endpoint)).get("k")
    assert caught.value.hint == "the bucket may be in another region: set `aws.region`"


# Azure

TOKEN = json.dumps({"access_token": "fetched", "expires_in": 3600, "token_type": "Bearer"})
MANAGED = json.dumps({"access_token": "fetched", "expires_on": "4070908800", "token_type": "Bearer"})


def test_azure_environment_alone_is_enough(monkeypatch):
    with recording_server(404) as (endpoint, asked):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acct")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
        ask("az://container/t")
    assert asked[0]["authorization"].startswith("SharedKey acct:")


def test_azure_service_principal():
    with answering_server(by_path({"/ten/oauth2": (200, TOKEN)})) as (server, asked):
        principal = {"azure.tenantId": "ten", "azure.clientId": "cid", "azure.clientSecret": "hidden"}
        place = {"azure.accountName": "a", "azure.endpoint": server, "azure.authorityHost": server}
        ask("az://container/t", **principal, **place)
    assert asked[0].startswith("POST /ten/oauth2/v2.0/token")
    assert "client_id=cid" in asked[0]
    assert asked[-1].startswith("GET /container/t/k Bearer fetched")


def test_azure_managed_identity():
    with answering_server(by_path({"/msi": (200, MANAGED)})) as (server, asked):
        place = {"azure.accountName": "a", "azure.endpoint": server, "azure.msiEndpoint": f"{server}/msi"}
        ask("az://container/t", **place, **{"azure.credentialType": "managed_identity", "azure.clientId": "cid"})
    assert "client_id=cid" in asked[0]
    assert asked[-1].startswith("GET /container/t/k Bearer fetched")


def test_azure_workload_identity(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("federated")
    with answering_server(by_path({"/ten/oauth2": (200, TOKEN)})) as (server, asked):
        monkeypatch.setenv("AZURE_CLIENT_ID", "cid")
        monkeypatch.setenv("AZURE_TENANT_ID", "ten")
        place = {"azure.accountName": "a", "azure.endpoint": server, "azure.authorityHost": server}
        ask("az://container/t", **place, **{"azure.federatedTokenFile": str(tmp_path / "token")})
    assert "client_assertion=federated" in asked[0]
    assert asked[-1].startswith("GET /container/t/k Bearer fetched")


def test_azure_command_line(tmp_path, monkeypatch):
    """Any program of that name will do, as long as it answers as it does."""
    answer = {"accessToken": "fetched", "expiresOn": "2099-01-01 00:00:00.000000", "tokenType": "Bearer"}
    answer |= {"subscription": "s", "tenant": "t"}
    program = tmp_path / "az"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with recording_server(404) as (server, asked):
        place = {"azure.accountName": "a", "azure.endpoint": server}
        ask("az://container/t", **place, **{"azure.credentialType": "azure_cli"})
    assert asked[0]["authorization"] == "Bearer fetched"


def test_public_places_are_asked_unsigned():
    for url, options, endpoint in (
        ("az://container/t", {"azure.accountName": "a", "azure.skipSignature": True}, "azure.endpoint"),
        ("gs://bucket/t", {"gcs.skipSignature": True}, "gcs.endpoint"),
    ):
        with recording_server(404) as (server, asked):
            ask(url, **options, **{endpoint: server})
        assert [request.get("authorization") for request in asked] == [None]


# Google


def service_account() -> str:
    account = {
        "type": "service_account",
        "client_email": "worker@project.test",
        "private_key_id": "7",
        "private_key": _pem(rsa.generate_private_key(65537, 2048)).decode(),
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    return json.dumps(account)


def test_google_service_accounts(tmp_path, monkeypatch):
    """The client makes a token of the account's key, and asks nobody for it."""
    written = service_account()
    path = tmp_path / "account.json"
    path.write_text(written)
    for given in ({"gcs.serviceAccountFile": str(path)}, {"gcs.serviceAccountKey": written}, {}):
        if not given:
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        with recording_server(404) as (server, asked):
            ask("gs://bucket/t", **given, **{"gcs.endpoint": server})
        assert asked[0]["authorization"].startswith("Bearer ey")


# How requests are made


def tls_server_side(directory: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's side of TLS, and the file of the authority that vouches for it."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("authority", authority_key, "authority", authority_key)
    public, private = directory / "server.pem", directory / "key.pem"
    public.write_bytes(_certificate("server", key, "authority", authority_key))
    private.write_bytes(_pem(key))
    (directory / "ca.pem").write_bytes(authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return context, directory / "ca.pem"


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, issuer_key: ec.EllipticCurvePrivateKey
) -> bytes:
    subject, by = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, issuer))
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    day, now = datetime.timedelta(days=1), datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(by, subject, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    kind = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*kind)


def test_certificates_of_a_file_are_trusted(tmp_path):
    context, path = tls_server_side(tmp_path)
    with answering_server(by_path({}), context) as (server, asked):
        options = {**s3_options(server), "store.allowHttp": False, "store.retry.maxAttempts": 0}
        ask("s3://bucket/t", **options)
        assert asked == []
        ask("s3://bucket/t", **options, **{"store.caFile": path})
        assert len(asked) == 1
    with pytest.raises(ConfigError, match=r"cannot read the certificates in `/none.pem`: No such file"):
        open_at("s3://bucket/t", **{"store.caFile": "/none.pem"}).get("k")


@pytest.mark.parametrize(("at_once", "num_asked"), [(2, 6), (8, 6)])
def test_no_more_requests_are_under_way_than_allowed(at_once, num_asked):
    under_way: list[int] = []
    now = 0
    lock = threading.Lock()

    def answer(_method: str, _path: str) -> tuple[int, str]:
        nonlocal now
        with lock:
            now += 1
            under_way.append(now)
        time.sleep(0.3)
        with lock:
            now -= 1
        return 404, ""

    with answering_server(answer) as (server, _):
        store = open_at("s3://bucket/t", **s3_options(server), **{"store.parallelism": at_once})

        def get() -> None:
            with pytest.raises(StorageError):
                store.get("k")

        threads = [threading.Thread(target=get) for _ in range(num_asked)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(under_way) == num_asked
    assert max(under_way) <= at_once
    assert max(under_way) > 1


def test_a_store_with_one_request_at_a_time_does_not_wait_for_itself():
    with running("moto", Path()) as server:
        endpoint = server.endpoint
        store = open_at(f"s3://{BUCKET}/one", **s3_options(endpoint), **{"store.parallelism": 1})
        store.put("a", b"x" * (12 << 20))
        store.put("b", b"y")
        found = [store.get(meta.key)[:1] for page in store.pages() for meta in page]
        assert found == [b"x", b"y"]
        assert [store.head(meta.key).size for meta in store.list()] == [12 << 20, 1]
        store.delete_many(["a", "b", "c"])
        assert list(store.list()) == []


@pytest.mark.parametrize("value", ["two\nlines", "umläut"])
@pytest.mark.parametrize(
    ("url", "key", "others"),
    [
        ("s3://b/t", "aws.accessKey", {"aws.secretKey": AWS_SECRET}),
        ("s3://b/t", "aws.sessionToken", {"aws.accessKey": "a", "aws.secretKey": AWS_SECRET}),
        ("az://c/t", "azure.bearerToken", {"azure.accountName": "a"}),
        ("gs://b/t", "gcs.bearerToken", {}),
    ],
)
def test_secrets_that_no_request_can_carry_are_refused(url, key, others, value):
    with pytest.raises(ConfigError, match=f"cannot use the value of `{key}`") as caught:
        open_at(url, **{key: value}, **others).get("k")
    assert value not in str(caught.value)
