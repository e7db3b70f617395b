"""HDFS clients: built from settings, with their errors translated.

The client is `hdfs-native`, which implements the protocol of NameNodes and DataNodes itself. It reads Kerberos tickets,
`HADOOP_TOKEN_FILE_LOCATION` and `HADOOP_USER_NAME` from the environment when it connects.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator
from typing import Any

from indextables.config import Config
from indextables.config import store_settings as settings
from indextables.errors import (
    ConfigError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageError,
    StorageRefusedError,
)
from indextables.location import Location
from indextables.store.hdfs.configuration import find_root, read_keys

_MOST_SAID = 600
_USER_VARIABLE = "HADOOP_USER_NAME"
_REMOTE = re.compile(r'(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)', re.DOTALL)
_TRACE = re.compile(r"(?:\\n|\n)(?:\\t|\t)(?:at |\.\.\.).*", re.DOTALL)
_DENIED = ("AccessControlException", "AuthorizationException", "InvalidToken", "SaslException")
_REFUSED = (
    "InvalidPathException",
    "PathComponentTooLongException",
    "NSQuotaExceededException",
    "DSQuotaExceededException",
    "ParentNotDirectoryException",
)
_HINTS = {
    "SafeModeException": "the NameNode has just started, or waits for DataNodes; try again when it has left safe mode",
    "StandbyException": "no NameNode of the name service is active, or the address names a standby",
}
_REPLICATION = "set the replication policy of the table's directory: `hdfs ec -setPolicy -replicate -path ...`"

_user_lock = threading.Lock()
_users: set[str] = set()


def build_client(location: Location, config: Config) -> tuple[Any, str]:
    """Return a client for the file system of a location, and its absolute path there."""
    try:
        from hdfs_native import Client
    except ImportError as error:
        raise ConfigError(
            f"cannot open `{location.url}` because the package hdfs-native is not installed",
            hint="pip install 'indextables[hdfs]'",
        ) from error
    keys = read_keys(config[settings.HDFS_CONFIGURATION], os.environ)
    url, root = find_root(location, keys)
    _become(config[settings.HDFS_USER])
    return Client(url, {**keys, **_limits(config)}), root


def _limits(config: Config) -> dict[str, str]:
    """Return our limits as Hadoop keys, if they are set."""
    limits = {}
    if config.is_set(settings.STORE_RETRY_MAX_ATTEMPTS):
        limits["dfs.client.failover.max.attempts"] = str(config[settings.STORE_RETRY_MAX_ATTEMPTS])
    if config.is_set(settings.STORE_TIMEOUT_SECONDS):
        limits["dfs.client.socket-timeout"] = str(1000 * config[settings.STORE_TIMEOUT_SECONDS])
    return limits


def _become(user: str | None) -> None:
    """Set the user of HDFS for this process.

    The client reads it from the environment whenever it connects, so a process has one user.
    """
    if user is None:
        return
    with _user_lock:
        if _users - {user}:
            raise ConfigError(
                f"cannot use HDFS as `{user}` because this process uses it as `{next(iter(_users))}` already",
                hint="a process has only one `hdfs.user`",
            )
        _users.add(user)
        os.environ[_USER_VARIABLE] = user


@contextlib.contextmanager
def hdfs_errors(location: Location, verb: str, key: str, *, writes: bool = False) -> Iterator[None]:
    """Translate errors of the client.

    After a failed put, it is unknown whether it was applied, unless the error says so.
    """
    try:
        yield
    except (StorageError, ConfigError):
        raise
    except (FileNotFoundError, IsADirectoryError) as error:
        message = f"cannot {verb} `{key}` in `{location.url}`"
        if writes:
            raise StorageError(f"{message} because its place is gone: {_said(error)}", path=key) from None
        raise ObjectNotFoundError(f"{message} because it does not exist", path=key) from None
    except (OSError, RuntimeError, NotImplementedError, ValueError) as error:
        raise _translated(error, location, verb, key) from None
    except BaseException as error:
        # A defect of the client raises a class that is not an `Exception`.
        if type(error).__name__ != "PanicException":
            raise
        raise _translated(error, location, verb, key) from None


def remote_class(error: BaseException) -> str:
    """Return the Java exception class of a NameNode's or DataNode's response, or ""."""
    answer = _REMOTE.match(str(error))
    return re.split(r"[.$]", answer.group(1))[-1] if answer else ""


def _translated(error: BaseException, location: Location, verb: str, key: str) -> StorageError:
    message = f"cannot {verb} `{key}` in `{location.url}`: {_said(error)}"
    kind = remote_class(error)
    if isinstance(error, FileExistsError):
        return ObjectExistsError(message, path=key)
    if isinstance(error, PermissionError) or kind in _DENIED:
        hint = "check the user, its Kerberos ticket, and the permissions of the path"
        return StorageDeniedError(message, path=key, hint=hint)
    if isinstance(error, NotImplementedError):
        return StorageRefusedError(message, path=key, hint=_REPLICATION if "erasure" in message else None)
    if kind in _REFUSED:
        return StorageRefusedError(message, path=key)
    return StorageError(message, path=key, hint=_HINTS.get(kind))


def _said(error: BaseException) -> str:
    """Return the message without the server's stack trace."""
    text = str(error)
    answer = _REMOTE.match(text)
    if answer:
        text = f"{remote_class(error)}: {answer.group(2)}"
    return " ".join(_TRACE.sub("", text).replace('\\"', '"').split())[:_MOST_SAID] or type(error).__name__
