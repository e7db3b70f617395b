"""Clients and credentials: from options, the environment, and credential chains.

The client itself reads the values that the options omit: `AWS_*`, `AZURE_*` and `GOOGLE_*` variables, web identities,
and the metadata services of the clouds. AWS profiles are read through boto3, because the client ignores them.

The order for AWS is Amazon's: a profile from an option, then keys in the environment, then a profile from the
environment, then the identity of a pod or container, then the `default` profile of the shared files.
"""

from __future__ import annotations

import configparser
import datetime
import json
import os
import re
from pathlib import Path
from typing import Any

from obstore.store import AzureStore, GCSStore, S3Store

from indextables.config import Config, Setting, store_settings
from indextables.config import store_settings as settings
from indextables.errors import ConfigError, StorageError
from indextables.location import Location

_POD_IDENTITIES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_SHARED_FILES = (("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), ("AWS_CONFIG_FILE", "~/.aws/config"))
_LEADS_TO_CREDENTIALS = ("aws_access_key_id", "credential_process", "role_arn", "sso_session", "sso_start_url")


def profile_name(config: Config) -> str | None:
    """Return the profile with the credentials; None if the client reads them itself."""
    if named := config[store_settings.AWS_PROFILE]:
        return named
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return None
    if named := os.environ.get("AWS_PROFILE"):
        return named
    if any(name in os.environ for name in _POD_IDENTITIES):
        return None
    return "default" if _default_has_credentials() else None


def open_profile(name: str) -> tuple[Any, str | None]:
    """Return a renewing provider of the profile's credentials, and its region if any."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise ConfigError(
            f"cannot use the AWS profile `{name}` because boto3 is not installed",
            hint="pip install 'indextables[aws]'",
        ) from error
    try:
        session = boto3.Session(profile_name=name)
        return Boto3CredentialProvider(session), session.region_name
    except (BotoCoreError, ValueError) as error:
        raise StorageError(f"cannot use the AWS profile `{name}`: {error}") from None


def _default_has_credentials() -> bool:
    shared = configparser.RawConfigParser(strict=False)
    for variable, usual in _SHARED_FILES:
        path = os.path.expanduser(os.environ.get(variable, usual))
        try:
            shared.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            # The message would quote the line, which may be a secret.
            raise ConfigError(f"cannot read `{path}` because of a mistake in it ({type(error).__name__})") from None
    return any(shared.has_option("default", option) for option in _LEADS_TO_CREDENTIALS)


_Texts = dict[str, Setting[str | None]]
_S3: _Texts = {
    "access_key_id": settings.AWS_ACCESS_KEY,
    "secret_access_key": settings.AWS_SECRET_KEY,
    "session_token": settings.AWS_SESSION_TOKEN,
    "region": settings.AWS_REGION,
    "endpoint": settings.AWS_ENDPOINT,
    "sse_kms_key_id": settings.AWS_ENCRYPTION_KEY_ID,
}
_AZURE: _Texts = {
    "account_name": settings.AZURE_ACCOUNT_NAME,
    "account_key": settings.AZURE_ACCOUNT_KEY,
    "sas_key": settings.AZURE_SAS_TOKEN,
    "token": settings.AZURE_BEARER_TOKEN,
    "tenant_id": settings.AZURE_TENANT_ID,
    "client_id": settings.AZURE_CLIENT_ID,
    "client_secret": settings.AZURE_CLIENT_SECRET,
    "authority_host": settings.AZURE_AUTHORITY_HOST,
    "msi_endpoint": settings.AZURE_MSI_ENDPOINT,
    "federated_token_file": settings.AZURE_FEDERATED_TOKEN_FILE,
    "endpoint": settings.AZURE_ENDPOINT,
}
_GCS: _Texts = {
    "service_account": settings.GCS_SERVICE_ACCOUNT_FILE,
    "service_account_key": settings.GCS_SERVICE_ACCOUNT_KEY,
    "bearer_token": settings.GCS_BEARER_TOKEN,
    "base_url": settings.GCS_ENDPOINT,
}

_IN_BODIES = ("service_account_key",)
_SECRET_NAME = re.compile("key|secret|token")
# Spellings of the client.
_ENCRYPTIONS = {"aes256": "AES256"}


def build_client(location: Location, config: Config, *, repeats: bool = True) -> Any:
    """Build a client for the bucket or container, with the path as its key prefix.

    With `repeats`, the client retries failed requests.
    """
    shared: dict[str, Any] = {
        "prefix": location.path or None,
        "client_options": _connections(config),
        "retry_config": {**_retries(config), **({} if repeats else {"max_retries": 0})},
    }
    if location.family == "s3":
        return S3Store(location.bucket, **_s3(location, config), **shared)
    if location.family == "az":
        return AzureStore(location.bucket, **_azure(location, config), **shared)
    return GCSStore(location.bucket, **_gcs(config), **shared)


def secret_values(config: Config) -> list[str]:
    """Return every secret in the options, and the parts of JSON secrets."""
    every = [*_S3.values(), *_AZURE.values(), *_GCS.values()]
    values = [value for setting in every if setting.secret and (value := config[setting])]
    return [*values, *(part for value in values for part in _texts_in(value))]


def _texts_in(value: str) -> list[str]:
    try:
        found = json.loads(value)
    except ValueError:
        return []
    parts = [part for name, part in found.items() if _SECRET_NAME.search(name)] if isinstance(found, dict) else [found]
    return [part for part in parts if isinstance(part, str)]


def _connections(config: Config) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "allow_http": config[settings.STORE_ALLOW_HTTP],
        "timeout": f"{config[settings.STORE_TIMEOUT_SECONDS]}s",
        "connect_timeout": f"{config[settings.STORE_CONNECT_TIMEOUT_SECONDS]}s",
        "pool_max_idle_per_host": str(config[settings.STORE_PARALLELISM]),
    }
    if path := config[settings.STORE_CA_FILE]:
        try:
            chosen["root_certificate"] = Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read the certificates in `{path}`: {error.strerror}",
                hint=f"correct `{settings.STORE_CA_FILE.key}`",
            ) from None
    return chosen


def _retries(config: Config) -> dict[str, Any]:
    return {
        "max_retries": config[settings.STORE_RETRY_MAX_ATTEMPTS],
        "retry_timeout": datetime.timedelta(seconds=config[settings.STORE_RETRY_TIMEOUT_SECONDS]),
        "backoff": {
            "init_backoff": datetime.timedelta(milliseconds=config[settings.STORE_RETRY_BASE_DELAY_MS]),
            "max_backoff": datetime.timedelta(milliseconds=config[settings.STORE_RETRY_MAX_DELAY_MS]),
        },
    }


def _s3(location: Location, config: Config) -> dict[str, Any]:
    chosen: dict[str, Any] = _chosen(_S3, config)
    _check_pair(chosen)
    if config[settings.AWS_SKIP_SIGNATURE]:
        chosen["skip_signature"] = True
    elif "access_key_id" in chosen:
        _keep_together(chosen)
    elif profile := profile_name(config):
        provider, region = open_profile(profile)
        chosen["credential_provider"] = provider
        if region:
            chosen.setdefault("region", region)
    if encryption := config[settings.AWS_ENCRYPTION]:
        chosen["server_side_encryption"] = _ENCRYPTIONS.get(encryption, encryption)
    if config[settings.AWS_REQUESTER_PAYS]:
        chosen["request_payer"] = True
    path_style = config[settings.AWS_PATH_STYLE_ACCESS]
    if path_style is not None:
        chosen["virtual_hosted_style_request"] = not path_style
    if path_style is False and "endpoint" in chosen:
        chosen["endpoint"] = _with_bucket(chosen["endpoint"], location.bucket)
    return chosen


def _with_bucket(endpoint: str, bucket: str) -> str:
    """Return the endpoint with the bucket in its host name, as the client expects."""
    scheme, host = re.fullmatch(r"(\w+://|)(.*)", endpoint, re.DOTALL).groups()  # type: ignore[union-attr]
    return endpoint if host.startswith(f"{bucket}.") else f"{scheme}{bucket}.{host}"


def _azure(location: Location, config: Config) -> dict[str, Any]:
    chosen: dict[str, Any] = _chosen(_AZURE, config)
    if location.account:
        chosen.setdefault("account_name", location.account)
    if config[settings.AZURE_CREDENTIAL_TYPE] != settings.AZURE_CREDENTIAL_TYPE.default:
        chosen["credential_type"] = config[settings.AZURE_CREDENTIAL_TYPE]
    if config[settings.AZURE_SKIP_SIGNATURE]:
        chosen["skip_signature"] = True
    return chosen


def _gcs(config: Config) -> dict[str, Any]:
    chosen: dict[str, Any] = _chosen(_GCS, config)
    if config[settings.GCS_SKIP_SIGNATURE]:
        chosen["skip_signature"] = True
    return chosen


def _check_pair(chosen: dict[str, Any]) -> None:
    """Refuse half a key pair: the client would complete it from the environment."""
    given = {name for name in ("access_key_id", "secret_access_key") if name in chosen}
    if len(given) == 1 or (not given and "session_token" in chosen):
        raise ConfigError(
            "cannot sign requests because only a part of the credentials was given",
            hint=f"set both `{settings.AWS_ACCESS_KEY.key}` and `{settings.AWS_SECRET_KEY.key}`, or neither",
        )


def _keep_together(chosen: dict[str, Any]) -> None:
    """Keep the environment's session token, made for other keys, off keys of options."""
    if "session_token" in chosen or not any(name in os.environ for name in ("AWS_SESSION_TOKEN", "AWS_TOKEN")):
        return
    fixed = {
        "access_key_id": chosen.pop("access_key_id"),
        "secret_access_key": chosen.pop("secret_access_key"),
        "expires_at": None,
    }
    chosen["credential_provider"] = lambda: fixed


def _chosen(names: _Texts, config: Config) -> dict[str, Any]:
    chosen = {name: value for name, setting in names.items() if (value := config[setting])}
    for name, value in chosen.items():
        # The client panics on characters that a header cannot contain.
        if names[name].secret and name not in _IN_BODIES and not (value.isascii() and value.isprintable()):
            raise ConfigError(
                f"cannot use the value of `{names[name].key}` because it has a line break or another character that "
                "a request cannot contain",
                hint="copy it again, on one line",
            )
    return chosen
