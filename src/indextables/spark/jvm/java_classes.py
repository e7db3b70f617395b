"""Our Java classes in the JVM of a session: from the local cache, else compiled.

Compiling takes seconds at every start, so the compiled classes stay on local disk. They depend on our sources, on the
build of Spark, on Scala, on Java and on the compiler; the key of a cache entry is the hash of all of them.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from indextables.config import Config
from indextables.config.resolve import PREFIX
from indextables.config.settings import CACHE_DISK_ENABLED, CACHE_DISK_PATH
from indextables.spark.jvm.class_cache import ClassCache
from indextables.spark.jvm.java_sources import PACKAGE, compile_sources, context_loader, read_sources

_BRIDGE = f"{PACKAGE}.Bridge"
# Our classes call Spark's internals in these files, and the last one compiles them.
_CLASSES_OF_JARS = (
    "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan",
    "org.apache.spark.sql.execution.SparkPlan",
    "org.codehaus.janino.Compiler",
)
_OUR_KEYS = re.compile(rf"{re.escape(PREFIX)}[\w.]+", re.IGNORECASE)
_CACHE_KEYS = tuple(f"{PREFIX}{setting.key}".lower() for setting in (CACHE_DISK_ENABLED, CACHE_DISK_PATH))

_log = logging.getLogger(__name__)


def make_bridge(spark: SparkSession) -> Any:
    """Return the object through which Python calls our Java classes."""
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.jvm
    sources = read_sources(spark.version)
    cache = ClassCache(_cache_settings(spark))
    key = _key(spark, jvm, sources) if cache.is_enabled else None
    if key is not None:
        classes = cache.load(key)
        if classes is not None:
            try:
                return _loaded(jvm, _from_bytes(jvm, classes))
            except Py4JError as error:
                _log.info("compiling the Java classes, because Java refuses their cached copy: %s", error)
    compiled = compile_sources(gateway, sources)
    bridge = _loaded(jvm, compiled)
    if key is not None:
        cache.store(key, _to_bytes(jvm, compiled))
    return bridge


def _cache_settings(spark: SparkSession) -> Config:
    """Return the settings of the disk cache in a session."""
    names = _OUR_KEYS.findall(spark._jsparkSession.conf().getAll().keySet().toString())
    given = {name: spark.conf.get(name, None) for name in names if name.lower() in _CACHE_KEYS}
    return Config.resolve(session=given)


def _key(spark: SparkSession, jvm: Any, sources: dict[str, bytes]) -> str | None:
    """Return the hash of everything that the classes depend on; None if it is unknown."""
    digest = hashlib.sha256()
    try:
        for part in _dependencies(spark, jvm, sources):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    except (OSError, Py4JError) as error:
        _log.info("the Java classes are compiled, because the build of Spark is unknown: %s", error)
        return None
    return digest.hexdigest()


def _dependencies(spark: SparkSession, jvm: Any, sources: dict[str, bytes]) -> Iterator[bytes]:
    for name in sorted(sources):
        yield name.encode()
        yield sources[name]
    versions = (
        spark.version,
        jvm.org.apache.spark.SparkBuildInfo.spark_revision(),
        jvm.scala.util.Properties.versionNumberString(),
        jvm.java.lang.Runtime.version().feature(),
    )
    yield from (str(version).encode() for version in versions)
    loader = context_loader(jvm)
    for name in _CLASSES_OF_JARS:
        source = loader.loadClass(name).getProtectionDomain().getCodeSource()
        if source is None:
            raise FileNotFoundError(f"no file is known for {name}")
        with open(source.getLocation().toURI().getPath(), "rb") as jar:
            yield hashlib.file_digest(jar, "sha256").digest()
            yield jar.tell().to_bytes(8, "little")


def _loaded(jvm: Any, classes: Any) -> Any:
    finder = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder(classes)
    loader = jvm.org.codehaus.commons.compiler.util.ResourceFinderClassLoader(finder, context_loader(jvm))
    return loader.loadClass(_BRIDGE).getDeclaredConstructors()[0].newInstance(None)


def _to_bytes(jvm: Any, classes: Any) -> bytes:
    """Return a map of classes in Java's own format, by one call for all of them."""
    written = jvm.java.io.ByteArrayOutputStream()
    jvm.java.io.ObjectOutputStream(written).writeObject(classes)
    return bytes(written.toByteArray())


def _from_bytes(jvm: Any, stored: bytes) -> Any:
    return jvm.java.io.ObjectInputStream(jvm.java.io.ByteArrayInputStream(stored)).readObject()
