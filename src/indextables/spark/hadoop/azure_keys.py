"""Conversion of keys of Hadoop's ABFS file system to our settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from indextables.config import Setting
from indextables.config import store_settings as settings
from indextables.errors import ConfigError
from indextables.location import Location

AZURE_CREDENTIALS = frozenset(
    setting.key
    for setting in (
        settings.AZURE_ACCOUNT_KEY,
        settings.AZURE_SAS_TOKEN,
        settings.AZURE_BEARER_TOKEN,
        settings.AZURE_CLIENT_ID,
        settings.AZURE_CLIENT_SECRET,
        settings.AZURE_FEDERATED_TOKEN_FILE,
        settings.AZURE_CREDENTIAL_TYPE,
        settings.AZURE_SKIP_SIGNATURE,
    )
)
"""If one of these is set, Hadoop's keys are not needed."""

_AZURE = "fs.azure."
_KEY = "account.key"
_AUTH = "account.auth.type"
_PROVIDER = "account.oauth.provider.type"
_OAUTH = "account.oauth2."
_FIXED_SAS = "sas.fixed.token"
_SECRETS = (_KEY, _FIXED_SAS, f"{_OAUTH}client.id", f"{_OAUTH}client.secret", f"{_OAUTH}client.endpoint")
_CLIENT = "ClientCredsTokenProvider"
_MANAGED = "MsiTokenProvider"
_WORKLOAD = "WorkloadIdentityTokenProvider"


def azure_credentials(location: Location, hadoop: Mapping[str, str]) -> dict[str, str]:
    """Return the credentials for a storage account."""
    keys = _Keys(location, hadoop)
    kind = keys.get(_AUTH) or ("SAS" if keys.get(_KEY) is None and keys.sas() else "SharedKey")
    if kind.lower() == "sharedkey":
        return _given({settings.AZURE_ACCOUNT_KEY: keys.get(_KEY)})
    if kind.lower() == "oauth":
        return _oauth(keys)
    if kind.lower() == "sas" and (token := keys.sas()):
        return {settings.AZURE_SAS_TOKEN.key: token, settings.AZURE_CREDENTIAL_TYPE.key: "sas_token"}
    if kind.lower() == "sas":
        raise ConfigError(
            f"cannot find the signature for `{_AZURE}{_AUTH}` because neither `{_AZURE}{_FIXED_SAS}` nor "
            f"`{_AZURE}sas.{location.bucket}` is set, and providers of signatures run only in Java",
            hint=f"set `spark.indextables.{settings.AZURE_SAS_TOKEN.key}`",
        )
    raise ConfigError(
        f"cannot use the credentials of `{_AZURE}{_AUTH}` because `{kind}` runs only in Java",
        hint="`SharedKey`, `OAuth` and `SAS` work, and credentials that are given to this library",
    )


def azure_secret_names(location: Location) -> list[str]:
    """Return the keys whose values may be in the file of a credential provider."""
    hosts = _hosts(location)
    names = [f"{_AZURE}{name}{host}" for host in hosts for name in _SECRETS]
    return [*names, *(f"{_AZURE}sas.{location.bucket}{host}" for host in hosts if host)]


class _Keys:
    """The keys of one account; keys that name the account win over keys for all."""

    def __init__(self, location: Location, hadoop: Mapping[str, str]) -> None:
        self._location = location
        self._hadoop = hadoop

    def get(self, name: str) -> str | None:
        found = (self._hadoop.get(f"{_AZURE}{name}{host}", "").strip() for host in _hosts(self._location))
        return next((value for value in found if value), None)

    def sas(self) -> str | None:
        return self.get(f"sas.{self._location.bucket}") or self.get(_FIXED_SAS)


def _hosts(location: Location) -> list[str]:
    """Return the suffixes of a key, the narrowest first."""
    named = [f".{location.account}.{kind}.core.windows.net" for kind in ("dfs", "blob")] if location.account else []
    return [*named, ""]


def _oauth(keys: _Keys) -> dict[str, str]:
    provider = (keys.get(_PROVIDER) or _CLIENT).rpartition(".")[2]
    client = keys.get(f"{_OAUTH}client.id")
    tenant = keys.get(f"{_OAUTH}msi.tenant")
    if provider == _CLIENT:
        host, tenant = _authority(keys.get(f"{_OAUTH}client.endpoint"))
        return _given(
            {
                settings.AZURE_CLIENT_ID: client,
                settings.AZURE_CLIENT_SECRET: keys.get(f"{_OAUTH}client.secret"),
                settings.AZURE_TENANT_ID: tenant,
                settings.AZURE_AUTHORITY_HOST: host,
                settings.AZURE_CREDENTIAL_TYPE: "client_secret",
            }
        )
    if provider == _MANAGED:
        return _given(
            {
                settings.AZURE_CLIENT_ID: client,
                settings.AZURE_MSI_ENDPOINT: keys.get(f"{_OAUTH}msi.endpoint"),
                settings.AZURE_CREDENTIAL_TYPE: "managed_identity",
            }
        )
    if provider == _WORKLOAD:
        return _given(
            {
                settings.AZURE_CLIENT_ID: client,
                settings.AZURE_TENANT_ID: tenant,
                settings.AZURE_AUTHORITY_HOST: keys.get(f"{_OAUTH}msi.authority"),
                settings.AZURE_FEDERATED_TOKEN_FILE: keys.get(f"{_OAUTH}token.file"),
                settings.AZURE_CREDENTIAL_TYPE: "workload_identity",
            }
        )
    raise ConfigError(
        f"cannot use the credentials of `{_AZURE}{_PROVIDER}` because `{provider}` is not supported",
        hint=f"`{_CLIENT}`, `{_MANAGED}` and `{_WORKLOAD}` are, and credentials that are given to this library",
    )


def _authority(endpoint: str | None) -> tuple[str | None, str | None]:
    """Parse server and tenant of an endpoint.

    An endpoint is `https://login.microsoftonline.com/<tenant>/oauth2/token`.
    """
    parts = urlsplit(endpoint or "")
    tenant = parts.path.strip("/").partition("/")[0]
    if not parts.netloc or not tenant:
        raise ConfigError(
            f"cannot find the tenant in `{_AZURE}{_OAUTH}client.endpoint`",
            hint="it reads `https://login.microsoftonline.com/<tenant>/oauth2/token`",
        )
    return f"{parts.scheme}://{parts.netloc}", tenant


def _given(found: Mapping[Setting[str | None] | Setting[str], str | None]) -> dict[str, str]:
    return {setting.key: value for setting, value in found.items() if value}
