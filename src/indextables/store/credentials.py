"""Clients and their credentials: from options, then the environment, then each cloud's own chain.

What the options leave out is read by the client itself: `AWS_*`, `AZURE_*` and `GOOGLE_*` variables, web identities,
and the metadata services of the clouds. AWS profiles are read through boto3, because the client ignores them.
"""

from __future__ import annotations

import datetime
import os
from typing import Any

from obstore.store import AzureStore, GCSStore, S3Store

from indextables.config import Config, Setting, settings
from indextables.errors import ConfigError
from indextables.store.aws_profile import open_profile, profile_name
from indextables.store.url import Location

_S3 = {
    "access_key_id": settings.AWS_ACCESS_KEY,
    "secret_access_key": settings.AWS_SECRET_KEY,
    "session_token": settings.AWS_SESSION_TOKEN,
    "region": settings.AWS_REGION,
    "endpoint": settings.AWS_ENDPOINT,
}
_AZURE = {
    "account_name": settings.AZURE_ACCOUNT_NAME,
    "account_key": settings.AZURE_ACCOUNT_KEY,
    "sas_key": settings.AZURE_SAS_TOKEN,
    "token": settings.AZURE_BEARER_TOKEN,
    "tenant_id": settings.AZURE_TENANT_ID,
    "client_id": settings.AZURE_CLIENT_ID,
    "client_secret": settings.AZURE_CLIENT_SECRET,
    "endpoint": settings.AZURE_ENDPOINT,
}
_GCS = {
    "service_account": settings.GCS_SERVICE_ACCOUNT_FILE,
    "service_account_key": settings.GCS_SERVICE_ACCOUNT_KEY,
    "bearer_token": settings.GCS_BEARER_TOKEN,
    "base_url": settings.GCS_ENDPOINT,
}


def build_client(location: Location, config: Config) -> Any:
    """A client for the bucket or container, with the path as its key prefix."""
    shared: dict[str, Any] = {
        "prefix": location.path or None,
        "client_options": {
            "allow_http": config[settings.STORE_ALLOW_HTTP],
            "timeout": f"{config[settings.STORE_TIMEOUT_SECONDS]}s",
        },
        "retry_config": {
            "max_retries": config[settings.STORE_RETRY_MAX_ATTEMPTS],
            "retry_timeout": datetime.timedelta(seconds=config[settings.STORE_RETRY_TIMEOUT_SECONDS]),
        },
    }
    if location.family == "s3":
        return _s3(location, config, shared)
    if location.family == "az":
        chosen: dict[str, Any] = _chosen(_AZURE, config)
        if location.account:
            chosen.setdefault("account_name", location.account)
        return AzureStore(location.bucket, **chosen, **shared)
    return GCSStore(location.bucket, **_chosen(_GCS, config), **shared)


def secret_values(config: Config) -> list[str]:
    """Every secret that the options hold, so that messages can be cleared of them."""
    every = [*_S3.values(), *_AZURE.values(), *_GCS.values()]
    return [value for setting in every if setting.secret and (value := config[setting])]


def _s3(location: Location, config: Config, shared: dict[str, Any]) -> S3Store:
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
    path_style = config[settings.AWS_PATH_STYLE_ACCESS]
    if path_style is not None:
        chosen["virtual_hosted_style_request"] = not path_style
    return S3Store(location.bucket, **chosen, **shared)


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


def _chosen(names: dict[str, Setting[str | None]], config: Config) -> dict[str, Any]:
    return {name: value for name, setting in names.items() if (value := config[setting])}
