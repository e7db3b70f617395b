"""A real HDFS of one NameNode and one DataNode, from the jars that `fetch_hadoop.py` has put into `.hadoop/jars`.

It listens on 127.0.0.1 alone and ends with the block that started it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from indextables.errors import ConfigError
from indextables.spark.jvm.java_runtime import find_java

START_SECONDS = 120
# Later ones refuse the calls by which this Hadoop finds out who its user is.
NEWEST_JAVA = 22
_STOP_SECONDS = 20
_CHECKOUT = Path(__file__).resolve().parents[2]
_SERVERS = {
    "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}
_LOGGING = """\
log4j.rootLogger=WARN,A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=%d %p %c{1}: %m%n
"""


def jars() -> Path:
    """Where the jars of Hadoop should be."""
    return Path(os.environ.get("INDEXTABLES_HADOOP_JARS") or _CHECKOUT / ".hadoop" / "jars")


def missing() -> str | None:
    """Why HDFS cannot run here, with the command that brings what is missing; None where it can."""
    if importlib.util.find_spec("hdfs_native") is None:
        return "no `hdfs-native` here: pip install 'indextables[hdfs]'"
    if not list(jars().glob("hadoop-hdfs-*.jar")):
        return f"no jars of Hadoop in `{jars()}`: python tests/servers/fetch_hadoop.py"
    try:
        java = find_java()
    except ConfigError as error:
        return error.message
    if java.version > NEWEST_JAVA:
        return f"Hadoop's servers need Java {NEWEST_JAVA} or older, and `{java.home}` is Java {java.version}"
    return None


@dataclasses.dataclass
class RunningHdfs:
    """HDFS under way: `url` is its root, `options` are what a client should be told."""

    port: int
    directory: Path
    processes: dict[str, subprocess.Popen[bytes]] = dataclasses.field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, object]:
        return {"store.retry.maxAttempts": 4}

    def start(self, name: str) -> None:
        """Start the NameNode or the DataNode, with the data that it has."""
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(self._command(name), stdout=log, stderr=log, cwd=self.directory)

    def kill(self, name: str) -> None:
        """End one of them as a crash does."""
        self.processes[name].kill()
        self.processes[name].wait(_STOP_SECONDS)

    def format(self) -> None:
        with (self.directory / "format.log").open("ab") as log:
            command = [*self._command("namenode"), "-format", "-nonInteractive"]
            subprocess.run(command, stdout=log, stderr=log, cwd=self.directory, timeout=START_SECONDS, check=True)

    def wait(self) -> None:
        """Until a file can be written and read."""
        from hdfs_native import Client

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                client = Client(self.url, {"dfs.client.failover.max.attempts": "0"})
                with client.create(f"/ready-{time.monotonic_ns()}") as file:
                    file.write(b"x")
            except (OSError, RuntimeError) as error:
                ended = [name for name, process in self.processes.items() if process.poll() is not None]
                if ended or time.monotonic() > deadline:
                    raise RuntimeError(f"HDFS did not start ({error}): {self._logs()}") from error
                time.sleep(0.2)
            else:
                return

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_STOP_SECONDS)

    def _command(self, name: str) -> list[str]:
        java = os.path.join(find_java().home, "bin", "java")
        # Small and quick to start; threads for collecting garbage would take the cores from the tests.
        quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        places = f"{self.directory / 'conf'}{os.pathsep}{jars()}/*"
        return [java, *quick, f"-Djava.io.tmpdir={self.directory}", "-cp", places, _SERVERS[name]]

    def _logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(self.directory.glob("*.log")))


@contextlib.contextmanager
def running_hdfs(directory: Path) -> Iterator[RunningHdfs]:
    """HDFS with nothing in it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    hdfs = RunningHdfs(port, directory)
    _configure(directory, port)
    try:
        hdfs.format()
        hdfs.start("namenode")
        hdfs.start("datanode")
        hdfs.wait()
        yield hdfs
    finally:
        hdfs.stop()


def _configure(directory: Path, port: int) -> None:
    conf = directory / "conf"
    for page in ("hdfs", "datanode"):  # both have pages for browsers, and want a place for them
        (conf / "webapps" / page).mkdir(parents=True)
    core = {"fs.defaultFS": f"hdfs://127.0.0.1:{port}", "hadoop.tmp.dir": str(directory / "tmp")}
    hdfs = {
        "dfs.namenode.name.dir": (directory / "name").as_uri(),
        "dfs.datanode.data.dir": (directory / "data").as_uri(),
        "dfs.replication": "1",
        "dfs.webhdfs.enabled": "false",
        "dfs.namenode.http-address": "127.0.0.1:0",
        "dfs.namenode.safemode.extension": "0",
        "dfs.heartbeat.interval": "1",
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.hostname": "127.0.0.1",
    }
    for name, keys in (("core-site.xml", core), ("hdfs-site.xml", hdfs)):
        properties = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>" for key, value in keys.items()
        )
        (conf / name).write_text(f"<configuration>{properties}</configuration>")
    (conf / "log4j.properties").write_text(_LOGGING)
