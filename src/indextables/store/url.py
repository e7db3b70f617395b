"""Table addresses: which store a URL or path means, and which part of it is the key prefix.

Keys are literal. Nothing is percent-decoded, because a Hive partition directory such as `day=2026%3A01` is a key as it
stands. Schemes that mean one service are made equal (`s3a` is `s3`, `abfss` is `az`), so that two spellings of one
place compare equal.
"""

from __future__ import annotations

import dataclasses
import os
import re

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
    """A place in a store: the service, its bucket or container, and a key prefix (a path, for local disk).

    On HDFS the bucket is a NameNode, a name service or a mount table, and empty for the default file system.
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
        """The key of `other` below this place, or None where it lies elsewhere."""
        if (self.family, self.bucket) != (other.family, other.bucket):
            return None
        if self.account and other.account and self.account != other.account:
            return None
        if not self.path:
            return other.path or None
        root = self.path if self.path.endswith("/") else self.path + "/"
        return other.path[len(root) :] if other.path.startswith(root) else None


def has_scheme(text: str) -> bool:
    """Whether the text names a scheme, as `s3://b/k` and `file:/tmp/t` do and `k=v/a.split` does not."""
    return bool(_SCHEME.match(text) or _HADOOP_FILE.match(text))


def parse_location(text: str) -> Location:
    """Read a URL or a bare path. An unknown scheme is an error, never a guess."""
    if not text or _CONTROL.search(text):
        raise ConfigError(
            f"cannot use {_without_userinfo(text)!r} as a table address because it is empty or holds control characters"
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
    """The text without what stands before its last `@`: a secret key in a URL may hold slashes."""
    before, at, rest = text.rpartition("@")
    colon = before.find(":")
    if not at or colon < 0:
        return text
    end = colon + 1
    while before.startswith("/", end):
        end += 1
    return f"{before[:end]}***@{rest}"
