"""Which credentials and settings reach the client, and that none of them reaches a message."""

from __future__ import annotations

import datetime
import socket
import sys
import traceback
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from opened import open_at
from tests.servers import BUCKET, free_port, running
from tests.servers.azure import AZURE_KEY
from tests.servers.recording import recording_server
from tests.servers.s3 import AWS_SECRET

from indextables.errors import ConfigError, ObjectExistsError, ObjectNotFoundError, StorageDeniedError, StorageError
from indextables.location import redact
from indextables.store import ObjectStore
from indextables.store.cloud.store import CloudStore

SAS = "sv=2024-01-01&sp=rwdl&sig=c2VjcmV0c2lnbmF0dXJl%3D"


@pytest.fixture(autouse=True)
def bare_environment(tmp_path, monkeypatch) -> None:
    """No credentials from the machine that runs the tests."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))


@pytest.fixture(scope="module")
def profile_endpoint(tmp_path_factory) -> Iterator[str]:
    with running("moto", tmp_path_factory.mktemp("moto")) as server:
        yield server.endpoint


def client_of(store: ObjectStore):
    assert isinstance(store, CloudStore)
    return store._client()


def error_of(store: ObjectStore) -> StorageError:
    with pytest.raises(StorageError) as caught:
        store.get("k")
    return caught.value


def everything_shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__dict__)


# Options


def test_options_of_s3_reach_the_client():
    store = open_at(
        "s3a://bucket/a%20b/c",
        **{
            "aws.accessKey": "key",
            "aws.secretKey": "secret",
            "aws.sessionToken": "token",
            "aws.region": "eu-west-1",
            "aws.endpoint": "http://127.0.0.1:9",
            "aws.pathStyleAccess": True,
            "store.allowHttp": True,
            "store.timeoutSeconds": 7,
            "store.retry.maxAttempts": 3,
            "store.retry.timeoutSeconds": 11,
            "store.retry.baseDelayMs": 20,
            "store.retry.maxDelayMs": "4s",
            "store.connectTimeoutSeconds": 2,
            "store.parallelism": 5,
        },
    )
    client = client_of(store)
    assert client.prefix == "a%20b/c"
    assert client.config == {
        "bucket": "bucket",
        "access_key_id": "key",
        "secret_access_key": "secret",
        "session_token": "token",
        "region": "eu-west-1",
        "endpoint": "http://127.0.0.1:9",
        "virtual_hosted_style_request": "false",
    }
    assert client.client_options == {
        "allow_http": "true",
        "timeout": "7s",
        "connect_timeout": "2s",
        "pool_max_idle_per_host": "5",
    }
    assert client.retry_config == {
        "max_retries": 3,
        "retry_timeout": datetime.timedelta(seconds=11),
        "backoff": {
            "init_backoff": datetime.timedelta(milliseconds=20),
            "max_backoff": datetime.timedelta(seconds=4),
            "base": 2,
        },
    }


def test_options_have_careful_defaults():
    client = client_of(open_at("s3://bucket"))
    assert client.prefix is None
    assert client.config == {"bucket": "bucket"}
    assert client.client_options == {
        "allow_http": "false",
        "timeout": "30s",
        "connect_timeout": "5s",
        "pool_max_idle_per_host": "32",
    }
    assert client.retry_config["max_retries"] == 10
    assert client.retry_config["retry_timeout"] == datetime.timedelta(seconds=180)


def test_options_of_azure_reach_the_client():
    options = {"azure.accountName": "named", "azure.accountKey": AZURE_KEY, "azure.endpoint": "https://blobs.test/x"}
    client = client_of(open_at("az://container/t", **options))
    assert client.config == {
        "container_name": "container",
        "account_name": "named",
        "account_key": AZURE_KEY,
        "endpoint": "https://blobs.test/x",
    }
    principal = {"azure.tenantId": "t", "azure.clientId": "c", "azure.clientSecret": "s"}
    config = client_of(open_at("abfss://container@account.dfs.core.windows.net/t", **principal)).config
    assert config["account_name"] == "account"
    assert {"t", "c", "s"} <= set(config.values())
    assert (
        "TOKEN"
        in client_of(open_at("az://c/t", **{"azure.accountName": "a", "azure.bearerToken": "TOKEN"})).config.values()
    )


def test_option_of_an_azure_account_wins_over_the_url():
    store = open_at("abfss://container@account.dfs.core.windows.net/t", **{"azure.accountName": "named"})
    assert client_of(store).config["account_name"] == "named"


def test_azure_without_an_account_is_a_clear_error(monkeypatch):
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert "Account must be specified" in error_of(open_at("az://container/t")).message


def test_options_of_google_reach_the_client(tmp_path):
    options = {"gcs.bearerToken": "token", "gcs.endpoint": "http://127.0.0.1:9", "store.allowHttp": True}
    client = client_of(open_at("gs://bucket/t%20", **options))
    assert client.prefix == "t%20"
    assert client.config == {"bucket": "bucket", "bearer_token": "token", "base_url": "http://127.0.0.1:9"}
    missing = open_at("gs://bucket/t", **{"gcs.serviceAccountFile": str(tmp_path / "none.json")})
    assert "none.json" in error_of(missing).message


def test_options_are_signed_with():
    with recording_server(404) as (endpoint, asked):
        options = {"aws.endpoint": endpoint, "store.allowHttp": True, "aws.region": "eu-west-1"}
        keys = {"aws.accessKey": "OPTIONKEY", "aws.secretKey": "s3cr3t"}
        assert isinstance(error_of(open_at("s3://bucket/t", **options, **keys)), ObjectNotFoundError)
        assert "Credential=OPTIONKEY/" in asked[-1]["authorization"]
        error_of(open_at("s3://bucket/t", **options, **{"aws.skipSignature": True}))
        assert "authorization" not in asked[-1]


@pytest.mark.parametrize("part", [{"aws.accessKey": "key"}, {"aws.secretKey": AWS_SECRET}, {"aws.sessionToken": "tok"}])
def test_options_with_half_a_pair_of_keys_are_refused(part, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "envsecret")
    with pytest.raises(ConfigError, match="only a part of the credentials") as caught:
        open_at("s3://bucket/t", **part).get("k")
    assert AWS_SECRET not in str(caught.value)


# The environment


def set_environment(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_environment_alone_is_enough(monkeypatch):
    set_environment(monkeypatch, AWS_ACCESS_KEY_ID="ENVKEY", AWS_SECRET_ACCESS_KEY="envsecret", AWS_REGION="eu-north-1")
    set_environment(monkeypatch, AWS_SESSION_TOKEN="envtoken")
    with recording_server(404) as (endpoint, asked):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        store = open_at("s3://bucket/t", **{"store.allowHttp": True})
        assert client_of(store).config == {"bucket": "bucket"}
        error_of(store)
    assert "Credential=ENVKEY/" in asked[0]["authorization"]
    assert "/eu-north-1/" in asked[0]["authorization"]
    assert asked[0]["x-amz-security-token"] == "envtoken"


def test_environment_does_not_mix_its_token_with_keys_from_options(monkeypatch):
    set_environment(monkeypatch, AWS_ACCESS_KEY_ID="ENVKEY", AWS_SECRET_ACCESS_KEY="e", AWS_SESSION_TOKEN="envtoken")
    options = {"aws.accessKey": "OPTIONKEY", "aws.secretKey": "s", "store.allowHttp": True, "aws.region": "eu-west-1"}
    with recording_server(404) as (endpoint, asked):
        error_of(open_at("s3://bucket/t", **options, **{"aws.endpoint": endpoint}))
        assert "Credential=OPTIONKEY/" in asked[0]["authorization"]
        assert "x-amz-security-token" not in asked[0]
        error_of(open_at("s3://bucket/t", **options, **{"aws.endpoint": endpoint, "aws.sessionToken": "own"}))
        assert asked[1]["x-amz-security-token"] == "own"


# AWS profiles


def write_profiles(directory: Path, monkeypatch: pytest.MonkeyPatch, *, region: bool = True) -> None:
    credentials, config = directory / "credentials", directory / "config"
    lines = [
        f"[{name}]\naws_access_key_id = {name.upper()}KEY\naws_secret_access_key = s" for name in ("work", "default")
    ]
    credentials.write_text("\n".join(lines))
    config.write_text("[profile work]\nregion = eu-south-1\n[default]\noutput = json\n" if region else "")
    set_environment(monkeypatch, AWS_CONFIG_FILE=str(config), AWS_SHARED_CREDENTIALS_FILE=str(credentials))


def signer(**options: object) -> str:
    """The credential scope with which a request is signed."""
    with recording_server(404) as (endpoint, asked):
        error_of(open_at("s3://bucket/t", **{"store.allowHttp": True, "aws.endpoint": endpoint, **options}))
        return asked[0]["authorization"].partition("Credential=")[2].partition(",")[0]


def test_profile_reads_and_writes(profile_endpoint, tmp_path, monkeypatch):
    write_profiles(tmp_path, monkeypatch)
    options = {"aws.profile": "work", "aws.endpoint": profile_endpoint, "store.allowHttp": True}
    store = open_at(f"s3://{BUCKET}/profile", **options)
    store.put("k", b"x")
    assert store.get("k") == b"x"
    assert [meta.key for meta in store.list()] == ["k"]


def test_profile_named_by_an_option_wins_over_the_environment(tmp_path, monkeypatch):
    write_profiles(tmp_path, monkeypatch)
    set_environment(monkeypatch, AWS_ACCESS_KEY_ID="ENVKEY", AWS_SECRET_ACCESS_KEY="e", AWS_PROFILE="default")
    scope = signer(**{"aws.profile": "work"})
    assert scope.startswith("WORKKEY/")
    assert "/eu-south-1/" in scope
    assert "/us-west-2/" in signer(**{"aws.profile": "work", "aws.region": "us-west-2"})


def test_profile_without_a_region(tmp_path, monkeypatch):
    write_profiles(tmp_path, monkeypatch, region=False)
    assert signer(**{"aws.profile": "work"}).startswith("WORKKEY/")


def test_profile_of_the_environment_comes_after_its_keys(tmp_path, monkeypatch):
    write_profiles(tmp_path, monkeypatch)
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert signer().startswith("WORKKEY/")
    set_environment(monkeypatch, AWS_ACCESS_KEY_ID="ENVKEY", AWS_SECRET_ACCESS_KEY="e")
    assert signer().startswith("ENVKEY/")


def test_profile_called_default_is_used_where_nothing_else_is_given(tmp_path, monkeypatch):
    write_profiles(tmp_path, monkeypatch)
    assert signer().startswith("DEFAULTKEY/")
    assert signer(**{"aws.accessKey": "OPTIONKEY", "aws.secretKey": "s"}).startswith("OPTIONKEY/")


def test_profile_called_default_stands_back_for_the_identity_of_a_pod(tmp_path, monkeypatch):
    write_profiles(tmp_path, monkeypatch)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token")
    client = client_of(open_at("s3://bucket/t"))
    assert client.credential_provider is None


def test_profile_of_no_use_is_passed_over(tmp_path, monkeypatch):
    write_profiles(tmp_path, monkeypatch)
    (tmp_path / "credentials").write_text("[other]\naws_access_key_id = x\n")
    assert client_of(open_at("s3://bucket/t")).credential_provider is None


def test_profile_files_with_a_mistake_are_not_quoted(tmp_path, monkeypatch):
    write_profiles(tmp_path, monkeypatch)
    (tmp_path / "credentials").write_text(f"{AWS_SECRET}\n")
    with pytest.raises(ConfigError, match="because of a mistake in it") as caught:
        open_at("s3://bucket/t").get("k")
    assert AWS_SECRET not in everything_shown(caught.value)


def test_profile_that_is_not_there(tmp_path, monkeypatch):
    write_profiles(tmp_path, monkeypatch)
    error = error_of(open_at("s3://bucket/t", **{"aws.profile": "nobody"}))
    assert "cannot use the AWS profile `nobody`" in str(error)


def test_profile_without_boto3_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigError, match=r"boto3 is not installed\nhint: pip install 'indextables\[aws\]'"):
        open_at("s3://bucket/t", **{"aws.profile": "work"}).get("k")


# Nothing secret in a message

WRONG_KEY = f"""<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code>
<Message>The signature does not match.</Message><AWSAccessKeyId>AKIAWRONGWRONGWRONG</AWSAccessKeyId>
<StringToSign>AWS4-HMAC-SHA256 scope</StringToSign><SignatureProvided>deadbeefdeadbeef</SignatureProvided>
<Detail>{AWS_SECRET}</Detail></Error>"""


@pytest.mark.parametrize("status", [401, 403])
def test_wrong_key_is_denied_without_showing_it(status):
    keys = {"aws.accessKey": "AKIAWRONGWRONGWRONG", "aws.secretKey": AWS_SECRET, "aws.sessionToken": "TOKENTOKEN"}
    with recording_server(status, WRONG_KEY) as (endpoint, _):
        options = {**keys, "aws.endpoint": endpoint, "store.allowHttp": True, "aws.region": "us-east-1"}
        error = error_of(open_at("s3://bucket/t", **options))
    assert isinstance(error, StorageDeniedError)
    assert "SignatureDoesNotMatch" in error.message
    assert error.hint is not None
    for secret in ("AKIAWRONG", AWS_SECRET, "TOKENTOKEN", "deadbeef", "AWS4-HMAC"):
        assert secret not in everything_shown(error)


def test_wrong_key_of_the_environment_is_not_shown(monkeypatch):
    set_environment(monkeypatch, AWS_ACCESS_KEY_ID="plainkeyid", AWS_SECRET_ACCESS_KEY=AWS_SECRET)
    with recording_server(403, f"{WRONG_KEY} plainkeyid") as (endpoint, _):
        options = {"aws.endpoint": endpoint, "store.allowHttp": True, "aws.region": "us-east-1"}
        error = error_of(open_at("s3://bucket/t", **options))
    for secret in ("plainkeyid", AWS_SECRET):
        assert secret not in everything_shown(error)


def test_secret_at_the_end_of_a_long_answer_is_not_shown_in_part():
    for length in range(300, 620, 7):
        with recording_server(400, "x" * length + AWS_SECRET) as (endpoint, _):
            options = {"aws.accessKey": "a", "aws.secretKey": AWS_SECRET, "aws.region": "us-east-1"}
            retry = {"store.retry.maxAttempts": 0, "store.allowHttp": True, "aws.endpoint": endpoint}
            error = error_of(open_at("s3://bucket/t", **options, **retry))
        assert AWS_SECRET[:8] not in everything_shown(error)


@pytest.mark.parametrize("key", ['"hushhush"', '{"private_key": 5, "private_key_id": "hushhush", "client_email": 1}'])
def test_parts_of_a_service_account_are_not_shown(key):
    error = error_of(open_at("gs://bucket/t", **{"gcs.serviceAccountKey": key}))
    assert "service account" in error.message
    assert "hushhush" not in everything_shown(error)


CLOSED = [
    ("s3://bucket/t", {"aws.accessKey": "AKIAKEY", "aws.secretKey": AWS_SECRET, "aws.region": "x"}, "aws.endpoint"),
    ("az://container/t", {"azure.accountName": "a", "azure.sasToken": SAS}, "azure.endpoint"),
    ("az://container/t", {"azure.accountName": "a", "azure.accountKey": AZURE_KEY}, "azure.endpoint"),
    ("gs://bucket/t", {"gcs.bearerToken": "TOKENTOKEN"}, "gcs.endpoint"),
]


@pytest.mark.parametrize(("url", "options", "endpoint"), CLOSED)
def test_closed_port_is_a_storage_error_without_secrets(url, options, endpoint):
    port = free_port()
    place = {endpoint: f"http://127.0.0.1:{port}", "store.allowHttp": True, "store.retry.maxAttempts": 0}
    store = open_at(url, **options, **place)
    verbs = (
        lambda: store.get("k"),
        lambda: store.put("k", b"x"),
        lambda: store.put_if_absent("k", b"x"),
        lambda: store.head("k"),
        lambda: store.get_range("k", 0, 1),
        lambda: list(store.list()),
        lambda: store.delete("k"),
        lambda: store.delete_many(["k", "l"]),
    )
    for verb in verbs:
        with pytest.raises(StorageError) as caught:
            verb()
        assert type(caught.value) is StorageError
        assert "the server cannot be reached" in str(caught.value.hint)
        assert "Debug" not in caught.value.message
        for secret in ("AKIAKEY", AWS_SECRET, "c2VjcmV0", AZURE_KEY, "TOKENTOKEN"):
            assert secret not in everything_shown(caught.value)


def test_password_in_an_endpoint_is_not_shown():
    place = {"aws.endpoint": f"http://user:hunter22@127.0.0.1:{free_port()}", "store.allowHttp": True}
    keys = {"aws.accessKey": "a", "aws.secretKey": "b", "aws.region": "x", "store.retry.maxAttempts": 0}
    assert "hunter22" not in everything_shown(error_of(open_at("s3://bucket/t", **keys, **place)))


def test_exhausted_retries_are_a_storage_error():
    options = {"aws.accessKey": "a", "aws.secretKey": "b", "aws.region": "x", "store.retry.maxAttempts": 1}
    with recording_server(503) as (endpoint, asked):
        error = error_of(open_at("s3://bucket/t", **options, **{"aws.endpoint": endpoint, "store.allowHttp": True}))
    assert type(error) is StorageError
    assert len(asked) == 2


CONDITIONS = [
    ("s3://bucket/t", {"aws.accessKey": "a", "aws.secretKey": "b", "aws.region": "x"}, "aws", "if-none-match", "*"),
    ("az://container/t", {"azure.accountName": "a", "azure.accountKey": AZURE_KEY}, "azure", "if-none-match", "*"),
    ("gs://bucket/t", {"gcs.bearerToken": "token"}, "gcs", "x-goog-if-generation-match", "0"),
]


@pytest.mark.parametrize(("url", "options", "cloud", "header", "value"), CONDITIONS)
def test_create_is_one_conditional_request_and_a_refusal_means_it_exists(url, options, cloud, header, value):
    for status in (409, 412):
        with recording_server(status) as (endpoint, asked):
            place = {f"{cloud}.endpoint": endpoint, "store.allowHttp": True, "store.retry.maxAttempts": 0}
            store = open_at(url, **options, **place)
            with pytest.raises(ObjectExistsError):
                store.put_if_absent("day=2026%3A01/a b", b"x" * (12 << 20))
        assert [request[header] for request in asked] == [value]
        assert urllib.parse.unquote(asked[0][":path"]).endswith("/t/day=2026%3A01/a b")


def test_unanswered_request_is_a_storage_error():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = {"aws.accessKey": "a", "aws.secretKey": AWS_SECRET, "aws.region": "x", "store.allowHttp": True}
        limits = {"store.timeoutSeconds": 1, "store.retry.maxAttempts": 0, "aws.endpoint": endpoint}
        error = error_of(open_at("s3://bucket/t", **options, **limits))
    assert type(error) is StorageError
    assert AWS_SECRET not in everything_shown(error)


def test_http_is_refused_unless_it_is_allowed():
    with recording_server(200) as (endpoint, asked):
        keys = {"aws.accessKey": "a", "aws.secretKey": "b", "aws.region": "x", "store.retry.maxAttempts": 0}
        error = error_of(open_at("s3://bucket/t", **keys, **{"aws.endpoint": endpoint}))
    assert asked == []
    assert "`store.allowHttp`" in str(error.hint)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("GET https://x/y?sv=1&sig=abc%3D&se=2", "GET https://x/y?sv=1&sig=***&se=2"),
        ("X-Amz-Credential=AKIA/2026&X-Amz-Signature=abc", "X-Amz-Credential=***&X-Amz-Signature=***"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("authorization: SharedKey account:abc==", "authorization: ***"),
        ("Credential=AKIA/x/y, Signature=abc", "Credential=***, Signature=***"),
        ("AccountKey=abc;x", "AccountKey=***;x"),
        ("for AKIAIOSFODNN7EXAMPLE.", "for ***."),
        ("http://user:word@host/a@b", "http://***@host/a@b"),
        ("<StringToSign>a\nb</StringToSign><Code>c</Code>", "<StringToSign>***</StringToSign><Code>c</Code>"),
        ("<AWSAccessKeyId>abc", "<AWSAccessKeyId>***</AWSAccessKeyId>"),
        ("-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY----- x", "*** x"),
        ('{"access_token" : "abc.def", "x": 1}', '{"access_token" : "***", "x": 1}'),
        ('{\\"refresh_token\\":\\"abc\\"}', '{\\"refresh_token\\":\\"***\\"}'),
        ("client_assertion=abc&x=1", "client_assertion=***&x=1"),
        ("<SecretAccessKey>abc</SecretAccessKey>", "<SecretAccessKey>***</SecretAccessKey>"),
        ("nothing to hide: a=b", "nothing to hide: a=b"),
        ("my secret and my secret", "my *** and my ***"),
        ("a short ab stays", "a short ab stays"),
    ],
)
def test_redact(message, shown):
    assert redact(message, ["secret", "ab", "", "secr"]) == shown


def test_redact_knows_the_environment(monkeypatch):
    set_environment(monkeypatch, AZURE_STORAGE_ACCESS_KEY="azurekey", AWS_SESSION_TOKEN="awstoken", GOOGLE_X_KEY="gkey")
    assert redact("azurekey awstoken gkey region") == "*** *** *** region"
