"""Keys of Hadoop's file systems, as settings of ours."""

from __future__ import annotations

import json
import logging
import re

import pytest

from indextables.config import Config
from indextables.errors import ConfigError
from indextables.location import parse_location
from indextables.spark.hadoop.keys import options_from_hadoop, provider_keys, secret_names

S3 = parse_location("s3a://logs/t")
AZURE = parse_location("abfss://rows@acct.dfs.core.windows.net/t")
GOOGLE = parse_location("gs://logs/t")
KEYS = {"fs.s3a.access.key": "AKIA", "fs.s3a.secret.key": "hidden"}
TAKEN = {"aws.accessKey": "AKIA", "aws.secretKey": "hidden"}
DFS = "acct.dfs.core.windows.net"


def s3a(**keys: str) -> dict[str, str]:
    return options_from_hadoop(S3, {f"fs.s3a.{key.replace('__', '-').replace('_', '.')}": v for key, v in keys.items()})


def from_azure(keys: dict[str, str]) -> dict[str, str]:
    return options_from_hadoop(AZURE, {f"fs.azure.{key}": value for key, value in keys.items()})


def test_nothing_set_says_nothing():
    for location in (S3, AZURE, GOOGLE, parse_location("/tmp/t"), parse_location("memory://a/b")):
        assert options_from_hadoop(location, {}) == {}
        assert options_from_hadoop(location, {"fs.defaultFS": "hdfs://x", "fs.s3a.impl": "x.Y"}) == {}


def test_every_answer_is_a_setting_with_a_good_value():
    hadoop = {
        **KEYS,
        "fs.s3a.session.token": "tok",
        "fs.s3a.endpoint": "minio.test:9000",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "TRUE",
        "fs.s3a.requester.pays.enabled": "true",
        "fs.s3a.attempts.maximum": "4",
        "fs.s3a.connection.timeout": "200s",
        "fs.s3a.connection.establish.timeout": "1500",
        "fs.s3a.retry.interval": "250ms",
        "fs.s3a.connection.maximum": "96",
        "fs.s3a.encryption.algorithm": "SSE-KMS",
        "fs.s3a.encryption.key": "arn:aws:kms:eu-west-1:1:key/k",
    }
    found = options_from_hadoop(S3, hadoop)
    assert found == {
        **TAKEN,
        "aws.sessionToken": "tok",
        "aws.endpoint": "http://minio.test:9000",
        "store.allowHttp": "true",
        "aws.region": "eu-west-1",
        "aws.pathStyleAccess": "true",
        "aws.requesterPays": "true",
        "store.retry.maxAttempts": "4",
        "store.timeoutSeconds": "200",
        "store.connectTimeoutSeconds": "2",
        "store.retry.baseDelayMs": "250",
        "store.parallelism": "96",
        "aws.encryption": "aws:kms",
        "aws.encryptionKeyId": "arn:aws:kms:eu-west-1:1:key/k",
    }
    config = Config.resolve(options=found)
    assert "hidden" not in repr(config)


def test_what_is_set_for_a_bucket_wins_and_that_of_others_is_not_looked_at():
    hadoop = {
        **KEYS,
        "fs.s3a.endpoint": "https://all.test",
        "fs.s3a.bucket.logs.endpoint": "https://one.test/",
        "fs.s3a.bucket.logs.access.key": "OWN",
        "fs.s3a.bucket.logs.secret.key": "own",
        "fs.s3a.bucket.others.access.key": "OTHER",
    }
    found = options_from_hadoop(S3, hadoop)
    assert found == {"aws.accessKey": "OWN", "aws.secretKey": "own", "aws.endpoint": "https://one.test"}
    assert options_from_hadoop(parse_location("s3://else/t"), hadoop) == {**TAKEN, "aws.endpoint": "https://all.test"}


@pytest.mark.parametrize(
    ("endpoint", "taken"),
    [
        ("s3.amazonaws.com", {}),
        ("https://s3.eu-west-1.amazonaws.com", {"aws.region": "eu-west-1"}),
        ("s3-us-gov-west-1.amazonaws.com/", {"aws.region": "us-gov-west-1"}),
        ("s3.cn-north-1.amazonaws.com.cn", {"aws.region": "cn-north-1"}),
        ("s3.dualstack.eu-west-1.amazonaws.com", {"aws.region": "eu-west-1"}),
        ("s3-fips.us-gov-west-1.amazonaws.com", {"aws.region": "us-gov-west-1"}),
        ("bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com", {"aws.region": "eu-west-1"}),
        ("minio:9000", {}),
        ("http://minio:9000/", {"aws.endpoint": "http://minio:9000", "store.allowHttp": "true"}),
    ],
)
def test_endpoints_of_s3(endpoint, taken):
    follows_from_the_region = re.match(r"(https://)?s3[.-]((eu|us)-[a-z0-9-]+\.)?amazonaws\.com/?$", endpoint)
    expected = {} if follows_from_the_region or "://" in endpoint else {"aws.endpoint": f"https://{endpoint}"}
    assert s3a(endpoint=endpoint) == {**expected, **taken}


