"""AWS profiles: which one applies, and its credentials through boto3.

The order is Amazon's: a profile that an option names, then keys in the environment, then the profile that the
environment names, then identities given to a pod or container, then the `default` profile of the shared files.
"""

from __future__ import annotations

import configparser
import os
from typing import Any

from indextables.config import Config, store_settings
from indextables.errors import ConfigError, StorageError

_POD_IDENTITIES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_SHARED_FILES = (("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), ("AWS_CONFIG_FILE", "~/.aws/config"))
_LEADS_TO_CREDENTIALS = ("aws_access_key_id", "credential_process", "role_arn", "sso_session", "sso_start_url")


def profile_name(config: Config) -> str | None:
    """The profile to take credentials from, or None to leave them to the client."""
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
    """A provider of the profile's credentials, which renews them as needed, and its region if it has one."""
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
            # Its message would quote the line, which may be a secret.
            raise ConfigError(f"cannot read `{path}` because of a mistake in it ({type(error).__name__})") from None
    return any(shared.has_option("default", option) for option in _LEADS_TO_CREDENTIALS)
