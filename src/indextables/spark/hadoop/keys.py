"""Conversion of Hadoop's keys to our settings, for S3, Google and HDFS.

Pure. A key that requests an unsupported feature raises a `ConfigError` that names the key. Keys of Hadoop's internals
are ignored. The keys of Azure are in `azure_keys`.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Collection, Mapping

from indextables.config import Setting
from indextables.config import store_settings as settings
from indextables.errors import ConfigError
from indextables.location import HADOOP_FAMILIES, Location
from indextables.spark.hadoop.azure_keys import AZURE_CREDENTIALS, azure_credentials, azure_secret_names
from indextables.store.hdfs.configuration import hdfs_keys

Hadoop = Mapping[str, str]
Options = dict[str, str]

PREFIXES = {
    "s3": ("fs.s3a.",),
    "az": ("fs.azure.",),
    "gs": ("fs.gs.", "google.cloud.auth."),
    **dict.fromkeys(HADOOP_FAMILIES, ("fs.defaultFS", "dfs.", "fs.viewfs.", "hadoop.security.", "hadoop.rpc.")),
}
"""The prefixes of relevant keys, by store family."""

_S3A = "fs.s3a."
_S3A_SECRETS = ("access.key", "secret.key", "session.token")
_SESSION = "TemporaryAWSCredentialsProvider"
_SIMPLE = ("SimpleAWSCredentialsProvider", "BasicAWSCredentialsProvider")
_ANONYMOUS = ("AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider")
_PROFILES = ("ProfileAWSCredentialsProvider", "ProfileCredentialsProvider")
_ASSUMED_ROLE = "AssumedRoleCredentialProvider"
_LEFT_TO_THE_CLIENT = (
    "EnvironmentVariableCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper",
    "ContainerCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
    "DefaultCredentialsProvider",
)
_AMAZON = re.compile(r"(?:https?://)?s3(?:[.-][a-z]{2}(?:-[a-z]+)+-\d)?\.amazonaws\.com/?")
_AMAZON_REGION = re.compile(
    r"(?:^|[./])s3(?:-fips)?[.-](?:dualstack\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.(?:vpce\.)?amazonaws\.com"
)
_ENCRYPTIONS = {"aes256": "aes256", "sse-kms": "aws:kms", "dsse-kms": "aws:kms:dsse"}
_REGION_BY_CHAIN = "sdk"
_NUMBERS: dict[Setting[int], tuple[str, ...]] = {
    settings.STORE_RETRY_MAX_ATTEMPTS: ("attempts.maximum", "retry.limit"),
    settings.STORE_PARALLELISM: ("connection.maximum", "threads.max"),
}
_SPANS: dict[Setting[int], tuple[int, tuple[str, ...]]] = {
    settings.STORE_TIMEOUT_SECONDS: (1000, ("connection.request.timeout", "connection.timeout")),
    settings.STORE_CONNECT_TIMEOUT_SECONDS: (1000, ("connection.establish.timeout",)),
    settings.STORE_RETRY_BASE_DELAY_MS: (1, ("retry.interval",)),
}
_DURATION = re.compile(r"(\d+)\s*(ns|us|ms|s|m|h|d|)")
_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1, "": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_log = logging.getLogger(__name__)


def options_from_hadoop(location: Location, hadoop: Hadoop, given: Collection[str] = ()) -> Options:
    """Return the settings of a location from a Hadoop configuration, by our keys.

    `given` are our keys that are set elsewhere and win. Settings that belong together come from one source: if any
    credential is given, Hadoop's credentials are ignored.
    """
    found: Options = {}
    for decided_by, read in _READERS.get(location.family, ()):
        if not decided_by & set(given):
            found |= read(location, hadoop)
    return {key: value for key, value in found.items() if key not in given}


def secret_names(location: Location) -> list[str]:
    """Return the keys whose values may be in the file of a credential provider."""
    if location.family == "s3":
        own = [f"{_S3A}bucket.{location.bucket}.{name}" for name in _S3A_SECRETS]
        return [*own, *(f"{_S3A}{name}" for name in _S3A_SECRETS)]
    return azure_secret_names(location) if location.family == "az" else []


def provider_keys(location: Location) -> list[str]:
    """Return the keys that name files of credential providers, the narrowest first."""
    path = "security.credential.provider.path"
    own = [f"{_S3A}bucket.{location.bucket}.{path}", f"{_S3A}{path}"] if location.family == "s3" else []
    return [*own, f"hadoop.{path}"]


def _of_bucket(hadoop: Hadoop, bucket: str) -> Options:
    """Return the S3A keys of one bucket without prefix; keys for the bucket win."""
    general = {key[len(_S3A) :]: value.strip() for key, value in hadoop.items() if key.startswith(_S3A)}
    own = f"bucket.{bucket}."
    narrow = {key[len(own) :]: value for key, value in general.items() if key.startswith(own)}
    return {key: value for key, value in {**general, **narrow}.items() if value}


def _s3_requests(location: Location, hadoop: Hadoop) -> Options:
    s3a = _of_bucket(hadoop, location.bucket)
    found: Options = {}
    region = s3a.get("endpoint.region") or _amazon_region(s3a)
    if region and region != _REGION_BY_CHAIN:
        found[settings.AWS_REGION.key] = region
    if "path.style.access" in s3a:
        found[settings.AWS_PATH_STYLE_ACCESS.key] = s3a["path.style.access"].lower()
    if s3a.get("requester.pays.enabled", "").lower() == "true":
        found[settings.AWS_REQUESTER_PAYS.key] = "true"
    for setting, names in _NUMBERS.items():
        name = next((name for name in names if name in s3a), None)
        if name is not None:
            found[setting.key] = str(setting.parse(s3a[name], given_as=f"{_S3A}{name}"))
    for setting, (unit_ms, names) in _SPANS.items():
        lengths = (_milliseconds(f"{_S3A}{name}", s3a[name]) for name in names if name in s3a)
        # 0 means no limit in Hadoop; the default applies then.
        if length := next((length for length in lengths if length > 0), 0):
            found[setting.key] = str(math.ceil(length / unit_ms))
    return found


def _amazon_region(s3a: Options) -> str | None:
    named = _AMAZON_REGION.search(s3a.get("endpoint", ""))
    return None if named is None else named[1]


def _s3_endpoint(location: Location, hadoop: Hadoop) -> Options:
    """Return the endpoint, unless it is Amazon's own, which follows from the region."""
    s3a = _of_bucket(hadoop, location.bucket)
    endpoint = s3a.get("endpoint", "")
    if not endpoint or _AMAZON.fullmatch(endpoint):
        return {}
    is_plain = s3a.get("connection.ssl.enabled", "").lower() == "false"
    url = endpoint if "://" in endpoint else f"{'http' if is_plain else 'https'}://{endpoint}"
    return _endpoint(settings.AWS_ENDPOINT, url)


