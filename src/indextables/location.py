"""Table addresses: the store that a URL or path names, and the key prefix in it.

Keys are literal. Nothing is percent-decoded, because a Hive partition directory such as `day=2026%3A01` is a literal
key. Schemes of one service are unified (`s3a` is `s3`, `abfss` is `az`), so that two spellings of one place compare
equal.

`redact` masks secrets in messages, because the message of a store's client may quote a signed URL, a key or a response.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable

from indextables.errors import ConfigError

_FAMILIES = {
    "file": "file",
    "memory": "memory",
    "s3": "s3",
    "s3a": "s3",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
    "gs": "gs",
    "hdfs": "hdfs",
    "viewfs": "viewfs",
}
HADOOP_FAMILIES = ("hdfs", "viewfs")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_NO_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/|(file):", re.IGNORECASE)
_AZURE_DOMAIN = re.compile(r"([a-z0-9-]+)(?:\.(?:dfs|blob)\.core\.windows\.net)?", re.IGNORECASE)
_HADOOP_FILE = re.compile(r"file:(/[^/].*|/)", re.DOTALL | re.IGNORECASE)
_HDFS_HOST = re.compile(r"([A-Za-z0-9._-]+(:[0-9]{1,5})?)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclasses.dataclass(frozen=True, slots=True)
class Location:
    """Place in a store: the service, its bucket or container, and a key prefix.

    On local disk the prefix is a path. On HDFS the bucket is a NameNode, a name service or a mount table; it is empty
    for the default file system.
    """

    family: str
    bucket: str
    path: str
    account: str | None = None

    @property
    def url(self) -> str:
        if self.family == "file":
            return self.path
        host = f"{self.bucket}@{self.account}.dfs.core.windows.net" if self.account else self.bucket
        scheme = "abfss" if self.account else self.family
        return f"{scheme}://{host}/{self.path}" if self.path or not host else f"{scheme}://{host}"

    def relative(self, other: Location) -> str | None:
        """Return the key of `other` below this place, or None if it is not below it."""
        if (self.family, self.bucket) != (other.family, other.bucket):
            return None
        if self.account and other.account and self.account != other.account:
            return None
        if not self.path:
            return other.path or None
        root = self.path if self.path.endswith("/") else self.path + "/"
        return other.path[len(root) :] if other.path.startswith(root) else None


def has_scheme(text: str) -> bool:
    """Return True if the text has a scheme: `s3://b/k` or `file:/tmp/t`, not `k=v/a`."""
    return bool(_SCHEME.match(text) or _HADOOP_FILE.match(text))


def parse_location(text: str) -> Location:
    """Parse a URL or a bare path; refuse an unknown scheme."""
    if not text or _CONTROL.search(text):
        raise ConfigError(
            f"cannot use {_without_userinfo(text)!r} as a table address because it is empty or has control characters"
        )
    if hadoop := _HADOOP_FILE.fullmatch(text):
        return _local(hadoop.group(1))
    match = _SCHEME.fullmatch(text)
    if match is None:
        return _bare_path(text)
    scheme, rest = match.group(1).lower(), match.group(2)
    family = _FAMILIES.get(scheme)
    if family is None:
        raise ConfigError(
            f"cannot open `{_without_userinfo(text)}` because its scheme `{scheme}` is unknown",
            hint=f"known schemes are {', '.join(sorted(_FAMILIES))}, and a bare path is local disk",
        )
    if family == "file":
        return _local_url(text, rest)
    host, _, path = rest.partition("/")
    if family in HADOOP_FAMILIES:
        return _hadoop(text, family, host, path)
    return _cloud(text, family, host, path)


def _bare_path(text: str) -> Location:
    if half := _NO_AUTHORITY.match(text):
        raise ConfigError(
            f"cannot open `{_without_userinfo(text)}` because it is neither a URL nor a plain path",
            hint=f"write `{half.group(1) or half.group(2)}://...` for a URL, or `./{text}` for a path"
            if "@" not in text
            else None,
        )
    return _local(os.path.abspath(text))


def _local_url(text: str, rest: str) -> Location:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise ConfigError(
            f"cannot open `{_without_userinfo(text)}` because a file URL needs an absolute path, "
            "as in `file:///data/logs`"
        )
    return _local("/" + path)


def _local(path: str) -> Location:
    return Location("file", "", os.path.normpath(path).replace("//", "/"))


def _cloud(text: str, family: str, host: str, path: str) -> Location:
    account = None
    if family == "az" and "@" in host:
        host, _, domain = host.partition("@")
        account = _account(text, domain)
    if not host or "@" in host or ":" in host:
        raise ConfigError(
            f"cannot open `{_without_userinfo(text)}` because it names no bucket or container",
            hint="write `s3://bucket/path`; credentials belong in options or the environment, not in the URL",
        )
    return Location(family, host, _key_prefix(text, path), account)


def _hadoop(text: str, family: str, host: str, path: str) -> Location:
    known = _HDFS_HOST.fullmatch(host)
    if known is None or (family == "viewfs" and known.group(2)):
        raise ConfigError(
            f"cannot open `{_without_userinfo(text)}` because it names no NameNode, name service or mount table",
            hint="write `hdfs://namenode:8020/path`, `hdfs://nameservice/path` or `viewfs://cluster/path`;"
            " a user belongs in the option `hdfs.user`",
        )
    if ":" in path:
        raise ConfigError(f"cannot open `{_without_userinfo(text)}` because HDFS has no names with a colon")
    return Location(family, host, _key_prefix(text, path))


def _key_prefix(text: str, path: str) -> str:
    path = path.rstrip("/")
    if any(segment in ("", ".", "..") for segment in path.split("/")) and path:
        raise ConfigError(f"cannot open `{_without_userinfo(text)}` because its path has an empty, `.` or `..` segment")
    return path


def _account(text: str, domain: str) -> str:
    known = _AZURE_DOMAIN.fullmatch(domain)
    if known is None:
        raise ConfigError(
            f"cannot open `{_without_userinfo(text)}` because its host is not `<account>.dfs.core.windows.net`",
            hint="write `az://container/path` and set `azure.accountName` and `azure.endpoint`",
        )
    return known.group(1).lower()


def _without_userinfo(text: str) -> str:
    """Mask all text before the last `@`: a secret key in a URL may contain slashes."""
    before, at, rest = text.rpartition("@")
    colon = before.find(":")
    if not at or colon < 0:
        return text
    end = colon + 1
    while before.startswith("/", end):
        end += 1
    return f"{before[:end]}***@{rest}"


_MASK = "***"
_SHORTEST_SECRET = 4
_SIGNED = re.compile(
    r"(?i)((?:x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|sig|accountkey"
    r"|sharedaccesssignature|credential|signature|authorization)"
    r"\s*[=:]\s*)(?:(?:bearer|sharedkey|basic|aws4-hmac-sha256)\s+)?[^\s&\"'<>;,]+"
)
_IN_ANSWERS = re.compile(
    r"(?i)((?:secretaccesskey|sessiontoken|(?:access|refresh|id)_token|client_(?:secret|assertion)|private_key)"
    r"\\*[\"']?\s*[=:]\s*\\*[\"']?)[^\s&\"'<>;,\\}]+"
)
_QUOTED_BY_SERVERS = re.compile(
    r"(?is)<(AWSAccessKeyId|SecretAccessKey|SessionToken|SignatureProvided|StringToSign|StringToSignBytes"
    r"|CanonicalRequest|CanonicalRequestBytes|AuthenticationErrorDetail)>.*?(?:</\1>|$)"
)
_PRIVATE_KEY = re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)")
_ACCESS_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
_USERINFO = re.compile(r"://[^/\s@]+@")
_SECRET_VARIABLE = re.compile(r"(?:AWS|AZURE|GOOGLE)_\w*(?:KEY|SECRET|TOKEN|SAS|PASSWORD)")


def redact(message: str, secrets: Iterable[str] = ()) -> str:
    """Return the message with every known secret, signature and password masked."""
    known = {*secrets, *(value for name, value in os.environ.items() if _SECRET_VARIABLE.match(name))}
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            message = message.replace(secret, _MASK)
    message = _QUOTED_BY_SERVERS.sub(rf"<\1>{_MASK}</\1>", message)
    message = _USERINFO.sub(f"://{_MASK}@", _PRIVATE_KEY.sub(_MASK, message))
    message = _IN_ANSWERS.sub(rf"\1{_MASK}", _ACCESS_KEY_ID.sub(_MASK, message))
    return _SIGNED.sub(rf"\1{_MASK}", message)
