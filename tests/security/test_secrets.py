"""Secrets that a handle was opened with stand nowhere: not in the table, not in what is printed, logged or raised."""

from __future__ import annotations

import gzip
import logging
import traceback
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.conftest import SCHEMA

import indextables as it
from indextables.cli.main import cli
from indextables.config import Config, settings
from indextables.errors import ConfigError, IndexTablesError
from indextables.protocol.avro.avro_container import blocks, decode_header, plain_body
from indextables.store import open_store

SECRET = "hush-hush-0123456789"
OPTIONS = {setting.key: f"{SECRET}-{number}" for number, setting in enumerate(settings.ALL) if setting.secret}
ON_S3 = {"aws.accessKey": SECRET, "aws.secretKey": f"{SECRET}-2", "aws.region": "x", "store.retry.maxAttempts": "0"}


def rows() -> pa.Table:
    return pa.table({"id": [1, 2], "message": ["a", "b"], "day": ["d", "e"]}, schema=SCHEMA)


def plain(path: Path) -> bytes:
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if data.startswith(b"Obj\x01"):
        header = decode_header(data)
        return data + b"".join(plain_body(block, header) for block in blocks(data, header))
    return data


def test_nothing_secret_is_written_or_logged(tmp_path, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    assert len(OPTIONS) >= 9
    table = it.Table.create(tmp_path / "t", SCHEMA, options={**OPTIONS, "cache.disk.path": str(tmp_path / "cache")})
    for _ in range(3):
        table.append(rows())
    table.checkpoint()
    table.merge_splits()
    table.search("message:a")
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        assert SECRET.encode() not in plain(path), path
    for shown in (repr(table), repr(table.log), repr(table.log.config), repr(table.snapshot), caplog.text):
        assert SECRET not in shown
    answers = (table.history(), table.describe_log(include_all=True), table.state(), table.files(), table.fsck())
    assert not any(SECRET in str(answer.to_pylist()) for answer in answers)
    assert not any(SECRET in str(value) for _, value in table.log.config.items())


def test_a_store_that_cannot_be_reached_names_no_key(caplog) -> None:
    caplog.set_level(logging.DEBUG)
    options = {**ON_S3, "aws.endpoint": f"http://user:{SECRET}-3@127.0.0.1:9", "store.allowHttp": "true"}
    with pytest.raises(IndexTablesError) as caught:
        it.Table.open("s3://bucket/t", options=options)
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown.replace(repr(options), "")
    assert SECRET not in caplog.text
    assert SECRET not in repr(open_store("s3://bucket/t", Config.resolve(options=options)))


@pytest.mark.parametrize("flags", [[], ["-v"]])
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_the_command_line_names_no_key(flags, json_flag) -> None:
    given = [
        part
        for key, value in {**ON_S3, "aws.endpoint": "http://127.0.0.1:9"}.items()
        for part in ("-o", f"{key}={value}")
    ]
    result = CliRunner().invoke(cli, [*flags, *given, "files", "s3://bucket/t", *json_flag])
    assert result.exit_code == 1
    assert SECRET not in result.output


@pytest.mark.parametrize(
    "address",
    [
        f"s3://AKIAKEY:{SECRET}@bucket/t",
        f"https://user:{SECRET}@host/t",
        f"abfss://box:{SECRET}@account.example.com/t",
        f"s3:/AKIA:{SECRET}@bucket",
        f"file://user:{SECRET}@host/t",
    ],
)
def test_an_address_with_a_password_is_refused_and_not_shown(address) -> None:
    for run in (lambda: it.Table.open(address), lambda: it.TransactionLog(address)):
        with pytest.raises(ConfigError) as caught:
            run()
        assert SECRET not in str(caught.value)
    assert SECRET not in CliRunner().invoke(cli, ["-v", "files", address]).output


def test_a_bad_value_of_a_secret_is_not_shown() -> None:
    for setting in settings.ALL:
        if setting.secret:
            with pytest.raises(ConfigError) as caught:
                Config.resolve(options={setting.key: [SECRET]})
            assert SECRET not in str(caught.value)


def test_a_table_decides_nothing_about_its_readers_machine(tmp_path) -> None:
    """Whoever may write the table sets every property that belongs to the host: none is taken."""
    hostile = {
        "spark.indextables.store.allowHttp": "true",
        "spark.indextables.aws.endpoint": "http://127.0.0.1:9",
        "spark.indextables.aws.profile": "other",
        "cache.disk.path": str(tmp_path / "theirs"),
        "indexWriter.tempDirectoryPath": str(tmp_path / "theirs"),
        "store.timeoutSeconds": "1",
    }
    table = it.Table.create(tmp_path / "t", SCHEMA, options={"cache.disk.path": str(tmp_path / "ours")})
    table.set_properties(hostile)
    table.append(rows())
    assert (
        it.Table.open(tmp_path / "t", options={"cache.disk.path": str(tmp_path / "ours")}).search("message:a").num_rows
        == 1
    )
    in_force = table.log.config.with_properties({**hostile})
    for setting in settings.ALL:
        if setting.host_only:
            assert in_force.source(setting) in ("option", "default"), setting.key
    assert not (tmp_path / "theirs").exists()