def _gs_endpoint(_location: Location, hadoop: Hadoop) -> Options:
    url = hadoop.get("fs.gs.storage.root.url", "").strip()
    return _endpoint(settings.GCS_ENDPOINT, url) if url else {}


def _endpoint(setting: Setting[str | None], url: str) -> Options:
    allowed = {settings.STORE_ALLOW_HTTP.key: "true"} if url.lower().startswith("http://") else {}
    return {setting.key: url.rstrip("/"), **allowed}


def _s3_encryption(location: Location, hadoop: Hadoop) -> Options:
    """Return the settings of server-side encryption.

    Client-side encryption is refused, because the rows would be stored unencrypted.
    """
    s3a = _of_bucket(hadoop, location.bucket)
    name = next((key for key in ("encryption.algorithm", "server-side-encryption-algorithm") if key in s3a), None)
    if name is None:
        return {}
    encryption = _ENCRYPTIONS.get(s3a[name].lower())
    if encryption is None:
        raise ConfigError(
            f"cannot encrypt as `{_S3A}{name}` requests because `{s3a[name]}` is not supported",
            hint=f"`AES256`, `SSE-KMS` and `DSSE-KMS` are; `{settings.AWS_ENCRYPTION.key}` wins over that key",
        )
    found = {settings.AWS_ENCRYPTION.key: encryption}
    key = s3a.get("encryption.key", s3a.get("server-side-encryption.key"))
    if key and encryption != "aes256":
        found[settings.AWS_ENCRYPTION_KEY_ID.key] = key
    return found


def _s3_credentials(location: Location, hadoop: Hadoop) -> Options:
    """Return the credentials of the first provider that reads them from keys."""
    s3a = _of_bucket(hadoop, location.bucket)
    listed = [name for name in re.split(r"[,\s]+", s3a.get("aws.credentials.provider", "")) if name]
    if not listed:
        return _s3_keys(s3a, with_token=True)
    unknown = []
    for name in (full.rpartition(".")[2].rpartition("$")[2] for full in listed):
        if name == _ASSUMED_ROLE:
            raise _no_assumed_role(s3a)
        if name == _SESSION or name in _SIMPLE:
            if found := _s3_keys(s3a, with_token=name == _SESSION):
                return found
        elif name in _ANONYMOUS:
            return {settings.AWS_SKIP_SIGNATURE.key: "true"}
        elif name in _PROFILES:
            return {settings.AWS_PROFILE.key: s3a.get("auth.profile.name", "default")}
        elif name not in _LEFT_TO_THE_CLIENT:
            unknown.append(name)
    return _after_unknown(unknown, len(listed))