def test_a_region_that_is_set_wins_over_that_of_an_endpoint():
    assert s3a(endpoint="s3.eu-west-1.amazonaws.com", endpoint_region="eu-north-1") == {"aws.region": "eu-north-1"}
    assert s3a(endpoint_region="sdk") == {}


HADOOP_AUTH = "org.apache.hadoop.fs.s3a"
PROVIDERS = [
    (f"{HADOOP_AUTH}.AnonymousAWSCredentialsProvider", {"aws.skipSignature": "true"}),
    (f"{HADOOP_AUTH}.SimpleAWSCredentialsProvider", TAKEN),
    (f"{HADOOP_AUTH}.TemporaryAWSCredentialsProvider", {**TAKEN, "aws.sessionToken": "tok"}),
    (f"{HADOOP_AUTH}.auth.ProfileAWSCredentialsProvider", {"aws.profile": "work"}),
    ("software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider", {"aws.profile": "work"}),
    ("software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider", {}),
    (f"{HADOOP_AUTH}.auth.IAMInstanceCredentialsProvider", {}),
    ("com.amazonaws.auth.WebIdentityTokenCredentialsProvider", {}),
    ("software.amazon.awssdk.auth.credentials.ContainerCredentialsProvider", {}),
    ("com.amazonaws.auth.DefaultAWSCredentialsProviderChain", {}),
    (f"com.amazonaws.auth.InstanceProfileCredentialsProvider,\n  {HADOOP_AUTH}.SimpleAWSCredentialsProvider", TAKEN),
]


@pytest.mark.parametrize(("providers", "taken"), PROVIDERS)
def test_providers_of_s3(providers, taken):
    given = {"access_key": "AKIA", "secret_key": "hidden", "session_token": "tok", "auth_profile_name": "work"}
    assert s3a(**given, aws_credentials_provider=providers) == taken


def test_a_provider_without_its_keys_leaves_the_turn_to_the_next():
    listed = "a.TemporaryAWSCredentialsProvider, b.AnonymousAWSCredentialsProvider"
    assert s3a(aws_credentials_provider=listed) == {"aws.skipSignature": "true"}


def test_a_role_is_refused_with_its_key():
    provider = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
    with pytest.raises(ConfigError, match=r"`fs.s3a.assumed.role.arn` \(`arn:aws:iam::1:role/r`\)") as caught:
        s3a(aws_credentials_provider=provider, assumed_role_arn="arn:aws:iam::1:role/r", secret_key="hidden")
    assert "role_arn" in str(caught.value.hint)
    assert "hidden" not in str(caught.value)


def test_a_provider_that_is_not_known_is_refused_or_told(caplog):
    with pytest.raises(ConfigError, match=r"`fs.s3a.aws.credentials.provider` because `Vault` runs only in Java"):
        s3a(aws_credentials_provider="com.example.Vault")
    with caplog.at_level(logging.WARNING):
        assert s3a(aws_credentials_provider="com.example.Vault,x.DefaultCredentialsProvider") == {}
    assert "skipped `Vault`" in caplog.text


@pytest.mark.parametrize(
    ("text", "seconds"), [("200s", "200"), ("30000", "30"), ("1ms", "1"), ("2m", "120"), ("1 h", "3600")]
)
def test_time_outs_are_read_as_hadoop_reads_them(text, seconds):
    assert s3a(connection_timeout=text) == {"store.timeoutSeconds": seconds}


def test_no_time_limit_is_left_to_the_default():
    assert s3a(connection_request_timeout="0", connection_timeout="5s") == {"store.timeoutSeconds": "5"}
    assert s3a(connection_timeout="0s", connection_establish_timeout="0") == {}


def test_bad_values_are_refused_with_the_key():
    with pytest.raises(ConfigError, match=r"cannot use `soon` for `fs.s3a.connection.timeout`"):
        s3a(connection_timeout="soon")
    with pytest.raises(ConfigError, match=r"`many` for `store.parallelism` \(fs.s3a.connection.maximum\)"):
        s3a(connection_maximum="many")


