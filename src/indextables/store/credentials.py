"""Clients and their credentials: from options, then the environment, then each cloud's own chain.

What the options leave out is read by the client itself: `AWS_*`, `AZURE_*` and `GOOGLE_*` variables, web identities,
and the metadata services of the clouds. An AWS profile needs boto3, because the client ignores profiles.
"""

from __future__ import annotations

import datetime
import os
from typing import Any

from obstore.store import AzureStore, GCSStore, S3Store

from indextables.config import Config, Setting, settings
from indextables.errors import ConfigError, StorageError
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
    if config[settings.AWS_SKIP_SIGNATURE]:
        chosen["skip_signature"] = True
    path_style = config[settings.AWS_PATH_STYLE_ACCESS]
    if path_style is not None:
        chosen["virtual_hosted_style_request"] = not path_style
    if (profile := _profile_name(config)) and "access_key_id" not in chosen:
        provider, region = _profile(profile)
        chosen["credential_provider"] = provider
        chosen.setdefault("region", region)
    return S3Store(location.bucket, **chosen, **shared)


def _profile_name(config: Config) -> str | None:
    if named := config[settings.AWS_PROFILE]:
        return named
    # As in Amazon's own chain, keys in the environment come before a profile in the environment.
    return None if "AWS_ACCESS_KEY_ID" in os.environ else os.environ.get("AWS_PROFILE")


def _profile(name: str) -> tuple[Any, str | None]:
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


def _chosen(names: dict[str, Setting[str | None]], config: Config) -> dict[str, Any]:
    return {name: value for name, setting in names.items() if (value := config[setting])}