def _after_unknown(unknown: list[str], num_listed: int) -> Options:
    """Return no credentials; refuse if only providers of Java are listed.

    The client's own search fits the other providers.
    """
    key = f"{_S3A}aws.credentials.provider"
    if unknown and len(unknown) == num_listed:
        raise ConfigError(
            f"cannot use the credentials of `{key}` because `{unknown[0]}` runs only in Java",
            hint="give credentials to this library, as in `spark.indextables.aws.profile`",
        )
    for name in unknown:
        _log.warning("skipped `%s` of `%s` because it runs only in Java", name, key)
    return {}


def _s3_keys(s3a: Options, *, with_token: bool) -> Options:
    keys = {
        settings.AWS_ACCESS_KEY.key: s3a.get("access.key"),
        settings.AWS_SECRET_KEY.key: s3a.get("secret.key"),
        settings.AWS_SESSION_TOKEN.key: s3a.get("session.token") if with_token else None,
    }
    return {key: value for key, value in keys.items() if value}


def _no_assumed_role(s3a: Options) -> ConfigError:
    role = s3a.get("assumed.role.arn", "")
    return ConfigError(
        f"cannot assume the role of `{_S3A}assumed.role.arn`{f' (`{role}`)' if role else ''} because this library "
        "assumes no roles by itself",
        hint="name a profile with `role_arn` and `source_profile` in `spark.indextables.aws.profile`",
    )


def _gs_credentials(_location: Location, hadoop: Hadoop) -> Options:
    kind = hadoop.get("fs.gs.auth.type", "").strip().upper()
    if kind in ("APPLICATION_DEFAULT", "COMPUTE_ENGINE"):
        return {}
    if kind == "UNAUTHENTICATED" or hadoop.get("fs.gs.auth.null.enable", "").strip().lower() == "true":
        return {settings.GCS_SKIP_SIGNATURE.key: "true"}
    if kind not in ("", "SERVICE_ACCOUNT_JSON_KEYFILE"):
        raise ConfigError(
            f"cannot use the credentials of `fs.gs.auth.type` because `{kind}` is not supported",
            hint=f"set `spark.indextables.{settings.GCS_SERVICE_ACCOUNT_FILE.key}` or the application default",
        )
    return _gs_service_account(hadoop)


def _gs_service_account(hadoop: Hadoop) -> Options:
    for prefix in ("fs.gs.auth.", "google.cloud.auth."):
        if path := hadoop.get(f"{prefix}service.account.json.keyfile", "").strip():
            return {settings.GCS_SERVICE_ACCOUNT_FILE.key: path.removeprefix("file://")}
        own = f"{prefix}service.account."
        parts = {
            "client_email": hadoop.get(f"{own}email"),
            "private_key_id": hadoop.get(f"{own}private.key.id"),
            "private_key": hadoop.get(f"{own}private.key"),
        }
        if all(parts.values()):
            # A configuration writes the lines of the key in one line.
            key = str(parts["private_key"]).replace("\\n", "\n")
            written = json.dumps({"type": "service_account", **parts, "private_key": key})
            return {settings.GCS_SERVICE_ACCOUNT_KEY.key: written}
    return {}


def _hdfs(_location: Location, hadoop: Hadoop) -> Options:
    picked = hdfs_keys(hadoop)
    return {settings.HDFS_CONFIGURATION.key: json.dumps(picked)} if picked else {}


def _milliseconds(key: str, text: str) -> float:
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ConfigError(f"cannot use `{text}` for `{key}`: expected milliseconds, or a duration such as `30s`")
    return int(match[1]) * _MS[match[2]]


def _keys(*wanted: Setting[object]) -> frozenset[str]:
    return frozenset(setting.key for setting in wanted)


_Reader = Callable[[Location, Hadoop], Options]
_READERS: dict[str, tuple[tuple[frozenset[str], _Reader], ...]] = {
    "s3": (
        (frozenset(), _s3_requests),
        (_keys(settings.AWS_ENDPOINT), _s3_endpoint),
        (_keys(settings.AWS_ENCRYPTION), _s3_encryption),
        (
            _keys(
                settings.AWS_ACCESS_KEY,
                settings.AWS_SECRET_KEY,
                settings.AWS_SESSION_TOKEN,
                settings.AWS_PROFILE,
                settings.AWS_SKIP_SIGNATURE,
            ),
            _s3_credentials,
        ),
    ),
    "az": ((AZURE_CREDENTIALS, azure_credentials),),
    "gs": (
        (_keys(settings.GCS_ENDPOINT), _gs_endpoint),
        (
            _keys(
                settings.GCS_SERVICE_ACCOUNT_FILE,
                settings.GCS_SERVICE_ACCOUNT_KEY,
                settings.GCS_BEARER_TOKEN,
                settings.GCS_SKIP_SIGNATURE,
            ),
            _gs_credentials,
        ),
    ),
    **dict.fromkeys(HADOOP_FAMILIES, ((_keys(settings.HDFS_CONFIGURATION), _hdfs),)),
}
"""The readers of a family's keys, each with our settings that make it unnecessary."""