def test_encryption_by_the_client_is_refused():
    for algorithm in ("CSE-KMS", "SSE-C"):
        with pytest.raises(ConfigError, match=r"`fs.s3a.encryption.algorithm` requests"):
            s3a(encryption_algorithm=algorithm, encryption_key="hidden")
    assert s3a(server__side__encryption__algorithm="AES256") == {"aws.encryption": "aes256"}
    hadoop = {"fs.s3a.encryption.algorithm": "CSE-KMS"}
    assert options_from_hadoop(S3, hadoop, {"aws.encryption"}) == {}


def test_what_is_given_elsewhere_wins_and_credentials_are_never_mixed():
    hadoop = {**KEYS, "fs.s3a.endpoint": "http://h.test", "fs.s3a.endpoint.region": "r"}
    place = {"aws.endpoint": "http://h.test", "store.allowHttp": "true", "aws.region": "r"}
    assert options_from_hadoop(S3, hadoop) == {**TAKEN, **place}
    assert options_from_hadoop(S3, hadoop, {"aws.region"}) == {
        **TAKEN,
        "aws.endpoint": "http://h.test",
        "store.allowHttp": "true",
    }
    for given in ("aws.accessKey", "aws.profile", "aws.sessionToken", "aws.skipSignature"):
        assert options_from_hadoop(S3, hadoop, {given}) == place
    # Plain HTTP was allowed for the endpoint of Hadoop, not for another.
    assert options_from_hadoop(S3, hadoop, {"aws.endpoint"}) == {**TAKEN, "aws.region": "r"}
    refused = {"fs.s3a.aws.credentials.provider": "com.example.Vault"}
    assert options_from_hadoop(S3, refused, {"aws.profile"}) == {}


# Azure


def test_keys_of_azure_accounts():
    assert from_azure({"account.key": "all"}) == {"azure.accountKey": "all"}
    assert from_azure({"account.key": "all", f"account.key.{DFS}": "own"}) == {"azure.accountKey": "own"}
    assert from_azure({"account.key.acct.blob.core.windows.net": "blob"}) == {"azure.accountKey": "blob"}
    assert from_azure({"account.key.other.dfs.core.windows.net": "other"}) == {}
    bare = parse_location("az://rows/t")
    assert options_from_hadoop(bare, {"fs.azure.account.key": "all"}) == {"azure.accountKey": "all"}


OAUTH = {f"account.auth.type.{DFS}": "OAuth", "account.oauth2.client.id": "cid"}
TOKENS = "org.apache.hadoop.fs.azurebfs.oauth2"


def test_service_principals_of_azure():
    principal = {
        **OAUTH,
        f"account.oauth.provider.type.{DFS}": f"{TOKENS}.ClientCredsTokenProvider",
        f"account.oauth2.client.secret.{DFS}": "hidden",
        "account.oauth2.client.endpoint": "https://login.microsoftonline.com/ten-ant/oauth2/v2.0/token",
        "account.key": "of no use",
    }
    taken = {
        "azure.clientId": "cid",
        "azure.clientSecret": "hidden",
        "azure.tenantId": "ten-ant",
        "azure.authorityHost": "https://login.microsoftonline.com",
        "azure.credentialType": "client_secret",
    }
    assert from_azure(principal) == taken
    with pytest.raises(ConfigError, match=r"the tenant in `fs.azure.account.oauth2.client.endpoint`") as caught:
        from_azure({**principal, "account.oauth2.client.endpoint": "hidden"})
    assert "hidden" not in str(caught.value)


def test_identities_of_azure():
    managed = {
        **OAUTH,
        "account.oauth.provider.type": f"{TOKENS}.MsiTokenProvider",
        "account.oauth2.msi.endpoint": "http://169.254.169.254/token",
        "account.oauth2.msi.tenant": "t",
    }
    assert from_azure(managed) == {
        "azure.clientId": "cid",
        "azure.msiEndpoint": "http://169.254.169.254/token",
        "azure.credentialType": "managed_identity",
    }
    workload = {
        **OAUTH,
        "account.oauth.provider.type": f"{TOKENS}.WorkloadIdentityTokenProvider",
        "account.oauth2.msi.tenant": "t",
        "account.oauth2.token.file": "/var/token",
    }
    assert from_azure(workload) == {
        "azure.clientId": "cid",
        "azure.tenantId": "t",
        "azure.federatedTokenFile": "/var/token",
        "azure.credentialType": "workload_identity",
    }


