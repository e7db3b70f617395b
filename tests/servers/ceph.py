"""Ceph: a monitor, one object daemon and the RADOS Gateway, which speaks S3. Debian has its packages.

Of all S3 servers here it is the nearest to what large installations run, and the slowest to start: for long runs.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import boto3
from tests.servers.base import BUCKET, Running, free_ports, process
from tests.servers.s3 import s3_options

_PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
_STEP_SECONDS = 120
_SETTINGS = """\
[global]
fsid = {fsid}
mon_host = {monitor}
public_addr = 127.0.0.1
public_network = 127.0.0.0/8
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 2000
run_dir = {directory}
admin_socket = {directory}/$name.asok
log_file = {directory}/$name.log
mon_data = {directory}/mon
osd_data = {directory}/osd
osd_objectstore = bluestore
bluestore_block_size = {block_bytes}
osd_memory_target = 1073741824
rgw_data = {directory}/rgw
rgw_frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
[client]
keyring = {directory}/keyring
"""
_BLOCK_BYTES = 8 << 30


def missing_ceph() -> str | None:
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    return f"no `{absent[0]}`: apt-get install ceph-mon ceph-osd ceph-common radosgw" if absent else None


@contextlib.contextmanager
def ceph_server(directory: Path) -> Iterator[Running]:
    """The gateway with one bucket. Killing it kills the object daemon too, as a machine that goes down does."""
    directory.mkdir(parents=True, exist_ok=True)
    port, first, second = free_ports(3)
    monitor = f"[v2:127.0.0.1:{first},v1:127.0.0.1:{second}]"
    settings = directory / "ceph.conf"
    fsid = str(uuid.uuid4())
    settings.write_text(
        _SETTINGS.format(fsid=fsid, monitor=monitor, directory=directory, port=port, block_bytes=_BLOCK_BYTES)
    )
    cluster = _Cluster(settings)
    with contextlib.ExitStack() as daemons:
        cluster.run("monmaptool", "--create", "--addv", "a", monitor, "--fsid", fsid, str(directory / "map"))
        cluster.make_keys(directory / "keyring")
        cluster.run(
            "ceph-mon", "--mkfs", "-i", "a", "--monmap", str(directory / "map"), "--keyring", str(directory / "keyring")
        )
        daemons.enter_context(process(cluster.command("ceph-mon", "-f", "-i", "a"), directory, cluster.answers))
        disk = str(uuid.uuid4())
        cluster.run("ceph", "osd", "new", disk)
        (directory / "osd").mkdir()
        allowed = ("mon", "allow profile osd", "osd", "allow *")
        cluster.run("ceph", "auth", "get-or-create", "osd.0", *allowed, "-o", str(directory / "osd/keyring"))
        cluster.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", disk)
        cluster.run("ceph", "osd", "crush", "add", "0", "1.0", "host=here", "root=default")
        osd = daemons.enter_context(process(cluster.command("ceph-osd", "-f", "-i", "0"), directory, cluster.has_disk))
        endpoint = f"http://127.0.0.1:{port}"
        options = s3_options(endpoint)
        keys = [f"--access-key={options['aws.accessKey']}", f"--secret={options['aws.secretKey']}"]
        cluster.run("radosgw-admin", "user", "create", "--uid=tests", "--display-name=tests", *keys)
        gateway = daemons.enter_context(
            process(cluster.command("radosgw", "-f", "-n", "client.admin"), directory, lambda: _listens(port))
        )
        _create_bucket(options)

        def kill() -> None:
            gateway.kill()
            osd.kill()

        def start() -> None:
            osd.start()
            gateway.start()

        yield Running("ceph", f"s3://{BUCKET}", endpoint, options, "aws.endpoint", kill=kill, start=start)


class _Cluster:
    """Commands that speak to one cluster."""

    def __init__(self, settings: Path) -> None:
        self._settings = settings

    def command(self, program: str, *arguments: str) -> list[str]:
        return [program, "-c", str(self._settings), *arguments]

    def run(self, program: str, *arguments: str) -> str:
        command = [program, *arguments] if program == "monmaptool" else self.command(program, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_STEP_SECONDS, check=False)
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def make_keys(self, keyring: Path) -> None:
        everything = ("--cap", "mon", "allow *", "--cap", "osd", "allow *")
        keyring.touch()
        for name in ("mon.", "client.admin"):
            self.run("ceph-authtool", str(keyring), "--gen-key", "-n", name, *everything)

    def answers(self) -> None:
        self.run("ceph", "--connect-timeout", "3", "mon", "stat")

    def has_disk(self) -> None:
        if "1 up" not in self.run("ceph", "--connect-timeout", "3", "osd", "stat"):
            raise OSError("the object daemon is not up yet")


def _create_bucket(options: Mapping[str, object]) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=options["aws.endpoint"],
        aws_access_key_id=options["aws.accessKey"],
        aws_secret_access_key=options["aws.secretKey"],
        region_name=options["aws.region"],
    )
    client.create_bucket(Bucket=BUCKET)
    client.close()


def _listens(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), 1).close()
