"""Hadoop configuration for HDFS, and the NameNode and path of an address.

The option `hdfs.configuration` overrides the files of `HADOOP_CONF_DIR` or `HADOOP_HOME`. Mount tables of `viewfs://`
are resolved here, because the client requires a fallback in each of them, and few have one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from xml.etree import ElementTree

from indextables.errors import ConfigError
from indextables.location import HADOOP_FAMILIES, Location, parse_location

DEFAULT_FILE_SYSTEM = "fs.defaultFS"
_DEFAULT_PORT = 8020
_DEFAULT_MOUNT_TABLE = "default"
_FILES = ("core-site.xml", "hdfs-site.xml")
_NEEDED = re.compile(
    r"dfs\.(?:nameservices|internal\.nameservices|data\.transfer\.protection|client\.use\.datanode\.hostname)"
    r"|dfs\.(?:ha|namenode\.rpc-address|client\.failover|client\.block\.write\.replace-datanode-on-failure)\..+"
    r"|dfs\.namenode\.(?:rpc-address|kerberos\.principal.*)"
    r"|dfs\.client\.socket-timeout|fs\.viewfs\..+"
    r"|hadoop\.security\.(?:authentication|key\.provider\.path)|hadoop\.rpc\.protection"
)


def hdfs_keys(hadoop: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of a Hadoop configuration that an HDFS client needs."""
    picked = {key: value for key, value in hadoop.items() if _NEEDED.fullmatch(key)}
    default = hadoop.get(DEFAULT_FILE_SYSTEM, "")
    if default.partition(":")[0].lower() in HADOOP_FAMILIES:
        picked[DEFAULT_FILE_SYSTEM] = default
    return picked


def read_keys(configuration: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the keys in force: the option's over the keys of the host's files."""
    return {**_keys_of_files(environment), **({} if configuration is None else _keys_of_option(configuration))}


def find_root(location: Location, keys: Mapping[str, str]) -> tuple[str, str]:
    """Return the URL of the file system of a location, and the absolute path in it."""
    if location.family == "viewfs":
        location = _mounted(location, keys)
    host = location.bucket or _default_host(location, keys)
    if f"dfs.ha.namenodes.{host}" not in keys:
        host = keys.get(f"dfs.namenode.rpc-address.{host}", host)
        host = host if ":" in host else f"{host}:{_DEFAULT_PORT}"
    return f"hdfs://{host}", f"/{location.path}".rstrip("/")


def _keys_of_option(configuration: str) -> dict[str, str]:
    try:
        found = json.loads(configuration)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ConfigError(
            "cannot use `hdfs.configuration` because it is not a JSON object of strings",
            hint='write, for example, `{"fs.defaultFS": "hdfs://namenode:8020"}`',
        )
    return found


def _keys_of_files(environment: Mapping[str, str]) -> dict[str, str]:
    home = environment.get("HADOOP_HOME")
    directory = environment.get("HADOOP_CONF_DIR") or (os.path.join(home, "etc", "hadoop") if home else None)
    keys: dict[str, str] = {}
    for name in _FILES if directory else ():
        keys.update(_keys_of_file(os.path.join(str(directory), name)))
    return keys


def _keys_of_file(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            root = ElementTree.parse(file).getroot()  # noqa: S314 - the host's own configuration
    except FileNotFoundError:
        return {}
    except (OSError, ElementTree.ParseError) as error:
        raise ConfigError(f"cannot read the Hadoop configuration `{path}`: {error}") from error
    found = {each.findtext("name", "").strip(): each.findtext("value", "").strip() for each in root.iter("property")}
    return {key: value for key, value in found.items() if key}


def _default_host(location: Location, keys: Mapping[str, str]) -> str:
    default = _default(keys)
    if default is None or default.family != location.family or not default.bucket:
        raise ConfigError(
            f"cannot open `{location.url}` because it names no host, and neither does `{DEFAULT_FILE_SYSTEM}`",
            hint="write `hdfs://namenode:8020/path`, or set `hdfs.configuration` or HADOOP_CONF_DIR",
        )
    return default.bucket


def _default(keys: Mapping[str, str]) -> Location | None:
    text = keys.get(DEFAULT_FILE_SYSTEM, "")
    return parse_location(text) if text.partition(":")[0].lower() in HADOOP_FAMILIES else None


def _mounted(location: Location, keys: Mapping[str, str]) -> Location:
    """Return the HDFS location that a mount table assigns to an address."""
    default = _default(keys)
    table = location.bucket or (default.bucket if default and default.family == "viewfs" else "")
    links = _links(table or _DEFAULT_MOUNT_TABLE, keys)
    below = [link for link in links if location.path and link.startswith(f"{location.path}/")]
    above = [link for link in links if not link or location.path == link or location.path.startswith(f"{link}/")]
    if below or not above:
        reason = f"`/{below[0]}` is mounted inside it" if below else "nothing is mounted there"
        raise ConfigError(
            f"cannot open `{location.url}` because {reason}",
            hint=f"links are defined by `fs.viewfs.mounttable.{table or _DEFAULT_MOUNT_TABLE}.link./path`",
        )
    link = max(above, key=len)
    target = parse_location(links[link])
    if target.family != "hdfs":
        raise ConfigError(f"cannot open `{location.url}` because `{links[link]}`, which is mounted there, is not HDFS")
    rest = location.path[len(link) :].strip("/")
    return Location("hdfs", target.bucket, f"{target.path}/{rest}".strip("/"))


def _links(table: str, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the links of a mount table by path; the fallback has the empty path."""
    prefix = f"fs.viewfs.mounttable.{table}."
    start = f"{prefix}link."
    links = {key[len(start) :].strip("/"): value for key, value in keys.items() if key.startswith(start)}
    for name in ("linkFallback", "linkMergeSlash"):
        if f"{prefix}{name}" in keys:
            links.setdefault("", keys[f"{prefix}{name}"])
    return links