def test_signatures_of_azure():
    taken = {"azure.sasToken": "sig=1", "azure.credentialType": "sas_token"}
    asked = {f"account.auth.type.{DFS}": "SAS"}
    assert from_azure({**asked, f"sas.fixed.token.{DFS}": "sig=1", "account.key": "k"}) == taken
    assert from_azure({**asked, f"sas.rows.{DFS}": "sig=1", "sas.fixed.token": "sig=2"}) == taken
    assert from_azure({"sas.rows.acct.blob.core.windows.net": "sig=1"}) == taken
    assert from_azure({"sas.others.acct.blob.core.windows.net": "sig=1"}) == {}
    with pytest.raises(ConfigError, match=r"neither `fs.azure.sas.fixed.token` nor `fs.azure.sas.rows` is set"):
        from_azure({**asked, "sas.token.provider.type": "com.example.Sas"})


def test_what_only_java_can_do_for_azure_is_refused():
    with pytest.raises(ConfigError, match=r"`fs.azure.account.auth.type` because `Custom` runs only in Java"):
        from_azure({"account.auth.type": "Custom"})
    provider = {"account.oauth.provider.type": f"{TOKENS}.UserPasswordTokenProvider"}
    with pytest.raises(ConfigError, match=r"`fs.azure.account.oauth.provider.type` because `UserPassword"):
        from_azure({**OAUTH, **provider})
    refused = {"fs.azure.account.auth.type": "Custom"}
    assert options_from_hadoop(AZURE, refused, {"azure.sasToken"}) == {}


# Google


def test_keys_of_google():
    keyfile = "service.account.json.keyfile"
    taken = {"gcs.serviceAccountFile": "/k.json"}
    assert options_from_hadoop(GOOGLE, {f"fs.gs.auth.{keyfile}": "/k.json"}) == taken
    assert options_from_hadoop(GOOGLE, {f"google.cloud.auth.{keyfile}": "file:///k.json"}) == taken
    named = {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE", f"fs.gs.auth.{keyfile}": "/k.json"}
    assert options_from_hadoop(GOOGLE, named) == taken
    for kind in ("APPLICATION_DEFAULT", "COMPUTE_ENGINE"):
        assert options_from_hadoop(GOOGLE, {**named, "fs.gs.auth.type": kind}) == {}
    assert options_from_hadoop(GOOGLE, {"fs.gs.auth.type": "UNAUTHENTICATED"}) == {"gcs.skipSignature": "true"}
    with pytest.raises(ConfigError, match=r"`fs.gs.auth.type` because `ACCESS_TOKEN_PROVIDER` is not supported"):
        options_from_hadoop(GOOGLE, {"fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER"})
    place = {"fs.gs.storage.root.url": "http://127.0.0.1:4443/"}
    reached = {"gcs.endpoint": "http://127.0.0.1:4443", "store.allowHttp": "true"}
    assert options_from_hadoop(GOOGLE, {**named, **place}) == {**taken, **reached}
    assert options_from_hadoop(GOOGLE, {**named, **place}, {"gcs.bearerToken"}) == reached


def test_a_service_account_of_google_in_parts():
    own = "fs.gs.auth.service.account."
    parts = {f"{own}email": "a@b", f"{own}private.key.id": "7", f"{own}private.key": "-----BEGIN\\nabc\\n"}
    found = options_from_hadoop(GOOGLE, parts)
    assert json.loads(found["gcs.serviceAccountKey"]) == {
        "type": "service_account",
        "client_email": "a@b",
        "private_key_id": "7",
        "private_key": "-----BEGIN\nabc\n",
    }


def test_names_of_secrets_that_may_lie_in_files():
    assert "fs.s3a.bucket.logs.secret.key" in secret_names(S3)
    assert f"fs.azure.account.key.{DFS}" in secret_names(AZURE)
    assert f"fs.azure.sas.rows.{DFS}" in secret_names(AZURE)
    assert secret_names(GOOGLE) == []
    assert provider_keys(S3)[0] == "fs.s3a.bucket.logs.security.credential.provider.path"
    assert provider_keys(AZURE) == ["hadoop.security.credential.provider.path"]


@pytest.mark.parametrize("url", ["hdfs://prod/data", "hdfs:///data", "viewfs://tables/data"])
def test_keys_of_hdfs_are_handed_on_as_one_setting(url):
    keys = {"fs.defaultFS": "hdfs://prod", "dfs.nameservices": "prod", "fs.viewfs.mounttable.tables.link./data": "x"}
    hadoop = {**keys, "dfs.replication": "3", "fs.s3a.secret.key": "not for HDFS"}
    found = options_from_hadoop(parse_location(url), hadoop)
    assert json.loads(found.pop("hdfs.configuration")) == keys
    assert found == {}
    assert options_from_hadoop(parse_location(url), hadoop, given={"hdfs.configuration"}) == {}
    assert options_from_hadoop(parse_location(url), {"dfs.replication": "3"}) == {}
