"""The package's Java sources, compiled by the compiler that Spark ships.

`python -m indextables.spark.jvm.java_sources` compiles all of them in a Java process without Spark, to find errors
before a session starts. `--spark-home` names another Spark than the installed one.
"""

from __future__ import annotations

import argparse
import glob
import importlib.resources
import os
import sys
from collections.abc import Sequence
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from indextables.errors import ConfigError
from indextables.spark.compat.versions import feature_release
from indextables.spark.jvm.java_runtime import find_java

PACKAGE = "indextables.spark"


def read_sources(version: str) -> dict[str, bytes]:
    """Return the sources for a version of Spark by the names of their files.

    A directory in `shims` holds the sources that are new or different since a version.
    """
    folder = importlib.resources.files(__package__).joinpath("java")
    release = feature_release(version)
    shims = {feature_release(shim.name): shim for shim in folder.joinpath("shims").iterdir()}
    folders = [folder, *(shims[known] for known in sorted(shims) if known <= release)]
    files = (file for known in folders for file in known.iterdir() if file.name.endswith(".java"))
    return {file.name: file.read_bytes() for file in files}


def compile_sources(gateway: Any, sources: dict[str, bytes]) -> Any:
    """Compile all sources in a JVM of Spark; return a map of class files."""
    jvm = gateway.jvm
    resource = jvm.org.codehaus.commons.compiler.util.resource
    texts = gateway.new_array(resource.Resource, len(sources))
    for i, name in enumerate(sorted(sources)):
        texts[i] = resource.StringResource(_path(name), sources[name].decode())
    classes = jvm.java.util.HashMap()
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(context_loader(jvm)))
    compiler.setClassFileFinder(resource.MapResourceFinder(jvm.java.util.HashMap()))
    compiler.setClassFileCreator(resource.MapResourceCreator(classes))
    compiler.compile(texts)
    return classes


def context_loader(jvm: Any) -> Any:
    """Return the class loader that finds Spark's classes."""
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def main(arguments: Sequence[str] = ()) -> int:
    """Compile every class and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m indextables.spark.jvm.java_sources")
    parser.add_argument("--spark-home", default=os.path.dirname(pyspark.__file__), help="directory of a Spark")
    jars = os.path.join(parser.parse_args(arguments).spark_home, "jars")
    try:
        java = find_java()
    except ConfigError as error:
        print(f"Java sources are not compiled because there is no Java: {error}")
        return 0
    version = _version_of(jars)
    sources = read_sources(version)
    failures = _compile_all(os.path.join(java.home, "bin", "java"), jars, sources)
    for name, failure in failures.items():
        print(f"{name}: {failure}", file=sys.stderr)
    print(f"compiled {len(sources) - len(failures)} of {len(sources)} Java sources for Spark {version}")
    return 1 if failures else 0


def _version_of(jars: str) -> str:
    """Return the version of Spark whose jar files a directory holds."""
    for path in glob.glob(os.path.join(jars, "spark-catalyst_*.jar")):
        return os.path.basename(path).removesuffix(".jar").rpartition("-")[2]
    raise SystemExit(f"there is no Spark in {jars}")


def _compile_all(program: str, jars: str, sources: dict[str, bytes]) -> dict[str, str]:
    """Return the error of each source that does not compile."""
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
        loader = _class_loader(gateway.jvm, sources)
        for name in sorted(sources):
            failure = _failure(loader, name)
            if failure is not None:
                failures[name] = failure
                loader = _class_loader(gateway.jvm, sources)  # a loader that has failed once fails again
        return failures
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait()


def _failure(loader: Any, name: str) -> str | None:
    try:
        loader.loadClass(f"{PACKAGE}.{name.removesuffix('.java')}")
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString())
    return None


def _class_loader(jvm: Any, sources: dict[str, bytes]) -> Any:
    """Return a loader that compiles classes one by one, so that errors have a source."""
    texts = jvm.java.util.HashMap()
    for name, text in sources.items():
        texts.put(_path(name), text)
    finder = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder(texts)
    return jvm.org.codehaus.janino.JavaSourceClassLoader(context_loader(jvm), finder, "UTF-8")


def _path(name: str) -> str:
    return f"{PACKAGE.replace('.', '/')}/{name}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
