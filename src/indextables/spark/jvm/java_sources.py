"""The package's Java sources, compiled by the compiler that Spark ships.

`python -m indextables.spark.jvm.java_sources` compiles all of them in a Java process without Spark, to find errors
before a session starts.
"""

from __future__ import annotations

import glob
import importlib.resources
import os
import sys
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from indextables.errors import ConfigError
from indextables.spark.jvm.java_runtime import find_java

_PACKAGE = "indextables.spark"
_BRIDGE = f"{_PACKAGE}.Bridge"


def make_bridge(jvm: Any) -> Any:
    """Return the object through which Python calls our Java classes in a JVM of Spark."""
    return _class_loader(jvm).loadClass(_BRIDGE).getDeclaredConstructors()[0].newInstance(None)


def main() -> int:
    """Compile every class and return the exit code."""
    try:
        java = find_java()
    except ConfigError as error:
        print(f"Java sources are not compiled because there is no Java: {error}")
        return 0
    failures = _compile_all(os.path.join(java.home, "bin", "java"))
    for name, failure in failures.items():
        print(f"{name}: {failure}", file=sys.stderr)
    print(f"compiled {len(_sources()) - len(failures)} of {len(_sources())} Java sources")
    return 1 if failures else 0


def _compile_all(program: str) -> dict[str, str]:
    """Return the error of each source that does not compile."""
    jars = os.path.join(os.path.dirname(pyspark.__file__), "jars")
    (py4j,) = glob.glob(os.path.join(jars, "py4j-*.jar"))
    port, process = launch_gateway(
        jarpath=py4j,
        classpath=os.path.join(jars, "*"),
        java_path=program,
        javaopts=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        die_on_exit=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        failures: dict[str, str] = {}
        loader = _class_loader(gateway.jvm)
        for name in sorted(_sources()):
            failure = _failure(loader, name)
            if failure is not None:
                failures[name] = failure
                loader = _class_loader(gateway.jvm)  # a loader that has failed once fails again
        return failures
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait()


def _failure(loader: Any, name: str) -> str | None:
    try:
        loader.loadClass(f"{_PACKAGE}.{name.removesuffix('.java')}")
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString())
    return None


def _class_loader(jvm: Any) -> Any:
    sources = jvm.java.util.HashMap()
    for name, text in _sources().items():
        sources.put(f"{_PACKAGE.replace('.', '/')}/{name}", text)
    finder = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder(sources)
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.org.codehaus.janino.JavaSourceClassLoader(parent, finder, "UTF-8")


def _sources() -> dict[str, bytes]:
    files = importlib.resources.files(__package__).joinpath("java").iterdir()
    return {file.name: file.read_bytes() for file in files if file.name.endswith(".java")}


if __name__ == "__main__":
    sys.exit(main())
