"""Clients and their credentials: from options, then the environment, then each cloud's own chain.

What the options leave out is read by the client itself: `AWS_*`, `AZURE_*` and `GOOGLE_*` variables, web identities,
and the metadata services of the clouds. AWS profiles are read through boto3, because the client ignores them.
"""

from __future__ import annotations

import datetime
import json
import os
import re
from pathlib import Path
from typing import Any

from obstore.store import AzureStore, GCSStore, S3Store

from indextables.config import Config, Setting
from indextables.config import store_settings as settings
from indextables.errors import ConfigError
from indextables.store.aws_profile import open_profile, profile_name
from indextables.store.url import Location

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
# As the client spells them.
_ENCRYPTIONS = {"aes256": "AES256"}


def build_client(location: Location, config: Config, *, repeats: bool = True) -> Any:
    """A client for the bucket or container, with the path as its key prefix. `repeats`: requests that fail."""
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
    """Every secret that the options hold, and the parts of those that are JSON, so that messages can be cleared."""
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
                hint=f"mend `{settings.STORE_CA_FILE.key}`",
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
    """The endpoint with the bucket in its host name, where the client expects it and does not put it."""
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
    """Half a pair of keys would be completed from the environment, with a half of another pair."""
    given = {name for name in ("access_key_id", "secret_access_key") if name in chosen}
    if len(given) == 1 or (not given and "session_token" in chosen):
        raise ConfigError(
            "cannot sign requests because only a part of the credentials was given",
            hint=f"set both `{settings.AWS_ACCESS_KEY.key}` and `{settings.AWS_SECRET_KEY.key}`, or neither",
        )


def _keep_together(chosen: dict[str, Any]) -> None:
    """Keys from options are not signed with a session token of the environment, which belongs to other keys."""
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
        # The client panics on what cannot stand in a header.
        if names[name].secret and name not in _IN_BODIES and not (value.isascii() and value.isprintable()):
            raise ConfigError(
                f"cannot use the value of `{names[name].key}` because it holds a line break or another character that "
                "no request can carry",
                hint="copy it again, on one line",
            )
    return chosen
