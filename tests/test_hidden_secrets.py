"""A secret that was given shows nowhere: not in handles, answers, logs, errors or the store itself."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.doubles.metered_store import MeteredStore
from tests.servers import BUCKET, running
from tests.servers.recording import recording_server
from tests.servers.s3 import s3_options

import indextables as it
from indextables.cli.main import cli
from indextables.errors import StorageDeniedError

SECRET = "hush+hush/0123456789"
TOKEN = "tokenhushtoken"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with running("moto", Path()) as server:
        endpoint = server.endpoint
        yield endpoint


def hidden_options(endpoint: str) -> dict[str, object]:
    return {**s3_options(endpoint), "aws.secretKey": SECRET, "aws.sessionToken": TOKEN}


def assert_hidden(shown: object) -> None:
    assert SECRET not in str(shown)
    assert TOKEN not in str(shown)


def test_a_table_shows_none_of_its_secrets(endpoint, caplog, recwarn):
    options = hidden_options(endpoint)
    with caplog.at_level(logging.DEBUG, "indextables"):
        table = it.Table.create(f"s3://{BUCKET}/hidden", pa.schema([("id", pa.int64())]), options=options)
        table.append(pa.table({"id": [1, 2]}))
        table.set_properties({"owner": "me"})
        table.checkpoint()
        answers = [table.history(), table.files(), table.state(), table.describe_log(), table.search()]
    log = table.log
    handles = [table, log, log.config, dict(log.config.items()), log.reader, table.snapshot, log.reader.store]
    handles += [table.snapshot.metadata, MeteredStore(log.reader.store)]
    for shown in (*handles, *(answer.to_pylist() for answer in answers), caplog.text, [w.message for w in recwarn]):
        assert_hidden(shown)
        assert_hidden(repr(shown))
    store = log.reader.store
    kept = [meta.key for meta in store.list()]
    assert len(kept) > 4
    for key in kept:
        assert SECRET.encode() not in store.get(key)
    # Whoever gets a handle has to use it.
    assert SECRET.encode() in pickle.dumps(log)


ECHO = f"<Error><Code>InvalidAccessKeyId</Code><Message>{SECRET} {TOKEN}</Message></Error>"


def test_errors_and_what_led_to_them_show_none():
    with recording_server(403, ECHO) as (server, _), pytest.raises(StorageDeniedError) as caught:
        it.Table.open("s3://bucket/t", options=hidden_options(server))
    assert_hidden("".join(traceback.format_exception(caught.value)))
    assert_hidden((repr(caught.value), caught.value.args, vars(caught.value)))


@pytest.mark.parametrize("command", ["files", "history", "state", "search", "sql"])
@pytest.mark.parametrize("flags", [[], ["--verbose"]])
def test_the_command_line_shows_none(command, flags):
    with recording_server(403, ECHO) as (server, _):
        given = [text for key, value in hidden_options(server).items() for text in ("-o", f"{key}={value}")]
        words = ["DESCRIBE INDEXTABLES TRANSACTION LOG 's3://bucket/t'"] if command == "sql" else ["s3://bucket/t"]
        result = CliRunner().invoke(cli, [*flags, *given, command, *words])
    assert result.exit_code == 1
    assert "InvalidAccessKeyId" in result.output
    assert_hidden(result.output)


def test_errors_that_nobody_foresaw_show_none_on_the_command_line(monkeypatch):
    def fail(*_args: object, **_options: object) -> None:
        raise KeyError(f"{SECRET} in a message of somebody else")

    monkeypatch.setattr("indextables.table.Table.open", fail)
    for flags in ([], ["--verbose"]):
        result = CliRunner().invoke(cli, [*flags, "-o", f"aws.secretKey={SECRET}", "files", "s3://bucket/t"])
        assert "KeyError" in result.output
        assert_hidden(result.output)
